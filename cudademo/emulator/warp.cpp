#include "warp.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "block.hpp"
#include "row_guards.hpp"

namespace cudademo::emulator {

namespace {

constexpr std::size_t row_alignment = 64;
constexpr std::size_t max_frames = 4096;                       // calls within calls
constexpr std::size_t max_frame_bytes = std::size_t{1} << 28;  // of all of a warp's frames
constexpr std::uint32_t max_local_bytes = 512 * 1024;

// From one frame's parameter memory to another's, lane by lane.
void copy_slots(const Frame& from, const std::vector<Slot>& sources, Frame& to,
                const std::vector<Slot>& targets, Mask mask) {
  const std::size_t count = std::min(sources.size(), targets.size());
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    const std::byte* there = from.parameters.data() + lane * from.function->parameter_bytes;
    std::byte* here = to.parameters.data() + lane * to.function->parameter_bytes;
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(here + targets[i].offset, there + sources[i].offset,
                  std::min(sources[i].bytes, targets[i].bytes));
    }
  }
}

// Of the lanes in `among`, those whose value is that of the first.
template <typename T>
Mask like_the_first(Mask among, const T& values) {
  Mask group = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (is_set(among, lane) && values[lane] == values[first_lane(among)]) group |= Mask{1} << lane;
  }
  return group;
}

}  // namespace

Warp::Warp(Block& block, unsigned index, Mask live) : block_(&block), index_(index), live_(live) {
  const Launch& launch = block.launch();
  Frame* frame = make_frame(*launch.entry, live);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    std::copy(launch.parameters.begin(), launch.parameters.end(),
              frame->parameters.begin() + lane * launch.entry->parameter_bytes);
  }
  fragments_.push_back({live, 0, -1, frame});
}

// ---- frames ----

Frame* Warp::make_frame(const Function& function, Mask mask) {
  Frame* frame = nullptr;
  for (std::size_t i = 0; i < free_frames_.size(); ++i) {
    if (free_frames_[i]->function != &function) continue;
    frame = free_frames_[i];
    free_frames_.erase(free_frames_.begin() + static_cast<std::ptrdiff_t>(i));
    break;
  }
  if (frame == nullptr) {
    if (frames_.size() >= max_frames) {
      fail(kind::invalid, first_lane(mask), "calls are nested more than 4096 deep");
    }
    const std::size_t parameter_bytes = std::size_t{function.parameter_bytes} * lanes;
    frame_bytes_ += function.frame_bytes + parameter_bytes;
    if (frame_bytes_ > max_frame_bytes) {
      fail(kind::invalid, first_lane(mask), "the warp's registers take more than 256 MB");
    }
    frames_.push_back(std::make_unique<Frame>());
    frame = frames_.back().get();
    frame->function = &function;
    frame->storage = std::make_unique<std::byte[]>(function.frame_bytes + row_alignment);
    const auto address = reinterpret_cast<std::uintptr_t>(frame->storage.get());
    frame->rows = frame->storage.get() + (row_alignment - address % row_alignment);
    if (!function.constants.empty()) {
      std::memcpy(frame->rows + function.constants_offset, function.constants.data(),
                  function.constants.size());
    }
    guard_rows(frame->rows, function.gaps);
    frame->parameters.resize(parameter_bytes);
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    frame->local_base[lane] = local_top_[lane];
    if (function.local_bytes != 0 && is_set(mask, lane)) {
      set_local_top(lane, local_top_[lane] + function.local_bytes);
    }
  }
  return frame;
}

void Warp::set_local_top(unsigned lane, std::uint32_t top) {
  if (top > max_local_bytes) {
    fail(kind::out_of_bounds, lane, "the thread's stack of 512 KB is full");
  }
  auto& state = local_state_[lane];
  const std::uint32_t former = local_top_[lane];
  local_top_[lane] = top;
  if (local_[lane].size() < top) {
    local_[lane].resize(top);
    state.resize(top);
  }
  if (top > former) std::fill(state.begin() + former, state.begin() + top, std::byte{0});
}

std::byte* Warp::local(unsigned lane, std::uint64_t offset, std::size_t bytes) noexcept {
  if (offset + bytes > local_top_[lane] || offset + bytes < offset) return nullptr;
  return local_[lane].data() + offset;
}

std::byte* Warp::local_state(unsigned lane, std::uint64_t offset) noexcept {
  return local_state_[lane].data() + offset;
}

// ---- fragments ----

void Warp::pick(std::size_t fragment) {
  current_ = fragment;
  const Fragment& chosen = fragments_[fragment];
  mask_ = chosen.mask;
  pc_ = chosen.pc;
  join_ = chosen.join;
  frame_ = chosen.frame;
  rows_ = frame_->rows;
  leaving_ = false;
}

void Warp::put_back() {
  Fragment& fragment = fragments_[current_];
  fragment.mask = mask_;
  fragment.pc = pc_;
  fragment.join = join_;
  fragment.frame = frame_;
}

void Warp::remove_current() {
  fragments_.erase(fragments_.begin() + static_cast<std::ptrdiff_t>(current_));
  leaving_ = true;
  mask_ = 0;
}

Warp::Outcome Warp::run(std::uint64_t instructions) {
  // Each ready fragment has a share, so that none starves another.
  constexpr std::uint64_t share = 4096;
  std::size_t next = 0;
  std::uint64_t left = instructions;
  while (left > 0) {
    if (fragments_.empty()) return Outcome::finished;
    std::size_t chosen = fragments_.size();
    for (std::size_t i = 0; i < fragments_.size(); ++i) {
      const std::size_t at = (next + i) % fragments_.size();
      if (fragments_[at].state != Fragment::State::ready) continue;
      chosen = at;
      break;
    }
    if (chosen == fragments_.size()) return Outcome::waiting;
    pick(chosen);
    const std::size_t population = fragments_.size();
    std::uint64_t budget = std::min(left, share);
    left -= budget;
    while (!leaving_ && budget > 0) {
      if (join_ >= 0) {
        const Join& join = joins_[static_cast<std::size_t>(join_)];
        if (pc_ == join.pc && frame_ == join.frame) {
          arrive();
          break;
        }
      }
      const Instruction& instruction = frame_->function->code[pc_++];
      instruction_ = &instruction;
      Mask mask = mask_;
      if (instruction.guard != no_row) {
        Mask guard;
        std::memcpy(&guard, rows_ + instruction.guard, sizeof(guard));
        mask &= instruction.guard_negated ? ~guard : guard;
        if (mask == 0) {
          --budget;
          continue;
        }
      }
      --budget;
      if (instruction.is_first) executed_ += static_cast<unsigned>(std::popcount(mask));
      instruction.execute(*this, instruction, mask);
    }
    left += budget;
    const bool yielded = leaving_ && mask_ != 0;
    if (mask_ != 0) put_back();
    // A fragment that used up its share lets the next one run.
    next = mask_ != 0 && fragments_.size() == population ? current_ + 1 : current_;
    if (fragments_.empty()) return Outcome::finished;
    if (yielded && std::all_of(fragments_.begin(), fragments_.end(), [](const Fragment& f) {
          return f.state == Fragment::State::ready;
        })) {
      return Outcome::running;
    }
  }
  return Outcome::running;
}

int Warp::new_join(std::uint32_t pc) {
  if (join_ >= 0) {
    const Join& known = joins_[static_cast<std::size_t>(join_)];
    if (known.pc == pc && known.frame == frame_) return join_;
  }
  const Join made{pc, mask_, 0, join_, frame_, true};
  for (std::size_t i = 0; i < joins_.size(); ++i) {
    if (joins_[i].in_use) continue;
    joins_[i] = made;
    return static_cast<int>(i);
  }
  joins_.push_back(made);
  return static_cast<int>(joins_.size() - 1);
}

void Warp::branch(Mask taken, std::uint32_t target, std::uint32_t reconverge) {
  if (taken == mask_) {
    pc_ = target;
    return;
  }
  join_ = new_join(reconverge);
  mask_ &= ~taken;
  fragments_.push_back({taken, target, join_, frame_});
}

void Warp::branch_each(Mask taken, const std::uint32_t* targets, std::uint32_t reconverge) {
  for (Mask left = taken; left != 0;) {
    const Mask group = like_the_first(left, targets);
    const std::uint32_t target = targets[first_lane(group)];
    left &= ~group;
    branch(group, target, reconverge);
  }
}

// The current fragment has come to where its join is.
void Warp::arrive() {
  const int join = join_;
  joins_[static_cast<std::size_t>(join)].arrived |= mask_;
  remove_current();
  complete(join);
}

// Lets the lanes of a join go on where all that are expected have come.
void Warp::complete(int index) {
  while (index >= 0) {
    Join& join = joins_[static_cast<std::size_t>(index)];
    if (join.arrived != join.expected) return;
    join.in_use = false;
    const int parent = join.parent;
    if (join.arrived != 0) {
      fragments_.push_back({join.arrived, join.pc, parent, join.frame});
      return;
    }
    index = parent;
  }
}

void Warp::leave_joins(int join, Frame* frame, Mask mask) {
  while (true) {
    while (join >= 0) {
      Join& left = joins_[static_cast<std::size_t>(join)];
      const int parent = left.parent;
      left.expected &= ~mask;
      if (left.in_use && left.arrived == left.expected) {
        left.in_use = false;
        if (left.arrived != 0) {
          fragments_.push_back({left.arrived, left.pc, parent, left.frame});
        }
      }
      join = parent;
    }
    if (frame->caller == nullptr) return;
    join = frame->caller_join;
    frame = frame->caller;
  }
}

void Warp::exit(Mask mask) {
  live_ &= ~mask;
  mask_ &= ~mask;
  const int join = join_;
  Frame* frame = frame_;
  if (mask_ == 0) remove_current();
  leave_joins(join, frame, mask);
  if (mask_ != 0) leaving_ = true;  // what waited for these lanes may go on
  block_->threads_exited();
}

void Warp::call(const CallSite& site, const Function& callee, Mask mask) {
  if (mask != mask_) {
    // The lanes that do not call wait behind the call.
    const std::uint32_t back = pc_;
    const Mask rest = mask_ & ~mask;
    join_ = new_join(back);
    fragments_.push_back({rest, back, join_, frame_});
    mask_ = mask;
  }
  if (callee.system_call != nullptr) {
    callee.system_call(*this, site, mask);
    return;
  }
  Frame* frame = make_frame(callee, mask);
  frame->caller = frame_;
  frame->return_pc = pc_;
  frame->caller_join = join_;
  frame->site = &site;
  copy_slots(*frame_, site.arguments, *frame, callee.parameters, mask);
  frame_ = frame;
  rows_ = frame->rows;
  pc_ = 0;
  join_ = -1;
}

void Warp::call_each(const CallSite& site, const std::array<const Function*, lanes>& callees,
                     Mask mask) {
  // Lane after lane to one place: the calls are made one after another from a copy of the site.
  const Function* first = callees[first_lane(mask)];
  const Mask group = like_the_first(mask, callees);
  if (group != mask) {
    // The others come to this instruction again.
    const std::uint32_t back = pc_;
    const Mask rest = mask & ~group;
    join_ = new_join(back);
    fragments_.push_back({rest, back - 1, join_, frame_});
    const Mask idle = mask_ & ~mask;
    if (idle != 0) fragments_.push_back({idle, back, join_, frame_});
    mask_ = group;
  }
  call(site, *first, group);
}

void Warp::leave_function() {
  Frame* frame = frame_;
  if (frame->caller == nullptr) return exit(mask_);
  Frame* caller = frame->caller;
  copy_slots(*frame, frame->function->results, *caller, frame->site->results, mask_);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (is_set(mask_, lane)) local_top_[lane] = frame->local_base[lane];
  }
  frame_ = caller;
  rows_ = caller->rows;
  pc_ = frame->return_pc;
  join_ = frame->caller_join;
  free_frames_.push_back(frame);
}

void Warp::wait_at_barrier(int barrier) {
  Fragment& fragment = fragments_[current_];
  fragment.state = Fragment::State::at_barrier;
  fragment.barrier = barrier;
  leaving_ = true;
}

bool Warp::release_from_barrier(int barrier) {
  bool any = false;
  for (Fragment& fragment : fragments_) {
    if (fragment.state == Fragment::State::at_barrier && fragment.barrier == barrier) {
      fragment.state = Fragment::State::ready;
      any = true;
    }
  }
  return any;
}

bool Warp::gather(Mask members, Mask& mask) {
  const Mask needed = members & live_;
  if ((needed & ~mask) == 0) return true;
  const std::uint32_t here = pc_ - 1;
  const auto waits_here = [&](const Fragment& other) {
    return other.state == Fragment::State::at_warp_sync && other.pc == here &&
           other.frame == frame_ && other.members == members;
  };
  Mask together = mask;
  for (const Fragment& other : fragments_) {
    if (waits_here(other)) together |= other.waiting;
  }
  if ((needed & ~together) != 0) {
    Fragment& fragment = fragments_[current_];
    fragment.state = Fragment::State::at_warp_sync;
    fragment.waiting = mask;
    fragment.members = members;
    pc_ = here;
    leaving_ = true;
    return false;
  }
  for (Fragment& other : fragments_) {
    if (!waits_here(other)) continue;
    other.state = Fragment::State::ready;
    ++other.pc;
  }
  mask = together;
  return true;
}

// ---- reports ----

Report Warp::report(const char* kind, unsigned lane) const {
  Report made;
  made.kind = kind;
  made.kernel = block_->launch().entry->name;
  made.has_thread = true;
  made.block = block_->index();
  made.thread = block_->thread(index_, lane);
  if (instruction_ != nullptr && instruction_->written != nullptr) {
    const ptx::Location& location = instruction_->written->location;
    const auto& files = block_->launch().program->source.files;
    if (static_cast<std::size_t>(location.file) < files.size()) {
      made.file = files[static_cast<std::size_t>(location.file)];
    }
    made.line = location.line;
  }
  return made;
}

void Warp::fail(const char* kind, unsigned lane, std::string what) const {
  Report made = report(kind, lane);
  made.what = std::move(what);
  throw Fault(std::move(made));
}

std::string Warp::place_of(const Fragment& fragment) const {
  const auto& code = fragment.frame->function->code;
  const std::size_t pc = fragment.pc > 0 && fragment.state == Fragment::State::at_barrier
                             ? fragment.pc - 1
                             : fragment.pc;
  if (pc >= code.size() || code[pc].written == nullptr) return "the end";
  const ptx::Location& location = code[pc].written->location;
  return "line " + std::to_string(location.line);
}

}  // namespace cudademo::emulator
