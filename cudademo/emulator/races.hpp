// Finds pairs of accesses to a block's shared memory that nothing puts in order.
//
// Each byte remembers its last write and its last two readers, each stamped with the thread and the
// epochs of its warp and lane. An epoch ends where a thread synchronises; who has synchronised with
// whom since is what `known` tables tell: vector clocks, as in FastTrack (Flanagan and Freund,
// 2009), but one clock for a warp between warps, and one for a lane within its warp. Atomics order
// all that came before them in their warp, so what they guard is not reported.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "program.hpp"

namespace cudademo::emulator {

class Races {
 public:
  Races(std::size_t bytes, unsigned warps);

  static constexpr std::uint32_t nobody = 0xffffffff;

  // Notes an access; returns the thread (of the block) that it conflicts with, or nobody.
  std::uint32_t read(std::uint32_t thread, std::size_t offset, std::size_t bytes);
  std::uint32_t write(std::uint32_t thread, std::size_t offset, std::size_t bytes);

  // Lanes of a warp have met.
  void meet(unsigned warp, Mask group);
  // A warp has come to a barrier of the block, and has left it.
  void arrive(unsigned warp, int barrier);
  void leave(unsigned warp, int barrier);
  // An atomic or a volatile access, or a fence: of this address, or of any that is not shared.
  void order(unsigned warp, std::uint64_t address);

 private:
  struct Stamp {
    std::uint32_t thread_plus_one = 0;
    std::uint32_t warp_epoch = 0;
    std::uint32_t lane_epoch = 0;
  };
  struct Cell {
    Stamp writer;
    Stamp readers[2];
  };
  using Clock = std::array<std::uint32_t, 32>;  // of each warp, or of each lane
  struct WarpClocks {
    std::uint32_t epoch = 1;
    Clock known{};  // of other warps
    std::array<Clock, lanes> lanes_known{};
    Clock lane_epochs{};
  };

  Stamp stamp(std::uint32_t thread) const;
  bool is_before(const Stamp& then, std::uint32_t thread) const;

  std::vector<Cell> cells_;
  std::vector<WarpClocks> warps_;
  std::array<Clock, 16> barriers_{};
  std::map<std::uint64_t, Clock> ordered_;
};

}  // namespace cudademo::emulator
