#include "races.hpp"

#include <algorithm>

namespace cudademo::emulator {

namespace {

template <typename Clock>
void join(Clock& into, const Clock& from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace

Races::Races(std::size_t bytes, unsigned warps) : cells_(bytes), warps_(warps) {
  for (WarpClocks& warp : warps_) warp.lane_epochs.fill(1);
}

Races::Stamp Races::stamp(std::uint32_t thread) const {
  const WarpClocks& warp = warps_[thread / lanes];
  return {thread + 1, warp.epoch, warp.lane_epochs[thread % lanes]};
}

bool Races::is_before(const Stamp& then, std::uint32_t thread) const {
  if (then.thread_plus_one == 0 || then.thread_plus_one == thread + 1) return true;
  const std::uint32_t other = then.thread_plus_one - 1;
  const WarpClocks& warp = warps_[thread / lanes];
  if (other / lanes == thread / lanes) {
    return warp.lanes_known[thread % lanes][other % lanes] >= then.lane_epoch;
  }
  return warp.known[other / lanes] >= then.warp_epoch;
}

std::uint32_t Races::read(std::uint32_t thread, std::size_t offset, std::size_t bytes) {
  const Stamp now = stamp(thread);
  std::uint32_t conflict = nobody;
  for (std::size_t i = offset; i < offset + bytes; ++i) {
    Cell& cell = cells_[i];
    if (!is_before(cell.writer, thread)) conflict = cell.writer.thread_plus_one - 1;
    // The place of one whose read is over for this thread, else of the older one.
    const bool first = cell.readers[0].thread_plus_one == now.thread_plus_one ||
                       is_before(cell.readers[0], thread);
    if (!first)
      cell.readers[1] = now;
    else
      cell.readers[0] = now;
  }
  return conflict;
}

std::uint32_t Races::write(std::uint32_t thread, std::size_t offset, std::size_t bytes) {
  const Stamp now = stamp(thread);
  std::uint32_t conflict = nobody;
  for (std::size_t i = offset; i < offset + bytes; ++i) {
    Cell& cell = cells_[i];
    for (const Stamp* then : {&cell.writer, &cell.readers[0], &cell.readers[1]}) {
      if (!is_before(*then, thread)) conflict = then->thread_plus_one - 1;
    }
    cell.writer = now;
    cell.readers[0] = cell.readers[1] = {};
  }
  return conflict;
}

void Races::meet(unsigned warp, Mask group) {
  WarpClocks& clocks = warps_[warp];
  Clock together{};
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if ((group >> lane & 1) == 0) continue;
    join(together, clocks.lanes_known[lane]);
    together[lane] = std::max(together[lane], clocks.lane_epochs[lane]);
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if ((group >> lane & 1) == 0) continue;
    clocks.lanes_known[lane] = together;
    ++clocks.lane_epochs[lane];
  }
}

void Races::arrive(unsigned warp, int barrier) {
  WarpClocks& clocks = warps_[warp];
  Clock& gathered = barriers_[static_cast<std::size_t>(barrier)];
  join(gathered, clocks.known);
  gathered[warp] = std::max(gathered[warp], clocks.epoch);
  ++clocks.epoch;
}

void Races::leave(unsigned warp, int barrier) {
  join(warps_[warp].known, barriers_[static_cast<std::size_t>(barrier)]);
  meet(warp, all_lanes);
}

void Races::order(unsigned warp, std::uint64_t address) {
  WarpClocks& clocks = warps_[warp];
  Clock& place = ordered_[address];
  join(clocks.known, place);
  join(place, clocks.known);
  place[warp] = std::max(place[warp], clocks.epoch);
  ++clocks.epoch;
  meet(warp, all_lanes);
}

}  // namespace cudademo::emulator
