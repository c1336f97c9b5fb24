// The smaller and the larger of two floating-point numbers, as PTX has them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "numeric.hpp"

namespace cudademo::emulator {

constexpr bool is_nan(SmallFloat format, std::uint16_t bits) {
  return (bits & 0x7fff) > (format == SmallFloat::f16 ? 0x7c00 : 0x7f80);
}

template <typename T>
bool less(T a, T b) {  // -0 is less than +0
  if (a == b) return std::signbit(a) && !std::signbit(b);
  return a < b;
}

template <typename T, bool largest, bool with_nan, bool exclusive>
T extreme(T a, T b) {
  const T nan = std::is_same_v<T, float>
                    ? static_cast<T>(std::bit_cast<float>(0x7fffffffu))
                    : static_cast<T>(std::bit_cast<double>(std::uint64_t{0x7fffffffffffffff}));
  T chosen;
  const bool negative = std::signbit(a) != std::signbit(b);
  if (exclusive) {
    a = std::abs(a);
    b = std::abs(b);
  }
  if (std::isnan(a) || std::isnan(b)) {
    if (with_nan || (std::isnan(a) && std::isnan(b))) return nan;
    chosen = std::isnan(a) ? b : a;
  } else {
    chosen = less(a, b) != largest ? a : b;
  }
  return exclusive ? std::copysign(chosen, negative ? T{-1} : T{1}) : chosen;
}

template <SmallFloat format, bool largest, bool with_nan, bool exclusive>
std::uint16_t extreme16(std::uint16_t a, std::uint16_t b) {
  const std::uint16_t sign =
      exclusive ? static_cast<std::uint16_t>((a ^ b) & 0x8000) : std::uint16_t{0};
  if (exclusive) {
    a &= 0x7fff;
    b &= 0x7fff;
  }
  std::uint16_t chosen;
  if (is_nan(format, a) || is_nan(format, b)) {
    if (with_nan || (is_nan(format, a) && is_nan(format, b))) return 0x7fff;
    chosen = is_nan(format, a) ? b : a;
  } else {
    const auto ordered = [](std::uint16_t bits) {
      return (bits & 0x8000) != 0 ? -(bits & 0x7fff) - 1 : bits;
    };
    chosen = (ordered(a) < ordered(b)) != largest ? a : b;
  }
  return chosen | sign;
}

}  // namespace cudademo::emulator
