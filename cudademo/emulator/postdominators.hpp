// Where the paths from a branch meet again.
#pragma once

#include <cstdint>
#include <vector>

namespace cudademo::emulator {

struct Successors {
  std::vector<std::uint32_t> to;
};

// The immediate post-dominator of each node; the last node is the exit, and its own.
// After Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001), on the graph
// turned round.
std::vector<std::uint32_t> post_dominators(const std::vector<Successors>& graph);

}  // namespace cudademo::emulator
