// What blocks of one launch know of one another: by fences and strong accesses to global memory.
//
// A block releases at an address what it did before a fence; who reads there later, by an atomic or
// a volatile access, knows all that was released there before. Blocks that do this run in turn, so
// nothing here is guarded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "stamp.hpp"

namespace cudademo::emulator {

class Releases {
 public:
  // `epochs` are those of the block's warps that are done for whoever acquires this.
  void release(std::uint64_t block, std::uint64_t address, const Clock& epochs);
  void acquire(std::uint64_t block, std::uint64_t address);
  // True where the block has acquired what another one did then.
  bool knows(std::uint64_t block, const Stamp& then);

 private:
  using Prefixes = std::unordered_map<std::uint64_t, std::uint32_t>;  // of each address's releases
  struct Release {
    std::uint64_t address;
    std::uint32_t index;
    std::shared_ptr<const Clock> epochs;
  };
  struct Place {
    std::uint32_t count = 0;
    Prefixes handed_on;  // what those who released here had acquired elsewhere
  };
  struct Known {
    Prefixes acquired;
    std::vector<Release> released;
    std::unordered_map<std::uint64_t, Clock> others;  // found to be known, so far
  };

  std::uint64_t place_of(std::uint64_t address) const noexcept;

  std::unordered_map<std::uint64_t, Place> places_;
  std::unordered_map<std::uint64_t, Known> blocks_;
};

}  // namespace cudademo::emulator
