#include "races.hpp"

#include <algorithm>
#include <cstring>

namespace cudademo::emulator {

Races::Races(std::uint64_t block, std::size_t shared_bytes, unsigned shared_shift, unsigned warps,
             Shadow* shadow, Releases* releases)
    : block_(block),
      shared_((shared_bytes >> shared_shift) + 1),
      shared_shift_(shared_shift),
      shadow_(shadow),
      releases_(releases),
      warps_(warps) {}

Stamp Races::stamp(std::uint32_t thread, std::uint32_t site, bool writes) const noexcept {
  Stamp made;
  made.block_plus_one = static_cast<std::uint32_t>(block_ + 1);
  made.epoch = warps_[thread / lanes].epoch;
  made.thread = thread & 0x3ff;
  made.writes = writes ? 1 : 0;
  made.site = site < (1u << 21) ? site & 0x1fffff : 0;
  return made;
}

bool Races::is_before(const Stamp& then, const Stamp& now) const {
  if (then.block_plus_one == 0) return true;
  if (then.block_plus_one != now.block_plus_one) {
    return releases_ != nullptr && releases_->knows(block_, then);
  }
  if (then.thread == now.thread) return true;
  const WarpClocks& warp = warps_[now.thread / lanes];
  if (then.thread / lanes == now.thread / lanes) {
    return warp.lanes_known[now.thread % lanes][then.thread % lanes] >= then.epoch;
  }
  return warp.known[then.thread / lanes] >= then.epoch;
}

// Of a piece of a copy, which may be less than a granule, the whole granule counts.
std::optional<Stamp> Races::touch_bytes(Cell* first, std::size_t bytes, unsigned shift,
                                        const Stamp& now, Touch touch) const {
  const std::size_t count = std::max<std::size_t>(bytes >> shift, 1);
  std::optional<Stamp> conflict;
  for (Cell* cell = first; cell != first + count; ++cell) {
    if (touch != Touch::same_write && !is_before(cell->writer, now)) {
      conflict = cell->writer;
    }
    if (touch == Touch::strong) continue;
    if (touch == Touch::write) {
      for (const Stamp& reader : cell->readers) {
        if (!is_before(reader, now)) conflict = reader;
      }
      cell->writer = now;
      cell->readers[0] = cell->readers[1] = {};
      continue;
    }
    // The place of one that is over for this thread; else two of different blocks are kept, as
    // every writer is of another block than one of them.
    const auto is_over = [&](const Stamp& then) { return is_before(then, now); };
    auto& [one, other] = cell->readers;
    if (is_over(one))
      one = now;
    else if (is_over(other) || one.block_plus_one == other.block_plus_one ||
             one.block_plus_one != now.block_plus_one)
      other = now;
  }
  return conflict;
}

std::optional<Stamp> Races::shared(const Stamp& who, std::size_t offset, std::size_t bytes,
                                   Touch touch) {
  return touch_bytes(shared_.data() + (offset >> shared_shift_), bytes, shared_shift_, who, touch);
}

std::optional<Stamp> Races::global(const Stamp& who, std::uint64_t address, std::size_t bytes,
                                   Touch touch) {
  Cell* first = shadow_ != nullptr ? shadow_->cell(address) : nullptr;
  if (first == nullptr) return std::nullopt;
  const Shadow::Lock lock(*shadow_, address);
  return touch_bytes(first, bytes, shadow_->shift(), who, touch);
}

std::optional<Stamp> Races::write_global(const Stamp& who, std::uint64_t address, std::size_t bytes,
                                         const void* values) {
  void* place = reinterpret_cast<void*>(address);
  Cell* first = shadow_ != nullptr ? shadow_->cell(address) : nullptr;
  if (first == nullptr) {
    std::memcpy(place, values, bytes);
    return std::nullopt;
  }
  const Shadow::Lock lock(*shadow_, address);
  const bool is_same = std::memcmp(place, values, bytes) == 0;
  const auto conflict =
      touch_bytes(first, bytes, shadow_->shift(), who, is_same ? Touch::same_write : Touch::write);
  if (!conflict && !is_same) std::memcpy(place, values, bytes);
  return conflict;
}

void Races::meet(unsigned warp, Mask group) {
  WarpClocks& clocks = warps_[warp];
  Clock together{};
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(group, lane)) continue;
    join(together, clocks.lanes_known[lane]);
    together[lane] = clocks.epoch;
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (is_set(group, lane)) clocks.lanes_known[lane] = together;
  }
  ++clocks.epoch;
}

void Races::arrive(unsigned warp, int barrier) {
  WarpClocks& clocks = warps_[warp];
  Clock& gathered = barriers_[static_cast<std::size_t>(barrier)];
  join(gathered, visible(warp));
  ++clocks.epoch;
}

void Races::leave(unsigned warp, int barrier) {
  join(warps_[warp].known, barriers_[static_cast<std::size_t>(barrier)]);
  meet(warp, all_lanes);
}

// What a warp has done and knows of its block's others.
Clock Races::visible(unsigned warp) const {
  Clock clock = warps_[warp].known;
  clock[warp] = std::max(clock[warp], warps_[warp].epoch);
  return clock;
}

void Races::order(unsigned warp, std::uint64_t place, const Strong& access) {
  WarpClocks& clocks = warps_[warp];
  const bool releases = access.order >= Order::release || !access.is_atomic;
  // Atomics that no fence stands before guard nothing, and there may be a great many.
  if (const auto known = ordered_.find(place); known != ordered_.end()) {
    join(clocks.known, known->second);
  }
  if (access.writes && (releases || clocks.fenced)) {
    join(ordered_[place], releases ? visible(warp) : *clocks.fenced);
  }
  if (releases || clocks.fenced) meet(warp, all_lanes);
  if (releases_ == nullptr || !access.across) return;
  if (access.reads && access.order != Order::release) releases_->acquire(block_, place);
  if (!access.writes) return;
  if (access.order >= Order::release) {
    releases_->release(block_, place, visible(warp));
    ++clocks.epoch;
  } else if (clocks.fenced_across) {
    releases_->release(block_, place, *clocks.fenced_across);
  }
}

void Races::fence(unsigned warp, bool across) {
  WarpClocks& clocks = warps_[warp];
  clocks.fenced = visible(warp);
  if (across) clocks.fenced_across = clocks.fenced;
  ++clocks.epoch;
}

void Races::release(unsigned warp, std::uint64_t mbarrier) {
  WarpClocks& clocks = warps_[warp];
  Clock& gathered = mbarriers_[mbarrier].gathered;
  join(gathered, visible(warp));
  ++clocks.epoch;
}

void Races::complete(std::uint64_t mbarrier) {
  Phases& phases = mbarriers_[mbarrier];
  join(phases.complete, phases.gathered);
  phases.gathered = {};
}

void Races::acquire(unsigned warp, std::uint64_t mbarrier) {
  join(warps_[warp].known, mbarriers_[mbarrier].complete);
  meet(warp, all_lanes);
}

}  // namespace cudademo::emulator
