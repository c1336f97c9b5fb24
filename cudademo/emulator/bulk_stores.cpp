#include "bulk_stores.hpp"

#include <algorithm>
#include <utility>

#include "block.hpp"

namespace cudademo::emulator {

namespace {

void mark(Block& block, const SharedRange& source, std::byte from, std::byte to) {
  std::byte* state = block.shared_state(source.offset);
  std::replace(state, state + source.bytes, from, to);
}

}  // namespace

void BulkStores::issue(Block& block, std::uint32_t thread, const SharedRange& source) {
  if (queues_.empty()) queues_.resize(block.launch().block.count());
  queues_[thread].current.push_back(source);
  mark(block, source, byte_written, byte_held);
}

void BulkStores::commit(std::uint32_t thread) {
  if (queues_.empty()) return;
  Queue& queue = queues_[thread];
  queue.groups.push_back(std::exchange(queue.current, {}));
}

void BulkStores::wait(Block& block, std::uint32_t thread, std::size_t groups) {
  if (queues_.empty()) return;
  std::deque<Group>& waiting = queues_[thread].groups;
  for (; waiting.size() > groups; waiting.pop_front()) {
    for (const SharedRange& source : waiting.front()) {
      mark(block, source, byte_held, byte_written);
    }
  }
}

}  // namespace cudademo::emulator
