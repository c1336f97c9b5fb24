#include "warp.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "block.hpp"

namespace cudademo::emulator {

namespace {

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
              frame->parameters.begin() + std::ptrdiff_t{lane} * launch.entry->parameter_bytes);
  }
  fragments_.push_back({live, 0, -1, frame});
}

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
