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
  std::uint32_t site : 22 = 0;       // the instruction's number in its program
};

// Of one granule of memory: its last write, and two of its readers since.
struct Cell {
  Stamp writer;
  Stamp readers[2];
};

}  // namespace cudademo::emulator
