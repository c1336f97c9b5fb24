// The global memory that a launch may touch: the arrays that it was given, what was allocated with
// cuMemAlloc, and the variables of its module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cudademo::emulator {

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string label;  // "argument 1, float32 of shape (10,)"
  bool writable = true;
  bool is_constant = false;
  std::uint64_t owner = 0;  // of the memory, by number; 0 for one that is not known
};

class Memory {
 public:
  void add(Range range);
  // Call once all are added.
  void finish();

  // The range that holds all of these bytes; null where none does.
  const Range* find(std::uint64_t address, std::size_t bytes) const noexcept {
    // A kernel goes through few arrays, an access after another through the same one.
    if (recent_ < ranges_.size()) {
      const Range& recent = ranges_[recent_];
      const std::uint64_t size = recent.end - recent.begin;
      // An address just below 2^64 has no sum with its bytes.
      if (address - recent.begin <= size && bytes <= size - (address - recent.begin)) {
        return &recent;
      }
    }
    return search(address, bytes);
  }

  const Range* nearest(std::uint64_t address) const noexcept;
  const std::vector<Range>& ranges() const noexcept { return ranges_; }

 private:
  const Range* search(std::uint64_t address, std::size_t bytes) const noexcept;

  std::vector<Range> ranges_;
  static thread_local std::size_t recent_;
};

// How far an address is from a range; zero within it.
std::uint64_t distance(const Range& range, std::uint64_t address) noexcept;

// How an array gets among those of a launch that is not given it.
inline constexpr const char* reachable_hint =
    " (what a kernel reaches through a pointer in memory must be in "
    "cudademo.use_emulator(reachable=[...]))";

// Words for an address that is in no range, the nearest of which may be null: "4 bytes past the end
// of argument 1, ...".
std::string describe(const Range* nearest, std::uint64_t address, std::size_t bytes);

}  // namespace cudademo::emulator
