#include "mbarriers.hpp"

#include <utility>

#include "block.hpp"

namespace cudademo::emulator {

namespace {

// expected: 20 bits, pending: 20, bytes with their sign: 21, a mark: 2, the phase's parity: 1.
constexpr std::uint64_t mark = 2;
constexpr unsigned mark_at = 61;

}  // namespace

std::uint64_t MbarrierState::bits() const noexcept {
  const auto moved = static_cast<std::uint64_t>(static_cast<std::uint32_t>(bytes) & 0x1fffff);
  return std::uint64_t{expected} | std::uint64_t{pending} << 20 | moved << 40 | mark << mark_at |
         std::uint64_t{phase} << 63;
}

MbarrierState MbarrierState::of(std::uint64_t bits) noexcept {
  const auto moved = static_cast<std::uint32_t>(bits >> 40) & 0x1fffff;
  return {static_cast<std::uint32_t>(bits) & most, static_cast<std::uint32_t>(bits >> 20) & most,
          static_cast<std::int32_t>(moved << 11) >> 11, bits >> 63 != 0};
}

bool MbarrierState::is_valid(std::uint64_t bits) noexcept { return (bits >> mark_at & 3) == mark; }

void Mbarriers::attach(std::uint64_t offset, std::uint32_t thread, std::uint64_t issued) {
  phases_[offset].threads.emplace_back(thread, issued);
}

void Mbarriers::attach(std::uint64_t offset, const AsyncCopy& copy) {
  Phase& phase = phases_[offset];
  phase.copies.push_back(copy);
  phase.moved += copy.bytes;
}

std::uint32_t Mbarriers::take_moved(std::uint64_t offset) {
  const auto found = phases_.find(offset);
  return found == phases_.end() ? 0 : std::exchange(found->second.moved, 0);
}

void Mbarriers::complete(Block& block, std::uint64_t offset) {
  if (Races* races = block.races()) races->complete(offset);
  const auto found = phases_.find(offset);
  if (found == phases_.end()) return;
  const Phase phase = std::exchange(found->second, {});
  for (const auto& [thread, issued] : phase.threads) {
    block.copies().finish_first(block, thread, issued);
  }
  for (const AsyncCopy& copy : phase.copies) finish(block, copy);
}

std::uint32_t Mbarriers::count_vain(std::uint64_t offset, unsigned warp) {
  return ++phases_[offset].vain[warp];
}

void Mbarriers::forget(std::uint64_t offset) { phases_.erase(offset); }

}  // namespace cudademo::emulator
