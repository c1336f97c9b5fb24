// The memory that kernels get from malloc and new. As on a GPU it outlives the launch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "memory.hpp"

namespace cudademo::emulator {

struct HeapBlock {
  Range range;
  std::string freed_at;  // "line 7"; only to be read once it is freed
  std::unique_ptr<std::byte[]> storage;
  std::vector<std::byte> written;  // one where the byte was

  bool is_live() const noexcept { return !is_freed_.load(std::memory_order_acquire); }
  void free(const std::string& place) {
    freed_at = place;
    is_freed_.store(true, std::memory_order_release);
  }
  bool holds(std::uint64_t address, std::size_t bytes) const noexcept {
    return address >= range.begin && address < range.end && bytes <= range.end - address;
  }

 private:
  std::atomic<bool> is_freed_{false};
};

class Heap {
 public:
  static constexpr std::size_t limit_bytes = std::size_t{8}
                                             << 20;  // CUDA's cudaLimitMallocHeapSize

  // Zero once the limit is reached. `place` is where the kernel asks: "line 7".
  std::uint64_t allocate(std::size_t bytes, const std::string& place);
  // The words for what is wrong with it; empty where nothing is.
  std::string release(std::uint64_t address, const std::string& place);
  // The block, in use or freed, that the address is in or next to; null without any.
  // Shared, since blocks that run at the same time may free it, and more until it is forgotten.
  std::shared_ptr<HeapBlock> nearest(std::uint64_t address) noexcept;

 private:
  std::mutex guard_;
  std::map<std::uint64_t, std::shared_ptr<HeapBlock>> blocks_;
  std::deque<std::uint64_t> freed_;  // kept for a while, to know a use after the end
  std::size_t live_bytes_ = 0;
  std::size_t freed_bytes_ = 0;
};

}  // namespace cudademo::emulator
