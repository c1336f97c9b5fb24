#include "postdominators.hpp"

#include <cstddef>
#include <utility>

namespace cudademo::emulator {

std::vector<std::uint32_t> post_dominators(const std::vector<Successors>& graph) {
  constexpr std::uint32_t unknown = 0xffffffff;
  const auto count = static_cast<std::uint32_t>(graph.size());
  const std::uint32_t exit = count - 1;
  std::vector<std::vector<std::uint32_t>> before(count);
  for (std::uint32_t node = 0; node < count; ++node) {
    for (const std::uint32_t next : graph[node].to) before[next].push_back(node);
  }
  // Post-order of the graph turned round, from the exit.
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> number(count, unknown);
  std::vector<bool> seen(count, false);
  std::vector<std::pair<std::uint32_t, std::size_t>> path{{exit, 0}};
  seen[exit] = true;
  while (!path.empty()) {
    auto& [node, child] = path.back();
    if (child < before[node].size()) {
      const std::uint32_t next = before[node][child++];
      if (!seen[next]) {
        seen[next] = true;
        path.emplace_back(next, 0);
      }
    } else {
      number[node] = static_cast<std::uint32_t>(order.size());
      order.push_back(node);
      path.pop_back();
    }
  }
  std::vector<std::uint32_t> immediate(count, unknown);
  immediate[exit] = exit;
  const auto meet = [&](std::uint32_t a, std::uint32_t b) {
    while (a != b) {
      while (number[a] < number[b]) a = immediate[a];
      while (number[b] < number[a]) b = immediate[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      if (*node == exit) continue;
      std::uint32_t found = unknown;
      for (const std::uint32_t next : graph[*node].to) {
        if (immediate[next] == unknown) continue;
        found = found == unknown ? next : meet(next, found);
      }
      if (found == immediate[*node]) continue;
      immediate[*node] = found;
      changed = true;
    }
  }
  // From an endless loop no path leads to the exit.
  for (std::uint32_t& node : immediate) {
    if (node == unknown) node = exit;
  }
  return immediate;
}

}  // namespace cudademo::emulator
