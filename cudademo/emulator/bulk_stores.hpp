// The parts of shared memory that bulk copies to global memory still read: cp.async.bulk with
// bulk_group. The bytes move at once; until a wait their source may not change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace cudademo::emulator {

class Block;

struct SharedRange {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};

class BulkStores {
 public:
  void issue(Block& block, std::uint32_t thread, const SharedRange& source);
  // Ends the thread's current group.
  void commit(std::uint32_t thread);
  // Releases the sources of all of the thread's committed groups but so many of the latest.
  void wait(Block& block, std::uint32_t thread, std::size_t groups);

 private:
  using Group = std::vector<SharedRange>;
  struct Queue {
    std::deque<Group> groups;
    Group current;
  };

  std::vector<Queue> queues_;  // by thread; empty until one copies
};

}  // namespace cudademo::emulator
