// The number formats of PTX, and IEEE arithmetic under its rounding modes.
//
// The host must be in round-to-nearest, without flush-to-zero and without -ffast-math. Compile what
// includes this with -ffp-contract=off: else a compiler for a host with fma may fuse mul and add.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

namespace cudademo::emulator {

enum class Rounding : std::uint8_t { nearest_even, zero, down, up, nearest_away };

// A small float format. tf32 keeps its value in the upper 19 bits of a float's pattern; the others
// lie in the lowest bits.
enum class SmallFloat : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, e3m2, e2m3, e2m1, ue8m0 };

// The exact value of a pattern. Bits outside the format are ignored.
double decode(SmallFloat format, std::uint32_t bits);

// The pattern of a value, rounded once. NaN becomes the format's canonical NaN, or the largest
// number where there is none. What overflows becomes the largest finite number if saturate_finite
// says so or the format has nothing beyond it; else what IEEE says for the rounding mode, with NaN
// in the place of infinity for e4m3 and ue8m0. ue8m0 drops the sign first, and has no zero: what is
// too small becomes 2^-127.
std::uint32_t encode(SmallFloat format, double value, Rounding rounding,
                     bool saturate_finite = false);

// Nearest even. NaN becomes 0x7fff.
std::uint16_t f16_from_float(float value);
std::uint16_t bf16_from_float(float value);
// Exact. NaN becomes canonical from f16, and keeps its payload from bf16, which is a shift.
float float_from_f16(std::uint16_t bits);
float float_from_bf16(std::uint16_t bits);

// Rounds once, from double to float.
float to_float(double value, Rounding rounding);

// Each is rounded once, under any mode but nearest_away. A NaN result in float is 0x7fffffff. In
// double it is the first operand that is NaN, made quiet; where none is, 0xfff8000000000000.
float add(float a, float b, Rounding rounding);
double add(double a, double b, Rounding rounding);
float mul(float a, float b, Rounding rounding);
double mul(double a, double b, Rounding rounding);
float div(float a, float b, Rounding rounding);
double div(double a, double b, Rounding rounding);
float sqrt(float a, Rounding rounding);
double sqrt(double a, Rounding rounding);
float fma(float a, float b, float c, Rounding rounding);
double fma(double a, double b, double c, Rounding rounding);

// Arithmetic on patterns of f16 or bf16 (no other format), each rounded once to nearest even. A NaN
// result is 0x7fff.
std::uint16_t add(SmallFloat format, std::uint16_t a, std::uint16_t b);
std::uint16_t sub(SmallFloat format, std::uint16_t a, std::uint16_t b);
std::uint16_t mul(SmallFloat format, std::uint16_t a, std::uint16_t b);
std::uint16_t fma(SmallFloat format, std::uint16_t a, std::uint16_t b, std::uint16_t c);

// Zero of the same sign for a subnormal number, and anything else unchanged.
float flush_subnormal(float value);
std::uint16_t flush_subnormal_f16(std::uint16_t bits);

// As cvt converts: out of range gives the nearer limit. NaN gives 0 from a float to an integer of
// at most 32 bits, and else a pattern of only the top bit set.
template <std::integral Integer, std::floating_point Float>
Integer to_integer(Float value, Rounding rounding);

// The nearest Float of an integer, under any mode.
template <std::floating_point Float>
Float from_integer(std::int64_t value, Rounding rounding);
template <std::floating_point Float>
Float from_integer(std::uint64_t value, Rounding rounding);

// The nearest integral number in the same format; a zero keeps the sign of the value.
float round_integral(float value, Rounding rounding);
double round_integral(double value, Rounding rounding);

// The rest of this file is how the hot cases are done inline.
namespace detail {

inline constexpr float nan32 = std::bit_cast<float>(0x7fffffffu);
inline constexpr double nan64 = std::bit_cast<double>(0xfff8000000000000u);

// Cold: the modes other than nearest even, and the NaN results of double.
template <typename Float>
Float add(Float a, Float b, Rounding rounding);
template <typename Float>
Float mul(Float a, Float b, Rounding rounding);
template <typename Float>
Float div(Float a, Float b, Rounding rounding);
template <typename Float>
Float sqrt(Float a, Rounding rounding);
template <typename Float>
Float fma(Float a, Float b, Float c, Rounding rounding);
template <typename Float>
Float from_magnitude(std::uint64_t magnitude, bool negative, Rounding rounding);
float to_float(double value, Rounding rounding);
double propagated_nan(double a, double b, double c);

inline float checked(float result, float, float, float = 0) {
  return result == result ? result : nan32;
}
inline double checked(double result, double a, double b, double c = 0) {
  return result == result ? result : propagated_nan(a, b, c);
}

// Rounding to odd: an inexact result takes whichever neighbour is odd, so that a later rounding to
// at least two bits fewer is right as if it were the only one.
inline float to_float_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  const bool adjust = back != value && (bits & 1) == 0;
  return std::bit_cast<float>(bits + (adjust ? std::fabs(back) < std::fabs(value) ? 1u : ~0u : 0u));
}

// a + b rounded to odd, where it cannot overflow.
template <typename Float, typename Bits>
Float sum_to_odd(Float a, Float b) {
  const Float sum = a + b;
  const Float from_b = sum - a;
  const Float error =
      (a - (sum - from_b)) + (b - from_b);  // exact (Knuth); NaN if sum is not finite
  const auto bits = std::bit_cast<Bits>(sum);
  const bool adjust = (error < 0 || error > 0) && (bits & 1) == 0;
  return std::bit_cast<Float>(bits + (adjust ? (error > 0) == (sum > 0) ? Bits{1} : ~Bits{0} : 0));
}

}  // namespace detail

inline std::uint16_t f16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  std::uint32_t code;
  if (magnitude < 0x38800000u) {  // the unit in the last place of 0.5 is f16's least subnormal
    code = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    code = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | code);
}

inline float float_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude > 0x7c00u) return detail::nan32;
  const float subnormal = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  std::uint32_t code = (magnitude << 13) + (magnitude == 0x7c00u ? 0x70000000u : 0x38000000u);
  if (magnitude < 0x400u) code = std::bit_cast<std::uint32_t>(subnormal);
  return std::bit_cast<float>(sign | code);
}

inline std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

inline float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline float to_float(double value, Rounding rounding) {
  if (rounding != Rounding::nearest_even) return detail::to_float(value, rounding);
  return value == value ? static_cast<float>(value) : detail::nan32;
}

inline float add(float a, float b, Rounding rounding) {
  if (rounding != Rounding::nearest_even) return detail::add(a, b, rounding);
  return detail::checked(a + b, a, b);
}
inline double add(double a, double b, Rounding rounding) {
  if (rounding != Rounding::nearest_even) return detail::add(a, b, rounding);
  return detail::checked(a + b, a, b);
}

inline float mul(float a, float b, Rounding rounding) {
  if (rounding != Rounding::nearest_even) return detail::mul(a, b, rounding);
  return detail::checked(a * b, a, b);
}
inline double mul(double a, double b, Rounding rounding) {
  if (rounding != Rounding::nearest_even) return detail::mul(a, b, rounding);
  return detail::checked(a * b, a, b);
}

inline float div(float a, float b, Rounding rounding) {
  if (rounding != Rounding::nearest_even) return detail::div(a, b, rounding);
  return detail::checked(a / b, a, b);
}
inline double div(double a, double b, Rounding rounding) {
  if (rounding != Rounding::nearest_even) return detail::div(a, b, rounding);
  return detail::checked(a / b, a, b);
}

inline float sqrt(float a, Rounding rounding) {
  if (rounding != Rounding::nearest_even) return detail::sqrt(a, rounding);
  return detail::checked(std::sqrt(a), a, a);
}
inline double sqrt(double a, Rounding rounding) {
  if (rounding != Rounding::nearest_even) return detail::sqrt(a, rounding);
  return detail::checked(std::sqrt(a), a, a);
}

inline float fma(float a, float b, float c, Rounding rounding) {
  if (rounding != Rounding::nearest_even) return detail::fma(a, b, c, rounding);
#if defined(__FMA__) || defined(__aarch64__)
  return detail::checked(std::fma(a, b, c), a, b, c);
#else
  // Without the instruction std::fma is a call. The product is exact in double.
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double sum = detail::sum_to_odd<double, std::uint64_t>(product, static_cast<double>(c));
  return detail::checked(static_cast<float>(sum), a, b, c);
#endif
}
inline double fma(double a, double b, double c, Rounding rounding) {
  if (rounding != Rounding::nearest_even) return detail::fma(a, b, c, rounding);
  return detail::checked(std::fma(a, b, c), a, b, c);
}

// Sums: float has more than twice the bits of either format, and the same or a wider range, so that
// rounding a second time does no harm. Products: exact in float, but for those of bf16 below
// 2^-134, which are below half of its least number and become zero either way.
inline std::uint16_t add(SmallFloat format, std::uint16_t a, std::uint16_t b) {
  if (format == SmallFloat::f16) return f16_from_float(float_from_f16(a) + float_from_f16(b));
  return bf16_from_float(float_from_bf16(a) + float_from_bf16(b));
}

inline std::uint16_t sub(SmallFloat format, std::uint16_t a, std::uint16_t b) {
  return add(format, a, static_cast<std::uint16_t>(b ^ 0x8000u));
}

inline std::uint16_t mul(SmallFloat format, std::uint16_t a, std::uint16_t b) {
  if (format == SmallFloat::f16) return f16_from_float(float_from_f16(a) * float_from_f16(b));
  return bf16_from_float(float_from_bf16(a) * float_from_bf16(b));
}

inline std::uint16_t fma(SmallFloat format, std::uint16_t a, std::uint16_t b, std::uint16_t c) {
  if (format == SmallFloat::f16) {
    const float product = float_from_f16(a) * float_from_f16(b);
    return f16_from_float(detail::sum_to_odd<float, std::uint32_t>(product, float_from_f16(c)));
  }
  // The product matters below the least float too, as what breaks a tie.
  const double product =
      static_cast<double>(float_from_bf16(a)) * static_cast<double>(float_from_bf16(b));
  const double addend = static_cast<double>(float_from_bf16(c));
  return bf16_from_float(
      detail::to_float_odd(detail::sum_to_odd<double, std::uint64_t>(product, addend)));
}

inline float flush_subnormal(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}

inline std::uint16_t flush_subnormal_f16(std::uint16_t bits) {
  return static_cast<std::uint16_t>((bits & 0x7c00u) == 0 ? bits & 0x8000u : bits);
}

template <std::integral Integer, std::floating_point Float>
Integer to_integer(Float value, Rounding rounding) {
  using Limits = std::numeric_limits<Integer>;
  constexpr int bits = static_cast<int>(sizeof(Integer)) * 8;
  constexpr Float least = static_cast<Float>(Limits::min());  // a power of two or zero, so exact
  constexpr Float half = static_cast<Float>(std::uint64_t{1} << (Limits::digits - 1));
  constexpr Float beyond = half * 2;
  if (std::isnan(value)) {
    constexpr bool zero = sizeof(Float) < 8 && bits <= 32;
    return zero ? Integer{0} : static_cast<Integer>(std::uint64_t{1} << (bits - 1));
  }
  // A cast truncates by itself; below the least, truncated or not, is the least.
  const Float rounded = rounding == Rounding::zero ? value : round_integral(value, rounding);
  if (rounded >= beyond) return Limits::max();
  if (rounded <= least) return Limits::min();
  return static_cast<Integer>(rounded);
}

template <std::floating_point Float>
Float from_integer(std::uint64_t value, Rounding rounding) {
  if (rounding == Rounding::nearest_even) return static_cast<Float>(value);
  return detail::from_magnitude<Float>(value, false, rounding);
}

template <std::floating_point Float>
Float from_integer(std::int64_t value, Rounding rounding) {
  if (rounding == Rounding::nearest_even) return static_cast<Float>(value);
  const auto bits = static_cast<std::uint64_t>(value);
  return detail::from_magnitude<Float>(value < 0 ? 0 - bits : bits, value < 0, rounding);
}

}  // namespace cudademo::emulator
