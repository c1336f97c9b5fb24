// Under the address sanitizer each row of a frame has a gap behind it that none may touch, so that
// an instruction that takes a row for wider than it is does not go unseen. Elsewhere: nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define CUDADEMO_GUARDS_ROWS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUDADEMO_GUARDS_ROWS 1
#endif
#endif

#ifdef CUDADEMO_GUARDS_ROWS
#include <sanitizer/asan_interface.h>
#endif

namespace cudademo::emulator {

#ifdef CUDADEMO_GUARDS_ROWS

inline constexpr std::size_t gap_bytes = 512;  // as the widest row: 32 times 128 bits

inline void guard_rows(const std::byte* rows, const std::vector<std::uint32_t>& gaps) {
  for (const std::uint32_t gap : gaps) ASAN_POISON_MEMORY_REGION(rows + gap, gap_bytes);
}

#else

inline constexpr std::size_t gap_bytes = 0;

inline void guard_rows(const std::byte*, const std::vector<std::uint32_t>&) {}

#endif

}  // namespace cudademo::emulator
