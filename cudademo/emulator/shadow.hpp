// A cell for each granule of the global memory that a launch may touch.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory.hpp"
#include "stamp.hpp"

namespace cudademo::emulator {

class Shadow {
 public:
  // A granule is of 1 << shift bytes, and no access is smaller.
  Shadow(const std::vector<Range>& ranges, unsigned shift);
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  unsigned shift() const noexcept { return shift_; }
  // The cell of an address; null where there is none.
  Cell* cell(std::uint64_t address) const noexcept;

  // Cells near one another have one lock, for blocks that run at the same time.
  class Lock {
   public:
    Lock(Shadow& shadow, std::uint64_t address) noexcept
        : taken_(shadow.taken_[address >> 9 & (lock_count - 1)]) {
      while (taken_.test_and_set(std::memory_order_acquire)) {
      }
    }
    ~Lock() { taken_.clear(std::memory_order_release); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    std::atomic_flag& taken_;
  };

 private:
  static constexpr std::size_t lock_count = 4096;

  struct Segment {
    std::uint64_t begin;
    std::uint64_t end;
    std::size_t first;  // its cells'
  };

  unsigned shift_;
  std::vector<Segment> segments_;
  std::vector<Cell> small_;  // the cells, where they are few
  Cell* cells_ = nullptr;
  std::size_t bytes_ = 0;
  std::array<std::atomic_flag, lock_count> taken_{};
};

}  // namespace cudademo::emulator
