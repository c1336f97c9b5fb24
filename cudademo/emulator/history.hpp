// The arrays of earlier launches: what a pointer that outlived its launch leads to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "memory.hpp"

namespace cudademo::emulator {

class History {
 public:
  static constexpr std::size_t limit = 4096;  // ranges; past it the older half is forgotten

  // The arrays of a launch of this kernel.
  void remember(const std::vector<Range>& ranges, const std::string& kernel);
  // What was allocated, and is freed.
  void remember_freed(const Range& range);
  // The memory of this owner has been given back.
  void end(std::uint64_t owner);

  struct Past {
    Range range;
    std::string kernel;    // empty for what no launch was given
    bool is_gone = false;  // as far as is known
  };
  // The latest range that holds all of these bytes.
  std::optional<Past> find(std::uint64_t address, std::size_t bytes) const;

 private:
  struct Entry {
    std::uint64_t number = 0;  // grows with each time that it is remembered
    std::string label;
    std::string kernel;
    std::uint64_t owner = 0;
    bool is_freed = false;
  };

  Entry& entry(const Range& range);
  void drop_older_half();

  mutable std::mutex guard_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Entry> entries_;  // by begin and end
  std::unordered_set<std::uint64_t> live_;                            // owners
  std::uint64_t number_ = 0;
};

}  // namespace cudademo::emulator
