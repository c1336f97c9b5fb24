#include "heap.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "program.hpp"

namespace cudademo::emulator {

namespace {

constexpr std::size_t alignment = 16;
constexpr std::size_t gap_bytes = 64;  // around a block, so that no step out of it hits another

std::size_t cost(const HeapBlock& block) {
  return align_up(static_cast<std::size_t>(block.range.end - block.range.begin), alignment);
}

}  // namespace

std::uint64_t Heap::allocate(std::size_t bytes, const std::string& place) {
  const std::lock_guard lock(guard_);
  if (bytes > limit_bytes || align_up(bytes, alignment) > limit_bytes - live_bytes_) return 0;
  auto block = std::make_shared<HeapBlock>();
  block->storage = std::make_unique<std::byte[]>(bytes + 2 * gap_bytes);
  block->written.resize(bytes);
  const auto raw = reinterpret_cast<std::uint64_t>(block->storage.get());
  const std::uint64_t begin = align_up(raw + gap_bytes, alignment);
  block->range = {begin, begin + bytes, std::to_string(bytes) + " bytes of malloc (" + place + ")",
                  true, false};
  live_bytes_ += cost(*block);
  blocks_[begin] = std::move(block);
  return begin;
}

std::string Heap::release(std::uint64_t address, const std::string& place) {
  if (address == 0) return {};
  const std::lock_guard lock(guard_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return "free of an address that malloc has not given";
  HeapBlock& block = *found->second;
  if (!block.is_live()) {
    return "free of " + block.range.label + ", which was freed already (" + block.freed_at + ")";
  }
  block.free(place);
  live_bytes_ -= cost(block);
  freed_bytes_ += cost(block);
  freed_.push_back(address);
  while (freed_bytes_ > limit_bytes) {
    const auto oldest = blocks_.find(freed_.front());
    freed_.pop_front();
    freed_bytes_ -= cost(*oldest->second);
    blocks_.erase(oldest);
  }
  return {};
}

std::shared_ptr<HeapBlock> Heap::nearest(std::uint64_t address) noexcept {
  const std::lock_guard lock(guard_);
  if (blocks_.empty()) return nullptr;
  const auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return next->second;
  const std::shared_ptr<HeapBlock>& before = std::prev(next)->second;
  if (next == blocks_.end()) return before;
  const std::uint64_t past = address - std::min(address, before->range.end);
  return past <= next->first - address ? before : next->second;
}

}  // namespace cudademo::emulator
