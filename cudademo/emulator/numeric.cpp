#include "numeric.hpp"

#include <algorithm>
#include <cfenv>
#include <functional>

namespace cudademo::emulator {
namespace {

// What a sign-magnitude float format is made of. Codes are patterns without the sign.
struct Format {
  int mantissa_bits;
  int bias;
  std::uint64_t largest;   // the code of the largest finite number
  std::uint64_t overflow;  // the code of infinity, or of what stands for it
  std::uint64_t nan;       // the canonical NaN, or the largest number where there is none
  int sign_shift;
};

constexpr Format f64{52, 1023, 0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff8000000000000, 63};
constexpr Format f32{23, 127, 0x7f7fffff, 0x7f800000, 0x7fffffff, 31};

constexpr int tf32_shift = 13;  // tf32 is held as the upper bits of a float

// In the order of SmallFloat, without ue8m0.
constexpr Format small_formats[] = {
    {10, 15, 0x7bff, 0x7c00, 0x7fff, 15},      // f16
    {7, 127, 0x7f7f, 0x7f80, 0x7fff, 15},      // bf16
    {10, 127, 0x3fbff, 0x3fc00, 0x3ffff, 18},  // tf32
    {3, 7, 0x7e, 0x7f, 0x7f, 7},               // e4m3
    {2, 15, 0x7b, 0x7c, 0x7f, 7},              // e5m2
    {2, 3, 0x1f, 0x1f, 0x1f, 5},               // e3m2
    {3, 1, 0x1f, 0x1f, 0x1f, 5},               // e2m3
    {1, 1, 0x7, 0x7, 0x7, 3},                  // e2m1
};

constexpr int ue8m0_bias = 127;
constexpr std::uint32_t ue8m0_largest = 0xfe;
constexpr std::uint32_t ue8m0_nan = 0xff;

struct Parts {
  std::uint64_t significand;
  int exponent;  // of the significand's lowest bit
  bool negative;
};

Parts parts_of(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int field = static_cast<int>(bits >> 52) & 0x7ff;
  const std::uint64_t fraction = bits & 0xfffffffffffff;
  const bool negative = (bits >> 63) != 0;
  if (field == 0) return {fraction, -1074, negative};
  return {fraction | (std::uint64_t{1} << 52), field - 1075, negative};
}

// Whether a magnitude between two codes takes the upper one. The remainder is in units of which
// `half` is half the distance.
bool takes_upper(std::uint64_t remainder, std::uint64_t half, bool odd, bool negative,
                 Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even:
      return remainder > half || (remainder == half && odd);
    case Rounding::nearest_away:
      return remainder >= half;
    case Rounding::down:
      return remainder != 0 && negative;
    case Rounding::up:
      return remainder != 0 && !negative;
    case Rounding::zero:
      break;
  }
  return false;
}

// Whether a magnitude beyond the largest finite number becomes infinity.
bool overflows(bool negative, Rounding rounding) {
  switch (rounding) {
    case Rounding::down:
      return negative;
    case Rounding::up:
      return !negative;
    case Rounding::zero:
      return false;
    case Rounding::nearest_even:
    case Rounding::nearest_away:
      break;
  }
  return true;
}

std::uint64_t with_sign(const Format& format, std::uint64_t code, bool negative) {
  return code | (static_cast<std::uint64_t>(negative) << format.sign_shift);
}

// Rounds a finite number to a pattern.
std::uint64_t pack(const Format& format, const Parts& parts, Rounding rounding,
                   bool saturate_finite) {
  if (parts.significand == 0) return with_sign(format, 0, parts.negative);
  const int zeros = std::countl_zero(parts.significand);
  const std::uint64_t significand = parts.significand << zeros;
  const int exponent = parts.exponent - zeros + 63;  // of the leading bit
  const int least = 1 - format.bias;
  const int dropped = 63 - format.mantissa_bits + std::max(0, least - exponent);

  // Far below the least number any remainder short of a half does.
  std::uint64_t kept = 0;
  std::uint64_t remainder = 1;
  std::uint64_t half = 2;
  if (dropped <= 64) {
    half = std::uint64_t{1} << (dropped - 1);
    kept = dropped == 64 ? 0 : significand >> dropped;
    remainder = significand & (half * 2 - 1);  // at 64 the mask wraps round to all ones
  }
  // The leading bit in `kept` raises the exponent field from 0 to 1, and so does a carry.
  const auto scale = static_cast<std::uint64_t>(std::max(exponent, least) - least);
  std::uint64_t code = (scale << format.mantissa_bits) + kept;
  if (takes_upper(remainder, half, (code & 1) != 0, parts.negative, rounding)) ++code;

  if (code > format.largest) {
    const bool infinite = !saturate_finite && overflows(parts.negative, rounding);
    code = infinite ? format.overflow : format.largest;
  }
  return with_sign(format, code, parts.negative);
}

std::uint64_t pack(const Format& format, double value, Rounding rounding, bool saturate_finite) {
  if (std::isnan(value)) return format.nan;
  if (std::isinf(value)) {
    return with_sign(format, saturate_finite ? format.largest : format.overflow, value < 0);
  }
  return pack(format, parts_of(value), rounding, saturate_finite);
}

std::uint32_t encode_ue8m0(double value, Rounding rounding, bool saturate_finite) {
  if (std::isnan(value)) return ue8m0_nan;
  if (std::isinf(value)) return saturate_finite ? ue8m0_largest : ue8m0_nan;
  const double magnitude = std::fabs(value);
  if (magnitude <= 0x1p-127) return 0;
  const Parts parts = parts_of(magnitude);
  auto code = static_cast<std::uint32_t>(parts.exponent + 52 + ue8m0_bias);
  const std::uint64_t fraction = parts.significand & 0xfffffffffffff;
  if (takes_upper(fraction, std::uint64_t{1} << 51, (code & 1) != 0, false, rounding)) ++code;
  if (code <= ue8m0_largest) return code;
  return !saturate_finite && overflows(false, rounding) ? ue8m0_nan : ue8m0_largest;
}

// Sets the host's rounding mode. Operands and results must be volatile while it lives, or the
// compiler, which believes in one mode, moves the operation out of its life.
class RoundingScope {
 public:
  explicit RoundingScope(Rounding rounding) : before_(std::fegetround()) {
    std::fesetround(host_mode(rounding));
  }
  ~RoundingScope() { std::fesetround(before_); }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  static int host_mode(Rounding rounding) {
    switch (rounding) {
      case Rounding::zero:
        return FE_TOWARDZERO;
      case Rounding::down:
        return FE_DOWNWARD;
      case Rounding::up:
        return FE_UPWARD;
      case Rounding::nearest_even:
      case Rounding::nearest_away:
        break;
    }
    return FE_TONEAREST;
  }

  int before_;
};

template <typename Float>
Float integral(Float value, Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even:
      return std::nearbyint(value);
    case Rounding::zero:
      return std::trunc(value);
    case Rounding::down:
      return std::floor(value);
    case Rounding::up:
      return std::ceil(value);
    case Rounding::nearest_away:
      break;
  }
  return std::round(value);
}

}  // namespace

double decode(SmallFloat format, std::uint32_t bits) {
  if (format == SmallFloat::ue8m0) {
    const std::uint32_t code = bits & 0xff;
    if (code == ue8m0_nan) return detail::nan64;
    return std::ldexp(1.0, static_cast<int>(code) - ue8m0_bias);
  }
  if (format == SmallFloat::tf32) bits >>= tf32_shift;
  const Format& made = small_formats[static_cast<std::size_t>(format)];
  const std::uint32_t sign = (bits >> made.sign_shift) & 1;
  const std::uint32_t code = bits & ((1u << made.sign_shift) - 1);
  double magnitude;
  if (code <= made.largest) {
    const int field = static_cast<int>(code >> made.mantissa_bits);
    const std::uint32_t mantissa = code & ((1u << made.mantissa_bits) - 1);
    const std::uint32_t leading = field == 0 ? 0 : 1u << made.mantissa_bits;
    // The scale is a normal double in every format, so that the product is exact.
    const int exponent = std::max(field, 1) - made.bias - made.mantissa_bits;
    const auto scale =
        std::bit_cast<double>(static_cast<std::uint64_t>(exponent + f64.bias) << f64.mantissa_bits);
    magnitude = (mantissa | leading) * scale;
  } else if (code == made.overflow && made.overflow != made.nan) {
    magnitude = std::numeric_limits<double>::infinity();
  } else {
    return detail::nan64;
  }
  return sign != 0 ? -magnitude : magnitude;
}

std::uint32_t encode(SmallFloat format, double value, Rounding rounding, bool saturate_finite) {
  if (format == SmallFloat::ue8m0) return encode_ue8m0(value, rounding, saturate_finite);
  if (format == SmallFloat::tf32 && std::isnan(value)) return 0x7fffffff;
  const Format& made = small_formats[static_cast<std::size_t>(format)];
  const auto bits = static_cast<std::uint32_t>(pack(made, value, rounding, saturate_finite));
  return format == SmallFloat::tf32 ? bits << tf32_shift : bits;
}

float round_integral(float value, Rounding rounding) {
  return detail::checked(integral(value, rounding), value, value);
}

double round_integral(double value, Rounding rounding) {
  return detail::checked(integral(value, rounding), value, value);
}

namespace detail {

float to_float(double value, Rounding rounding) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(pack(f32, value, rounding, false)));
}

double propagated_nan(double a, double b, double c) {
  constexpr std::uint64_t quiet = std::uint64_t{1} << 51;
  for (const double operand : {a, b, c}) {
    if (std::isnan(operand)) {
      return std::bit_cast<double>(std::bit_cast<std::uint64_t>(operand) | quiet);
    }
  }
  return nan64;
}

namespace {

// Volatile, so that the operation stays between the two changes of the mode.
template <typename Float, typename Operation>
Float directed(Float a, Float b, Rounding rounding, Operation operation) {
  const volatile Float x = a;
  const volatile Float y = b;
  volatile Float result;
  {
    const RoundingScope scope(rounding);
    result = operation(Float{x}, Float{y});
  }
  return checked(Float{result}, a, b);
}

}  // namespace

template <typename Float>
Float add(Float a, Float b, Rounding rounding) {
  return directed(a, b, rounding, std::plus<Float>());
}

template <typename Float>
Float mul(Float a, Float b, Rounding rounding) {
  return directed(a, b, rounding, std::multiplies<Float>());
}

template <typename Float>
Float div(Float a, Float b, Rounding rounding) {
  return directed(a, b, rounding, std::divides<Float>());
}

template <typename Float>
Float sqrt(Float a, Rounding rounding) {
  const volatile Float x = a;
  volatile Float result;
  {
    const RoundingScope scope(rounding);
    result = std::sqrt(Float{x});
  }
  return checked(Float{result}, a, a);
}

template <typename Float>
Float fma(Float a, Float b, Float c, Rounding rounding) {
  const volatile Float x = a;
  const volatile Float y = b;
  const volatile Float z = c;
  volatile Float result;
  {
    const RoundingScope scope(rounding);
    result = std::fma(Float{x}, Float{y}, Float{z});
  }
  return checked(Float{result}, a, b, c);
}

template <typename Float>
Float from_magnitude(std::uint64_t magnitude, bool negative, Rounding rounding) {
  const Parts parts{magnitude, 0, negative};
  if constexpr (sizeof(Float) == 8) {
    return std::bit_cast<double>(pack(f64, parts, rounding, false));
  } else {
    return std::bit_cast<float>(static_cast<std::uint32_t>(pack(f32, parts, rounding, false)));
  }
}

template float add(float, float, Rounding);
template double add(double, double, Rounding);
template float mul(float, float, Rounding);
template double mul(double, double, Rounding);
template float div(float, float, Rounding);
template double div(double, double, Rounding);
template float sqrt(float, Rounding);
template double sqrt(double, Rounding);
template float fma(float, float, float, Rounding);
template double fma(double, double, double, Rounding);
template float from_magnitude(std::uint64_t, bool, Rounding);
template double from_magnitude(std::uint64_t, bool, Rounding);

}  // namespace detail

}  // namespace cudademo::emulator
