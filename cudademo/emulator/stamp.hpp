// Who touched a byte last, and when: what race detection remembers of memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace cudademo::emulator {

// A warp's epoch ends where it synchronises; a clock holds one of each warp of a block, or of each
// lane of a warp.
using Clock = std::array<std::uint32_t, 32>;

inline void join(Clock& into, const Clock& from) noexcept {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

struct Stamp {
  std::uint32_t block_plus_one = 0;  // 0 for nobody
  std::uint32_t epoch = 0;           // of the thread's warp
  std::uint32_t thread : 10 = 0;     // within the block
  std::uint32_t writes : 1 = 0;      // among a cell's readers: what was there already
  std::uint32_t site : 21 = 0;       // of Program::sites; 0 for one of a higher number
};

// Of one granule of memory: its last write that changed it, and two of its other accesses since.
struct Cell {
  Stamp writer;
  Stamp readers[2];
};

}  // namespace cudademo::emulator
