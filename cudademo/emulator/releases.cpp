#include "releases.hpp"

#include <algorithm>

namespace cudademo::emulator {

namespace {

// With more places than this further ones count as one: what is passed on would grow with each.
constexpr std::size_t max_places = 1024;

void raise(std::uint32_t& prefix, std::uint32_t to) noexcept { prefix = std::max(prefix, to); }

}  // namespace

std::uint64_t Releases::place_of(std::uint64_t address) const noexcept {
  return places_.size() < max_places || places_.contains(address) ? address : 0;
}

void Releases::release(std::uint64_t block, std::uint64_t address, const Clock& epochs) {
  const std::uint64_t at = place_of(address);
  Known& known = blocks_[block];
  Place& place = places_[at];
  std::shared_ptr<const Clock> shared;
  if (!known.released.empty() && *known.released.back().epochs == epochs) {
    shared = known.released.back().epochs;
    if (known.released.back().address == at) return;  // nothing new since
  } else {
    shared = std::make_shared<const Clock>(epochs);
  }
  known.released.push_back({at, place.count++, std::move(shared)});
  for (const auto& [elsewhere, prefix] : known.acquired) {
    if (elsewhere != at) raise(place.handed_on[elsewhere], prefix);
  }
}

void Releases::acquire(std::uint64_t block, std::uint64_t address) {
  const auto found = places_.find(place_of(address));
  if (found == places_.end()) return;
  Prefixes& acquired = blocks_[block].acquired;
  raise(acquired[found->first], found->second.count);
  for (const auto& [elsewhere, prefix] : found->second.handed_on) {
    raise(acquired[elsewhere], prefix);
  }
}

bool Releases::knows(std::uint64_t block, const Stamp& then) {
  const std::uint64_t other = then.block_plus_one - 1;
  const std::size_t warp = then.thread / 32;
  const auto of_other = blocks_.find(other);
  if (of_other == blocks_.end()) return false;
  Known& known = blocks_[block];
  Clock& epochs = known.others[other];
  if (epochs[warp] >= then.epoch) return true;
  for (const Release& release : of_other->second.released) {
    const auto prefix = known.acquired.find(release.address);
    if (prefix == known.acquired.end() || release.index >= prefix->second) continue;
    join(epochs, *release.epochs);
    if (epochs[warp] >= then.epoch) return true;
  }
  return false;
}

}  // namespace cudademo::emulator
