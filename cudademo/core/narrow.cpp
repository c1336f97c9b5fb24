#include "narrow.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "errors.hpp"

namespace cudademo {

namespace {

struct Format {
  int mantissa_bits;
  int bias;
  std::uint16_t largest;   // the bits of the largest finite number
  std::uint16_t infinity;  // 0 where there is none
  std::uint16_t nan;
  int sign_bit;
};

Format format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16:
      return {10, 15, 0x7BFF, 0x7C00, 0x7E00, 15};
    case Dtype::bfloat16:
      return {7, 127, 0x7F7F, 0x7F80, 0x7FC0, 15};
    case Dtype::float8_e4m3fn:
      return {3, 7, 0x7E, 0, 0x7F, 7};
    case Dtype::float8_e5m2:
      return {2, 15, 0x7B, 0x7C, 0x7E, 7};
    default:
      throw Error("no narrow format: " + std::string(info(dtype).name));
  }
}

// Powers of two and nothing else: 2^-127 to 2^127, 0xFF for NaN.
std::optional<std::uint16_t> to_power_of_two(double value) {
  if (std::isnan(value)) return std::uint16_t{0xFF};
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // 0.5 <= fraction < 1
  const int biased = exponent - 1 + 127;
  if (fraction != 0.5 || biased < 0 || biased > 254) return std::nullopt;
  return static_cast<std::uint16_t>(biased);
}

}  // namespace

std::optional<std::uint16_t> narrow(double value, Dtype dtype) {
  if (dtype == Dtype::float8_e8m0fnu) return to_power_of_two(value);
  const Format format = format_of(dtype);
  const auto signed_bits = [&](std::uint16_t bits) {
    const unsigned sign = std::signbit(value) ? 1U << format.sign_bit : 0U;
    return static_cast<std::uint16_t>(bits | sign);
  };
  if (std::isnan(value)) return signed_bits(format.nan);
  if (std::isinf(value)) {
    if (format.infinity == 0) return std::nullopt;
    return signed_bits(format.infinity);
  }
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return signed_bits(0);
  // The exponent of the unit in the last place; subnormals share that of the smallest normal.
  const int exponent = std::max(std::ilogb(magnitude), 1 - format.bias);
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  // A carry out of the mantissa moves into the exponent field by itself.
  const std::int64_t field = std::int64_t{exponent + format.bias - 1} << format.mantissa_bits;
  const std::int64_t bits = field + static_cast<std::int64_t>(units);
  if (bits > format.largest) return std::nullopt;
  return signed_bits(static_cast<std::uint16_t>(bits));
}

}  // namespace cudademo
