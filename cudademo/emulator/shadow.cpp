#include "shadow.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace cudademo::emulator {

namespace {

// Of cells. A page of them is there only once it is touched, yet a kernel may touch them all.
constexpr std::size_t max_bytes = std::size_t{4} << 30;
// Up to here the heap is faster than a mapping, whose system calls take longer than a small launch.
constexpr std::size_t small_bytes = std::size_t{64} << 10;

thread_local std::size_t recent = 0;

}  // namespace

Shadow::Shadow(const std::vector<Range>& ranges, unsigned shift) : shift_(shift) {
  const std::uint64_t granule = std::uint64_t{1} << shift;
  std::size_t count = 0;
  // Ranges come in order and may overlap: two views of one tensor share its cells.
  for (const Range& range : ranges) {
    if (range.is_constant || range.end <= range.begin) continue;
    const std::uint64_t begin = range.begin / granule * granule;
    const std::uint64_t end = (range.end + granule - 1) / granule * granule;
    if (segments_.empty() || begin >= segments_.back().end) {
      segments_.push_back({begin, end, count});
      count += (end - begin) >> shift;
    } else if (end > segments_.back().end) {
      count += (end - segments_.back().end) >> shift;
      segments_.back().end = end;
    }
  }
  bytes_ = count * sizeof(Cell);
  if (bytes_ == 0 || bytes_ > max_bytes) {
    segments_.clear();
    bytes_ = 0;
    return;
  }
  if (bytes_ <= small_bytes) {
    small_.resize(count);
    cells_ = small_.data();
    return;
  }
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    segments_.clear();
    bytes_ = 0;
    return;
  }
  madvise(memory, bytes_, MADV_HUGEPAGE);  // first touches, page by page, would be half the time
  cells_ = static_cast<Cell*>(memory);     // all zero: nobody
}

Shadow::~Shadow() {
  if (cells_ != nullptr && small_.empty()) munmap(cells_, bytes_);
}

Cell* Shadow::cell(std::uint64_t address) const noexcept {
  const auto in = [&](const Segment& segment) {
    return address >= segment.begin && address < segment.end;
  };
  if (recent >= segments_.size() || !in(segments_[recent])) {
    const auto after = std::upper_bound(
        segments_.begin(), segments_.end(), address,
        [](std::uint64_t wanted, const Segment& segment) { return wanted < segment.begin; });
    if (after == segments_.begin() || !in(*(after - 1))) return nullptr;
    recent = static_cast<std::size_t>(after - segments_.begin()) - 1;
  }
  const Segment& segment = segments_[recent];
  return cells_ + segment.first + ((address - segment.begin) >> shift_);
}

}  // namespace cudademo::emulator
