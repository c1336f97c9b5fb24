#include "memory.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace cudademo::emulator {

thread_local std::size_t Memory::recent_ = 0;

void Memory::add(Range range) { ranges_.push_back(std::move(range)); }

void Memory::finish() {
  std::stable_sort(ranges_.begin(), ranges_.end(),
                   [](const Range& a, const Range& b) { return a.begin < b.begin; });
}

const Range* Memory::search(std::uint64_t address, std::size_t bytes) const noexcept {
  // Ranges may overlap: two views of one tensor.
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const Range& range = ranges_[i];
    if (range.begin > address) break;
    if (address + bytes <= range.end && address + bytes >= address) {
      recent_ = i;
      return &range;
    }
  }
  return nullptr;
}

const Range* Memory::nearest(std::uint64_t address) const noexcept {
  const Range* best = nullptr;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const Range& range : ranges_) {
    const std::uint64_t from = distance(range, address);
    if (from >= least) continue;
    least = from;
    best = &range;
  }
  return best;
}

std::uint64_t distance(const Range& range, std::uint64_t address) noexcept {
  return address < range.begin  ? range.begin - address
         : address >= range.end ? address - range.end
                                : 0;
}

std::string describe(const Range* range, std::uint64_t address, std::size_t bytes) {
  if (address < 4096) return "a null pointer";
  constexpr std::uint64_t near = std::uint64_t{1} << 20;
  const auto count = [](std::uint64_t n) {
    return std::to_string(n) + (n == 1 ? " byte" : " bytes");
  };
  // Where another array may begin: torch aligns to as much.
  constexpr std::uint64_t step = 64;
  const auto hint = [](std::uint64_t from) {
    return std::string(from < step ? "" : reachable_hint);
  };
  if (range != nullptr) {
    if (address >= range->end && address - range->end < near) {
      const std::uint64_t past = address - range->end;
      return (past == 0 ? "just" : count(past)) + " past the end of " + range->label + hint(past);
    }
    if (address < range->begin && range->begin - address < near) {
      const std::uint64_t before = range->begin - address;
      return count(before) + " before the start of " + range->label + hint(before);
    }
    if (address >= range->begin && address < range->end) {
      return count(address + bytes - range->end) + " over the end of " + range->label;
    }
  }
  return std::string("in no array that this launch was given") + reachable_hint;
}

}  // namespace cudademo::emulator
