// What a block knows of its mbarriers beyond the 64 bits that each has in shared memory: the copies
// that a phase waits for, and who waits in vain.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "async_copies.hpp"
#include "program.hpp"

namespace cudademo::emulator {

class Warp;

// The 64 bits. PTX leaves their layout open.
struct MbarrierState {
  std::uint32_t expected = 0;  // arrivals of the next phase
  std::uint32_t pending = 0;   // arrivals that this phase still waits for
  std::int32_t bytes = 0;      // that this phase still waits for
  bool phase = false;          // its parity

  static constexpr std::uint32_t most = (1u << 20) - 1;

  std::uint64_t bits() const noexcept;
  static MbarrierState of(std::uint64_t bits) noexcept;
  // False for bits that no mbarrier.init wrote.
  static bool is_valid(std::uint64_t bits) noexcept;
};

class Mbarriers {
 public:
  // An mbarrier's phase finishes what the thread has issued with cp.async until now.
  void attach(std::uint64_t offset, std::uint32_t thread, std::uint64_t issued);
  // The same for a bulk copy, whose bytes count as moved only once somebody looks.
  void attach(std::uint64_t offset, const AsyncCopy& copy);
  std::uint32_t take_moved(std::uint64_t offset);

  // All have arrived: the copies are finished.
  void complete(Block& block, std::uint64_t offset);
  // A wait of the warp was in vain; how many have been since the phase began.
  std::uint32_t count_vain(std::uint64_t offset, unsigned warp);
  void forget(std::uint64_t offset);

 private:
  struct Phase {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> threads;
    std::vector<AsyncCopy> copies;
    std::uint32_t moved = 0;               // bytes
    std::array<std::uint32_t, 32> vain{};  // by warp
  };

  std::map<std::uint64_t, Phase> phases_;  // by offset in shared memory
};

}  // namespace cudademo::emulator
