#include "async_copies.hpp"

#include <algorithm>
#include <cstring>

#include "block.hpp"

namespace cudademo::emulator {

void begin(Block& block, const AsyncCopy& copy) {
  if (!block.launch().options.checks) return;
  std::fill_n(block.shared_state(copy.to), copy.bytes, byte_awaited);
}

void finish(Block& block, const AsyncCopy& copy) {
  std::byte* to = block.shared(copy.to);
  if (copy.source_bytes != 0) std::memcpy(to, copy.from, copy.source_bytes);
  std::fill(to + copy.source_bytes, to + copy.bytes, std::byte{0});
  std::fill_n(block.shared_state(copy.to), copy.bytes, byte_written);
}

void AsyncCopies::issue(Block& block, std::uint32_t thread, const AsyncCopy& copy) {
  if (queues_.empty()) queues_.resize(block.launch().block.count());
  queues_[thread].under_way.push_back(copy);
  begin(block, copy);
}

void AsyncCopies::commit(std::uint32_t thread) {
  if (!queues_.empty()) queues_[thread].groups.push_back(issued(thread));
}

void AsyncCopies::wait(Block& block, std::uint32_t thread, std::size_t groups) {
  if (queues_.empty()) return;
  std::deque<std::uint64_t>& ends = queues_[thread].groups;
  if (ends.size() <= groups) return;
  const std::size_t over = ends.size() - groups;
  const std::uint64_t count = ends[over - 1];
  ends.erase(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(over));
  note_writes(block, thread);
  finish_first(block, thread, count);
}

void AsyncCopies::wait_all(Block& block, std::uint32_t thread) {
  if (queues_.empty()) return;
  queues_[thread].groups.clear();
  note_writes(block, thread);
  finish_first(block, thread, issued(thread));
}

std::uint64_t AsyncCopies::issued(std::uint32_t thread) const noexcept {
  if (queues_.empty()) return 0;
  return queues_[thread].finished + queues_[thread].under_way.size();
}

void AsyncCopies::finish_first(Block& block, std::uint32_t thread, std::uint64_t count) {
  if (queues_.empty()) return;
  Queue& queue = queues_[thread];
  for (; queue.finished < count; ++queue.finished) {
    finish(block, queue.under_way.front());
    queue.under_way.pop_front();
  }
}

void AsyncCopies::note_writes(Block& block, std::uint32_t thread) {
  Races* races = block.races();
  if (races == nullptr || queues_.empty()) return;
  for (const AsyncCopy& copy : queues_[thread].under_way) {
    races->shared(races->stamp(thread, copy.site, true), copy.to, copy.bytes, Touch::write);
  }
}

}  // namespace cudademo::emulator
