// What the threads of a block have begun to copy and not yet waited for: cp.async. The bytes move
// where they are waited for, so that a wait that is missing shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace cudademo::emulator {

class Block;

struct AsyncCopy {
  const std::byte* from = nullptr;
  std::uint64_t to = 0;            // offset in shared memory
  std::uint32_t bytes = 0;         // written
  std::uint32_t source_bytes = 0;  // read; the others become zero
  std::uint32_t site = 0;          // of Program::sites
};

// Marks its target as awaited.
void begin(Block& block, const AsyncCopy& copy);
// Moves the bytes.
void finish(Block& block, const AsyncCopy& copy);

class AsyncCopies {
 public:
  void issue(Block& block, std::uint32_t thread, const AsyncCopy& copy);
  // Ends the thread's current group.
  void commit(std::uint32_t thread);
  // Finishes all of the thread's committed groups but so many of the latest.
  void wait(Block& block, std::uint32_t thread, std::size_t groups);
  // Finishes all that the thread has issued.
  void wait_all(Block& block, std::uint32_t thread);

  // How many the thread has issued so far; and finishes as many of its earliest.
  std::uint64_t issued(std::uint32_t thread) const noexcept;
  void finish_first(Block& block, std::uint32_t thread, std::uint64_t count);
  // Tells the race detector that the thread writes what it has under way.
  void note_writes(Block& block, std::uint32_t thread);

 private:
  struct Queue {
    std::deque<AsyncCopy> under_way;
    std::uint64_t finished = 0;
    std::deque<std::uint64_t> groups;  // of each, how many were issued when it ended
  };

  std::vector<Queue> queues_;  // by thread; empty until one copies
};

}  // namespace cudademo::emulator
