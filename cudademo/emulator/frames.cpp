// Calls: a function's frame, and the stack of each thread's local memory.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "block.hpp"
#include "registers.hpp"
#include "row_guards.hpp"
#include "warp.hpp"

namespace cudademo::emulator {

namespace {

constexpr std::size_t max_frames = 4096;                       // calls within calls
constexpr std::size_t max_frame_bytes = std::size_t{1} << 28;  // of all of a warp's frames
constexpr std::uint32_t max_local_bytes = 512 * 1024;

// From one frame's parameter memory to another's, lane by lane.
void copy_slots(const Frame& from, const std::vector<Slot>& sources, Frame& to,
                const std::vector<Slot>& targets, Mask mask) {
  const std::size_t count = std::min(sources.size(), targets.size());
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    const std::byte* there =
        from.parameters.data() + std::size_t{lane} * from.function->parameter_bytes;
    std::byte* here = to.parameters.data() + std::size_t{lane} * to.function->parameter_bytes;
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(here + targets[i].offset, there + sources[i].offset,
                  std::min(sources[i].bytes, targets[i].bytes));
    }
  }
}

}  // namespace

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

}  // namespace cudademo::emulator
