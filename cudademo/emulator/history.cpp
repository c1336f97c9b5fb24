#include "history.hpp"

#include <algorithm>

namespace cudademo::emulator {

void History::remember(const std::vector<Range>& ranges, const std::string& kernel) {
  const std::lock_guard lock(guard_);
  for (const Range& range : ranges) {
    if (range.begin == range.end) continue;
    Entry& kept = entry(range);
    kept.kernel = kernel;
    kept.is_freed = false;
    if (range.owner == kept.owner) continue;  // and so known to be live
    kept.owner = range.owner;
    if (range.owner != 0) live_.insert(range.owner);
  }
  if (entries_.size() > limit) drop_older_half();
}

void History::remember_freed(const Range& range) {
  const std::lock_guard lock(guard_);
  Entry& kept = entry(range);
  kept.kernel.clear();
  kept.owner = 0;
  kept.is_freed = true;
  if (entries_.size() > limit) drop_older_half();
}

void History::end(std::uint64_t owner) {
  const std::lock_guard lock(guard_);
  live_.erase(owner);
}

std::optional<History::Past> History::find(std::uint64_t address, std::size_t bytes) const {
  const std::lock_guard lock(guard_);
  // Memory may have had several owners, the latest of which counts.
  auto latest = entries_.end();
  for (auto i = entries_.begin(); i != entries_.end() && i->first.first <= address; ++i) {
    const std::uint64_t end = i->first.second;
    if (address >= end || bytes > end - address) continue;
    if (latest == entries_.end() || i->second.number > latest->second.number) latest = i;
  }
  if (latest == entries_.end()) return std::nullopt;
  const auto& [where, kept] = *latest;
  const bool has_ended = kept.owner != 0 && !live_.contains(kept.owner);
  Past past;
  past.range = {where.first, where.second, kept.label};
  past.kernel = kept.kernel;
  past.is_gone = kept.is_freed || has_ended;
  return past;
}

History::Entry& History::entry(const Range& range) {
  Entry& kept = entries_[{range.begin, range.end}];
  kept.number = ++number_;
  kept.label = range.label;
  return kept;
}

void History::drop_older_half() {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(entries_.size());
  for (const auto& [where, kept] : entries_) numbers.push_back(kept.number);
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  std::erase_if(entries_, [&](const auto& item) { return item.second.number < *middle; });
}

}  // namespace cudademo::emulator
