// The emulator's number formats and rounding. Formats are checked against numbers laid out here as
// on a ruler, against the compiler's _Float16, and against constants from the OCP formats;
// arithmetic against exact arithmetic on wide integers.
#include "numeric.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace {

int failures = 0;

std::string text() { return {}; }
template <typename First, typename... Rest>
std::string text(First first, Rest... rest) {
  char buffer[64];
  if constexpr (std::is_floating_point_v<First>) {
    std::snprintf(buffer, sizeof buffer, " %a", static_cast<double>(first));
  } else {
    std::snprintf(buffer, sizeof buffer, " %#llx", static_cast<unsigned long long>(first));
  }
  return buffer + text(rest...);
}

void report(int line, const char* what, const std::string& values) {
  if (++failures <= 40)
    std::fprintf(stderr, "failed: line %d: %s:%s\n", line, what, values.c_str());
}

#define CHECK(holds, ...)                                      \
  do {                                                         \
    if (!(holds)) report(__LINE__, #holds, text(__VA_ARGS__)); \
  } while (false)

using namespace cudademo::emulator;

constexpr Rounding ieee_roundings[] = {Rounding::nearest_even, Rounding::zero, Rounding::down,
                                       Rounding::up};
constexpr Rounding all_roundings[] = {Rounding::nearest_even, Rounding::zero, Rounding::down,
                                      Rounding::up, Rounding::nearest_away};

constexpr float infinity_f = std::numeric_limits<float>::infinity();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }

// The same numbers each time. NOLINTNEXTLINE(bugprone-random-generator-seed)
std::mt19937_64 random_bits(20240607);

// Now and then of any pattern; else of an exponent in the range, often with few bits set, so that
// ties and exact results come up.
template <typename Float>
Float random_float(int least_exponent, int largest_exponent) {
  const std::uint64_t raw = random_bits();
  if (raw % 16 == 0) {
    if constexpr (sizeof(Float) == 4)
      return std::bit_cast<float>(static_cast<std::uint32_t>(raw >> 32));
    else
      return std::bit_cast<double>(random_bits());
  }
  const auto span =
      static_cast<std::uint64_t>(largest_exponent) - static_cast<std::uint64_t>(least_exponent) + 1;
  const int exponent = least_exponent + static_cast<int>((raw >> 8) % span);
  constexpr int digits = std::numeric_limits<Float>::digits;
  std::uint64_t whole = (random_bits() >> (64 - digits)) | (std::uint64_t{1} << (digits - 1));
  if ((raw & 0x10) != 0) whole &= ~std::uint64_t{0} << (random_bits() % digits);
  const auto magnitude =
      static_cast<Float>(std::ldexp(static_cast<Float>(whole), exponent - digits + 1));
  return (raw & 0x20) != 0 ? -magnitude : magnitude;
}

// ---- Formats ----

// A format's magnitudes in order, laid out from the least one: equal steps up to twice the first
// power of two that has all its bits, and then steps that double with each power of two.
struct Ruler {
  SmallFloat format;
  const char* name;
  int mantissa_bits;
  double least;
  double largest;
  std::uint32_t beyond;  // the code in the place of an overflow
  std::uint32_t nan;
  std::uint32_t sign;
  int shift;
  std::vector<double> values{};  // NOLINT(readability-redundant-member-init): GCC wants it
};

std::vector<Ruler> rulers() {
  std::vector<Ruler> all = {
      {SmallFloat::f16, "f16", 10, 0x1p-24, 65504, 0x7c00, 0x7fff, 0x8000, 0},
      {SmallFloat::bf16, "bf16", 7, 0x1p-133, 0x1.fep127, 0x7f80, 0x7fff, 0x8000, 0},
      {SmallFloat::tf32, "tf32", 10, 0x1p-136, 0x1.ffcp127, 0x3fc00, 0x7fffffff, 0x40000, 13},
      {SmallFloat::e4m3, "e4m3", 3, 0x1p-9, 448, 0x7f, 0x7f, 0x80, 0},
      {SmallFloat::e5m2, "e5m2", 2, 0x1p-16, 57344, 0x7c, 0x7f, 0x80, 0},
      {SmallFloat::e3m2, "e3m2", 2, 0.0625, 28, 0x1f, 0x1f, 0x20, 0},
      {SmallFloat::e2m3, "e2m3", 3, 0.125, 7.5, 0x1f, 0x1f, 0x20, 0},
      {SmallFloat::e2m1, "e2m1", 1, 0.5, 6, 0x7, 0x7, 0x8, 0},
  };
  for (Ruler& ruler : all) {
    double step = ruler.least;
    double value = 0;
    while (value <= ruler.largest) {
      ruler.values.push_back(value);
      const std::size_t in_binade = std::size_t{1} << ruler.mantissa_bits;
      const std::size_t code = ruler.values.size() - 1;
      if (code >= 2 * in_binade && code % in_binade == 0) step *= 2;
      value += step;
    }
  }
  return all;
}

// The pattern for a value, by a search of the ruler.
std::uint32_t expected_code(const Ruler& ruler, double value, Rounding rounding, bool saturate) {
  if (std::isnan(value)) return ruler.nan;
  const double magnitude = std::fabs(value);
  const bool negative = std::signbit(value);
  const auto& values = ruler.values;
  const auto above = std::upper_bound(values.begin(), values.end(), magnitude);
  const auto lower = static_cast<std::uint32_t>(above - values.begin()) - 1;
  const double low = values[lower];
  const bool last = lower + 1 == values.size();
  const double high = last ? 2 * low - values[lower - 1] : values[lower + 1];
  const double middle = (low + high) / 2;  // exact: the formats have few bits
  bool up = false;
  if (magnitude != low) {
    switch (rounding) {
      case Rounding::nearest_even:
        up = magnitude > middle || (magnitude == middle && lower % 2 != 0);
        break;
      case Rounding::nearest_away:
        up = magnitude >= middle;
        break;
      case Rounding::zero:
        up = false;
        break;
      case Rounding::down:
        up = negative;
        break;
      case Rounding::up:
        up = !negative;
        break;
    }
  }
  if (std::isinf(value)) up = true;
  std::uint32_t code = lower + (up ? 1 : 0);
  if (last && up) code = saturate ? lower : ruler.beyond;
  return (code | (negative ? ruler.sign : 0)) << ruler.shift;
}

void check_encode(const Ruler& ruler, double value) {
  for (const Rounding rounding : all_roundings) {
    for (const bool saturate : {false, true}) {
      const std::uint32_t got = encode(ruler.format, value, rounding, saturate);
      const std::uint32_t expected = expected_code(ruler, value, rounding, saturate);
      CHECK(got == expected, ruler.mantissa_bits, value, static_cast<int>(rounding), saturate, got,
            expected);
    }
  }
}

void every_pattern_has_its_value_and_comes_back(const Ruler& ruler) {
  const auto count = static_cast<std::uint32_t>(ruler.values.size());
  CHECK(ruler.values.back() == ruler.largest, ruler.values.back());
  for (std::uint32_t code = 0; code < ruler.sign; ++code) {
    for (const bool negative : {false, true}) {
      const std::uint32_t bits = (code | (negative ? ruler.sign : 0)) << ruler.shift;
      const double value = decode(ruler.format, bits);
      if (code < count) {
        CHECK(value == (negative ? -ruler.values[code] : ruler.values[code]), bits, value);
        CHECK(std::signbit(value) == negative, bits);
        for (const Rounding rounding : all_roundings) {
          const std::uint32_t back = encode(ruler.format, value, rounding);
          CHECK(back == bits, bits, value, back);
        }
      } else if (code == ruler.beyond && ruler.beyond != ruler.nan) {
        CHECK(value == (negative ? -infinity : infinity), bits, value);
        CHECK(encode(ruler.format, value, Rounding::zero) == bits, bits);
      } else {
        CHECK(std::isnan(value), bits, value);
        CHECK(encode(ruler.format, value, Rounding::nearest_even) == ruler.nan, bits);
      }
    }
  }
}

void encode_takes_the_nearest_on_the_ruler(const Ruler& ruler) {
  const auto& values = ruler.values;
  const std::size_t count = values.size();
  for (std::size_t code = 0; code < count; ++code) {
    const double low = values[code];
    const double high = code + 1 < count ? values[code + 1] : 2 * low - values[code - 1];
    const double middle = (low + high) / 2;
    for (const double value : {middle, std::nextafter(middle, 0), std::nextafter(middle, infinity),
                               std::nextafter(low, infinity), std::nextafter(high, 0), high}) {
      check_encode(ruler, value);
      check_encode(ruler, -value);
    }
  }
  const int least = std::ilogb(ruler.least) - 3;
  const int largest = std::ilogb(ruler.largest) + 2;
  for (int i = 0; i < 100000; ++i) check_encode(ruler, random_float<double>(least, largest));
  for (const double value :
       {0.0, 0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp1023, infinity, nan_value}) {
    check_encode(ruler, value);
    check_encode(ruler, -value);
  }
}

void hand_computed_patterns() {
  const auto nearest = Rounding::nearest_even;
  CHECK(encode(SmallFloat::f16, 1, nearest) == 0x3c00);
  CHECK(encode(SmallFloat::f16, 65519.99, nearest) == 0x7bff);
  CHECK(encode(SmallFloat::f16, 65520, nearest) == 0x7c00);
  CHECK(encode(SmallFloat::f16, -65520, nearest, true) == 0xfbff);
  CHECK(encode(SmallFloat::f16, 1e9, Rounding::zero) == 0x7bff);
  CHECK(encode(SmallFloat::f16, -1e9, Rounding::up) == 0xfbff);
  CHECK(encode(SmallFloat::f16, -1e9, Rounding::down) == 0xfc00);
  CHECK(encode(SmallFloat::bf16, -1.5, nearest) == 0xbfc0);
  CHECK(encode(SmallFloat::tf32, 1, nearest) == 0x3f800000);
  CHECK(encode(SmallFloat::tf32, 1 + 0x1p-11, nearest) == 0x3f800000);
  CHECK(encode(SmallFloat::tf32, 1 + 0x1p-11, Rounding::nearest_away) == 0x3f802000);
  CHECK(decode(SmallFloat::tf32, 0x3f801fff) == 1);
  // A double that rounds up to a float on a tie of f16: two roundings would give 0x3c02.
  CHECK(encode(SmallFloat::f16, 1 + 0x1.8p-10 - 0x1p-50, nearest) == 0x3c01);
  CHECK(encode(SmallFloat::e4m3, 448, nearest) == 0x7e);
  CHECK(encode(SmallFloat::e4m3, 464, nearest) == 0x7e);
  CHECK(encode(SmallFloat::e4m3, 464.1, nearest) == 0x7f);
  CHECK(encode(SmallFloat::e4m3, -1e9, nearest) == 0xff);
  CHECK(encode(SmallFloat::e4m3, -1e9, nearest, true) == 0xfe);
  CHECK(encode(SmallFloat::e4m3, nan_value, nearest, true) == 0x7f);
  CHECK(encode(SmallFloat::e5m2, -infinity, nearest) == 0xfc);
  CHECK(encode(SmallFloat::e5m2, -infinity, nearest, true) == 0xfb);
  CHECK(encode(SmallFloat::e3m2, nan_value, nearest, true) == 0x1f);
  CHECK(encode(SmallFloat::e2m3, -100, nearest, true) == 0x3f);
  CHECK(encode(SmallFloat::e2m1, 2.5, nearest, true) == 0x4);
  CHECK(encode(SmallFloat::e2m1, 5, nearest, true) == 0x6);
  CHECK(encode(SmallFloat::e2m1, -0.25, nearest, true) == 0x8);
}

void ue8m0_is_a_power_of_two() {
  const auto got = [](double value, Rounding rounding, bool saturate) {
    return encode(SmallFloat::ue8m0, value, rounding, saturate);
  };
  for (std::uint32_t code = 0; code < 255; ++code) {
    const double value = std::ldexp(1.0, static_cast<int>(code) - 127);
    CHECK(decode(SmallFloat::ue8m0, code) == value, code);
    for (const Rounding rounding : all_roundings) {
      CHECK(got(value, rounding, false) == code, code);
      CHECK(got(-value, rounding, false) == code, code);
    }
    CHECK(got(value * 1.01, Rounding::zero, false) == code, code);
    CHECK(got(value * 1.99, Rounding::zero, true) == code, code);
    CHECK(got(value * 1.01, Rounding::up, false) == code + 1, code);
    CHECK(got(-value * 1.01, Rounding::up, false) == code + 1, code);
    CHECK(got(value * 1.49, Rounding::nearest_even, false) == code, code);
    CHECK(got(value * 1.51, Rounding::nearest_even, false) == code + 1, code);
  }
  CHECK(std::isnan(decode(SmallFloat::ue8m0, 0xff)));
  CHECK(got(0, Rounding::up, false) == 0);
  CHECK(got(0x1p-140, Rounding::up, false) == 0);
  CHECK(got(0x1p-127 * 1.5, Rounding::zero, false) == 0);
  CHECK(got(0x1p127 * 1.5, Rounding::up, true) == 0xfe);
  CHECK(got(infinity, Rounding::zero, true) == 0xfe);
  CHECK(got(-infinity, Rounding::zero, true) == 0xfe);
  CHECK(got(infinity, Rounding::zero, false) == 0xff);
  CHECK(got(nan_value, Rounding::up, true) == 0xff);
}

void fast_conversions_agree_with_the_ruler(const Ruler& f16, const Ruler& bf16) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const double half = decode(SmallFloat::f16, bits);
    const float fast = float_from_f16(pattern);
    CHECK(std::isnan(half) ? bits_of(fast) == 0x7fffffff
                           : bits_of(fast) == bits_of(static_cast<float>(half)),
          bits);
    CHECK(bits_of(float_from_bf16(pattern)) == bits << 16, bits);
  }
  const auto check = [&](float value) {
    const double wide = value;
    CHECK(f16_from_float(value) == expected_code(f16, wide, Rounding::nearest_even, false), value);
    CHECK(bf16_from_float(value) == expected_code(bf16, wide, Rounding::nearest_even, false),
          value);
  };
  // Every upper half of a float with the lower halves that round differently.
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x3000u, 0x5000u, 0x7000u,
                                      0x7fffu, 0x8000u, 0x8001u, 0xb000u, 0xf000u, 0xffffu}) {
      check(std::bit_cast<float>((upper << 16) | lower));
    }
  }
  for (int i = 0; i < 500000; ++i) check(random_float<float>(-27, 17));
}

void f16_agrees_with_the_compiler() {
#ifdef __FLT16_MANT_DIG__
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const auto half = static_cast<float>(std::bit_cast<_Float16>(pattern));
    if (half != half) continue;
    CHECK(bits_of(float_from_f16(pattern)) == bits_of(half), bits);
    CHECK(f16_from_float(half) == pattern, bits);
  }
  for (int i = 0; i < 500000; ++i) {
    const double value = random_float<double>(-28, 17);
    if (value != value) continue;
    const auto single = static_cast<float>(value);
    CHECK(f16_from_float(single) == std::bit_cast<std::uint16_t>(static_cast<_Float16>(single)),
          single);
    CHECK(encode(SmallFloat::f16, value, Rounding::nearest_even) ==
              std::bit_cast<std::uint16_t>(static_cast<_Float16>(value)),
          value);
  }
#endif
}

// ---- Arithmetic ----

// An exact sum of products of doubles: fixed point, wide enough for any of them.
class Exact {
 public:
  void add(double a, double b) {
    if (a == 0 || b == 0) return;
    int exponent_a;
    int exponent_b;
    const auto whole_a = static_cast<std::int64_t>(std::ldexp(std::frexp(a, &exponent_a), 53));
    const auto whole_b = static_cast<std::int64_t>(std::ldexp(std::frexp(b, &exponent_b), 53));
    const bool negative = (whole_a < 0) != (whole_b < 0);
    auto product = static_cast<unsigned __int128>(std::abs(whole_a)) *
                   static_cast<unsigned __int128>(std::abs(whole_b));
    const int position = exponent_a + exponent_b - 106 + lowest_bit;
    auto limb = static_cast<std::size_t>(position / 32);
    const int shift = position % 32;
    const auto put = [&](unsigned __int128 chunk) {
      const auto digit = static_cast<std::int64_t>(static_cast<std::uint32_t>(chunk));
      limbs_[limb++] += negative ? -digit : digit;
    };
    put(product << shift);
    for (product >>= 32 - shift; product != 0; product >>= 32) put(product);
  }

  int sign() const {
    std::int64_t carry = 0;
    bool any = false;
    for (const std::int64_t digit : limbs_) {
      carry += digit;
      any = any || (carry & 0xffffffff) != 0;
      carry >>= 32;
    }
    return carry < 0 ? -1 : any || carry > 0 ? 1 : 0;
  }

 private:
  static constexpr int lowest_bit = 2300;  // limb 0 has the weight 2^-2300
  std::array<std::int64_t, 150> limbs_{};
};

// A number as a sum of two doubles, so that what would follow the largest double has a form.
struct Point {
  double high;
  double low;
};

// A result among its neighbours. Infinity stands for what would follow the largest number.
struct Result {
  Point before;
  Point at;
  Point after;
  bool even;
  bool infinite;
  bool largest;
};

template <typename Float>
Point point(Float value) {
  if (!std::isinf(value)) return {static_cast<double>(value), 0};
  constexpr Float largest = std::numeric_limits<Float>::max();
  const Float step = largest - std::nextafter(largest, Float{0});
  return {static_cast<double>(std::copysign(largest, value)),
          static_cast<double>(std::copysign(step, value))};
}

template <typename Float>
Result among_neighbours(Float value) {
  constexpr Float top = std::numeric_limits<Float>::infinity();
  return {point(std::nextafter(value, -top)),
          point(value),
          point(std::nextafter(value, top)),
          (bits_of(value) & 1) == 0,
          std::isinf(value),
          std::fabs(value) == std::numeric_limits<Float>::max()};
}

Result among_neighbours(const Ruler& ruler, std::uint16_t bits) {
  const auto at = [&](int signed_code) {
    const auto code = static_cast<std::size_t>(std::abs(signed_code));
    const std::size_t count = ruler.values.size();
    Point place{0, 0};
    if (code < count)
      place.high = ruler.values[code];
    else
      place = {ruler.largest, ruler.largest - ruler.values[count - 2]};
    if (signed_code < 0) place = {-place.high, -place.low};
    return place;
  };
  const int code = bits & 0x7fff;
  const int signed_code = (bits & 0x8000) != 0 ? -code : code;
  return {at(signed_code - 1),
          at(signed_code),
          at(signed_code + 1),
          code % 2 == 0,
          static_cast<std::uint32_t>(code) == ruler.beyond,
          static_cast<std::size_t>(code) + 1 == ruler.values.size()};
}

// Whether a finite exact number rounds to the result. difference(x, y) is the sign of
// exact - (x + y) / 2.
template <typename Difference>
bool is_right(const Result& result, Rounding rounding, Difference difference) {
  const int exact_sign = difference(Point{0, 0}, Point{0, 0});
  const bool positive = result.at.high > 0;
  if (rounding == Rounding::zero) rounding = exact_sign < 0 ? Rounding::up : Rounding::down;
  if (rounding == Rounding::down) {
    if (result.infinite) return !positive && difference(result.after, result.after) < 0;
    return difference(result.at, result.at) >= 0 &&
           ((result.largest && positive) || difference(result.after, result.after) < 0);
  }
  if (rounding == Rounding::up) {
    if (result.infinite) return positive && difference(result.before, result.before) > 0;
    return difference(result.at, result.at) <= 0 &&
           ((result.largest && !positive) || difference(result.before, result.before) > 0);
  }
  const bool away = rounding == Rounding::nearest_away;
  const int low = result.infinite && !positive ? 1 : difference(result.before, result.at);
  const int high = result.infinite && positive ? -1 : difference(result.at, result.after);
  return (low > 0 || (low == 0 && (away ? exact_sign > 0 : result.even))) &&
         (high < 0 || (high == 0 && (away ? exact_sign < 0 : result.even)));
}

void subtract_twice_the_middle(Exact& from, Point x, Point y, double scale) {
  for (const double part : {x.high, x.low, y.high, y.low}) from.add(-scale, part);
}

// exact = a * b + c
auto product_and_sum(double a, double b, double c) {
  return [=](Point x, Point y) {
    Exact twice;
    for (int i = 0; i < 2; ++i) {
      twice.add(a, b);
      twice.add(1, c);
    }
    subtract_twice_the_middle(twice, x, y, 1);
    return twice.sign();
  };
}

// exact = a / b
auto quotient(double a, double b) {
  return [=](Point x, Point y) {
    Exact twice;
    twice.add(2, a);
    subtract_twice_the_middle(twice, x, y, b);
    return b < 0 ? -twice.sign() : twice.sign();
  };
}

// exact = the root of a; both points are at least zero unless they are next to it
auto root(double a) {
  return [=](Point x, Point y) {
    if (x.high + y.high < 0) return 1;
    Exact four;
    four.add(4, a);
    four.add(-x.high, x.high);
    four.add(-2 * x.high, y.high);
    four.add(-y.high, y.high);
    return four.sign();
  };
}

template <typename Float>
void float_arithmetic_rounds_once(int least, int largest, int count) {
  const auto finite = [&](int low, int high) {
    Float value;
    do value = random_float<Float>(low, high);
    while (!std::isfinite(value));
    return value;
  };
  for (int i = 0; i < count; ++i) {
    // Near to each other half the time, so that digits cancel and ties come up.
    const bool near = i % 2 == 0;
    const Float a = near ? finite(-3, 3) : finite(least, largest);
    const Float b = near ? finite(-30, 3) : finite(least, largest);
    const Float c = near ? finite(-60, 6) : finite(least, largest);
    // Scaled towards the subnormal numbers and towards overflow, to round there too.
    const Float small = std::ldexp(a, least / 2);
    const Float large = std::ldexp(a, largest);
    const auto wide = [](Float value) { return static_cast<double>(value); };
    for (const Rounding mode : ieee_roundings) {
      const int m = static_cast<int>(mode);
      const auto check = [&](Float x, Float y, Float z) {
        const Float sum = add(x, y, mode);
        CHECK(is_right(among_neighbours(sum), mode, product_and_sum(wide(x), 1, wide(y))), m, x, y,
              sum);
        const Float product = mul(x, y, mode);
        CHECK(is_right(among_neighbours(product), mode, product_and_sum(wide(x), wide(y), 0)), m, x,
              y, product);
        const Float fused = fma(x, y, z, mode);
        CHECK(is_right(among_neighbours(fused), mode, product_and_sum(wide(x), wide(y), wide(z))),
              m, x, y, z, fused);
        if (y != 0) {
          const Float ratio = div(x, y, mode);
          CHECK(is_right(among_neighbours(ratio), mode, quotient(wide(x), wide(y))), m, x, y,
                ratio);
        }
        const Float magnitude = std::fabs(x);
        if (magnitude != 0) {
          const Float side = sqrt(magnitude, mode);
          CHECK(is_right(among_neighbours(side), mode, root(wide(magnitude))), m, magnitude, side);
        }
      };
      check(a, b, c);
      if (near && i % 8 == 0) {
        if (std::isfinite(small)) check(small, b, std::ldexp(c, least));
        if (std::isfinite(large)) check(large, b, large);
        check(small, std::ldexp(b, least / 2), std::ldexp(c, least));
      }
      // a * b - a * b exactly: only the rounding error of the product is left.
      if (std::isfinite(a * b)) {
        const Float rest = fma(a, b, -(a * b), mode);
        CHECK(
            is_right(among_neighbours(rest), mode, product_and_sum(wide(a), wide(b), -wide(a * b))),
            m, a, b, rest);
      }
    }
  }
}

void half_arithmetic_rounds_once(const Ruler& ruler, int count) {
  const SmallFloat format = ruler.format;
  const auto largest = static_cast<std::uint64_t>(ruler.values.size());
  const auto finite = [&](std::uint64_t centre, std::uint64_t spread) {
    const std::uint64_t raw = random_bits();
    std::uint64_t code = raw % largest;
    if (raw % 3 != 0) code = (centre + (raw >> 16) % spread) % largest;
    return static_cast<std::uint16_t>(code | ((raw >> 60) % 2) << 15);
  };
  const std::uint64_t one = largest / 2;
  const auto nearest = Rounding::nearest_even;
  for (int i = 0; i < count; ++i) {
    const std::uint16_t a = finite(i % 2 == 0 ? one : 0, largest / 4);
    const std::uint16_t b = finite(one / 2, one);
    const std::uint16_t c = finite(i % 3 == 0 ? 0 : one, largest / 4);
    const double x = decode(format, a);
    const double y = decode(format, b);
    const double z = decode(format, c);
    const std::uint16_t sum = add(format, a, b);
    CHECK(is_right(among_neighbours(ruler, sum), nearest, product_and_sum(x, 1, y)), a, b, sum);
    const std::uint16_t difference = sub(format, a, b);
    CHECK(is_right(among_neighbours(ruler, difference), nearest, product_and_sum(x, 1, -y)), a, b,
          difference);
    const std::uint16_t product = mul(format, a, b);
    CHECK(is_right(among_neighbours(ruler, product), nearest, product_and_sum(x, y, 0)), a, b,
          product);
    const std::uint16_t fused = fma(format, a, b, c);
    CHECK(is_right(among_neighbours(ruler, fused), nearest, product_and_sum(x, y, z)), a, b, c,
          fused);
  }
}

void half_arithmetic_special_cases() {
  for (const SmallFloat format : {SmallFloat::f16, SmallFloat::bf16}) {
    const auto top = static_cast<std::uint16_t>(format == SmallFloat::f16 ? 0x7c00 : 0x7f80);
    const auto one = static_cast<std::uint16_t>(encode(format, 1, Rounding::nearest_even));
    const auto minus = static_cast<std::uint16_t>(one | 0x8000);
    CHECK(add(format, top, one) == top);
    CHECK(sub(format, top, top) == 0x7fff);
    CHECK(mul(format, top, 0) == 0x7fff);
    CHECK(fma(format, top, one, minus) == top);
    CHECK(fma(format, top, 0, one) == 0x7fff);
    CHECK(fma(format, one, one, static_cast<std::uint16_t>(top | 0x8000)) == (top | 0x8000));
    CHECK(fma(format, top, one, static_cast<std::uint16_t>(top | 0x8000)) == 0x7fff);
    CHECK(add(format, static_cast<std::uint16_t>(top | 0x8001), one) == 0x7fff);
    CHECK(add(format, one, minus) == 0);
    CHECK(add(format, 0x8000, 0x8000) == 0x8000);
    CHECK(mul(format, 0x8000, one) == 0x8000);
    CHECK(mul(format, 0x8001, 0x0001) == 0x8000);
    CHECK(fma(format, 0x8000, one, 0x8000) == 0x8000);
  }
  // A product just above half of the least bf16.
  const auto a = static_cast<std::uint16_t>(encode(SmallFloat::bf16, 0x1.02p-67, Rounding::zero));
  const auto b = static_cast<std::uint16_t>(encode(SmallFloat::bf16, 0x1.fep-68, Rounding::zero));
  CHECK(mul(SmallFloat::bf16, a, b) == 1, a, b);
  // 1.0078125 * 1.5 is a tie of bf16; an addend 130 binades below breaks it either way.
  CHECK(fma(SmallFloat::bf16, 0x3f81, 0x3fc0, 0x0000) == 0x3fc2);
  CHECK(fma(SmallFloat::bf16, 0x3f81, 0x3fc0, 0x0001) == 0x3fc2);
  CHECK(fma(SmallFloat::bf16, 0x3f81, 0x3fc0, 0x8001) == 0x3fc1);
}

void float_special_cases() {
  for (const Rounding mode : ieee_roundings) {
    const auto canonical = [](float value) { return bits_of(value) == 0x7fffffff; };
    const float payload = std::bit_cast<float>(0xffc12345u);
    CHECK(canonical(add(payload, 1.0f, mode)));
    CHECK(canonical(add(infinity_f, -infinity_f, mode)));
    CHECK(canonical(mul(infinity_f, 0.0f, mode)));
    CHECK(canonical(div(0.0f, 0.0f, mode)));
    CHECK(canonical(sqrt(-1.0f, mode)));
    CHECK(canonical(fma(infinity_f, 0.0f, 1.0f, mode)));
    CHECK(canonical(fma(1.0f, 1.0f, payload, mode)));
    CHECK(canonical(fma(infinity_f, 1.0f, -infinity_f, mode)));
    CHECK(canonical(round_integral(payload, mode)));
    CHECK(canonical(to_float(nan_value, mode)));
    CHECK(fma(infinity_f, 1.0f, -1.0f, mode) == infinity_f);
    CHECK(fma(2.0f, 1.0f, -infinity_f, mode) == -infinity_f);
    CHECK(add(infinity_f, 1.0f, mode) == infinity_f);
    CHECK(div(-1.0f, 0.0f, mode) == -infinity_f);
    CHECK(to_float(-infinity, mode) == -infinity_f);

    // A NaN with its payload, made quiet, and the first of two.
    const double first = std::bit_cast<double>(0x7ff0000000000123u);
    const double second = std::bit_cast<double>(0xfff8000000000456u);
    CHECK(bits_of(add(first, 1.0, mode)) == 0x7ff8000000000123u);
    CHECK(bits_of(mul(second, first, mode)) == 0xfff8000000000456u);
    CHECK(bits_of(fma(1.0, 2.0, first, mode)) == 0x7ff8000000000123u);
    CHECK(bits_of(sqrt(second, mode)) == 0xfff8000000000456u);
    CHECK(bits_of(add(infinity, -infinity, mode)) == 0xfff8000000000000u);

    // An exact zero from a difference is negative only when rounding down.
    CHECK(std::signbit(add(1.0f, -1.0f, mode)) == (mode == Rounding::down));
    CHECK(std::signbit(add(1.0, -1.0, mode)) == (mode == Rounding::down));
    CHECK(std::signbit(fma(1.0f, 1.0f, -1.0f, mode)) == (mode == Rounding::down));
    CHECK(std::signbit(fma(1.0, 1.0, -1.0, mode)) == (mode == Rounding::down));
    CHECK(std::signbit(add(-0.0f, -0.0f, mode)));
    CHECK(std::signbit(sqrt(-0.0f, mode)));
    CHECK(std::signbit(to_float(-0.0, mode)));
    CHECK(!std::signbit(from_integer<float>(std::int64_t{0}, mode)));
    CHECK(!std::signbit(from_integer<double>(std::uint64_t{0}, mode)));
  }
  CHECK(std::fegetround() == FE_TONEAREST);
}

void mul_and_add_are_not_fused() {
  // Only holds where this file is compiled so that the compiler does not fuse either.
  volatile float x = 1 + 0x1p-12f;
  const float product = mul(x, x, Rounding::nearest_even);
  CHECK(add(product, -(1 + 0x1p-11f), Rounding::nearest_even) == 0);
}

// ---- Conversions ----

void doubles_become_floats_in_one_step() {
  const auto check = [](double value) {
    for (const Rounding rounding : all_roundings) {
      const float got = to_float(value, rounding);
      CHECK(is_right(among_neighbours(got), rounding, product_and_sum(value, 1, 0)), value,
            static_cast<int>(rounding), got);
      CHECK(std::signbit(got) == std::signbit(value), value, static_cast<int>(rounding));
    }
  };
  for (int i = 0; i < 60000; ++i) {
    const double value = random_float<double>(-152, 129);
    if (!std::isfinite(value)) continue;
    check(value);
    const double middle =
        (value == 0 ? 1 : static_cast<double>(static_cast<float>(value))) * (1 + 0x1p-24);
    if (std::isfinite(middle)) check(middle);
  }
  for (const double value : {0x1p-149, 0x1p-150, 0x1.8p-150, 0x1p-151, 0x1.8p-149, 0x1.ffffffp127,
                             0x1.fffffefp127, 0x1p128, 0x1p1023, 0x1p-1074}) {
    check(value);
    check(-value);
  }
}

template <typename Float>
void integers_become_floats_in_one_step() {
  for (int i = 0; i < 40000; ++i) {
    std::uint64_t value = random_bits() >> (random_bits() % 64);
    if (i % 2 != 0) value &= ~std::uint64_t{0} << (random_bits() % 64);
    if (i % 5 == 0) value += random_bits() % 3 - 1;
    const auto as_signed = static_cast<std::int64_t>(value);
    const double upper = static_cast<double>(value >> 32);
    const double lower = static_cast<double>(value & 0xffffffff);
    const double signed_upper = static_cast<double>(as_signed >> 32);
    for (const Rounding rounding : all_roundings) {
      const Float got = from_integer<Float>(value, rounding);
      CHECK(is_right(among_neighbours(got), rounding, product_and_sum(upper, 0x1p32, lower)), value,
            static_cast<int>(rounding), got);
      const Float signed_got = from_integer<Float>(as_signed, rounding);
      CHECK(is_right(among_neighbours(signed_got), rounding,
                     product_and_sum(signed_upper, 0x1p32, lower)),
            value, static_cast<int>(rounding), signed_got);
    }
  }
}

// The integral number by another route: long double and its own functions.
long double integral(long double value, Rounding rounding) {
  const long double below = std::floor(value);
  const long double rest = value - below;
  switch (rounding) {
    case Rounding::down:
      return below;
    case Rounding::up:
      return rest > 0 ? below + 1 : below;
    case Rounding::zero:
      return value < 0 && rest > 0 ? below + 1 : below;
    case Rounding::nearest_even:
      return rest > 0.5L || (rest == 0.5L && std::fmod(below, 2) != 0) ? below + 1 : below;
    case Rounding::nearest_away:
      return rest > 0.5L || (rest == 0.5L && value > 0) ? below + 1 : below;
  }
  return value;
}

template <typename Integer, typename Float>
void check_to_integer(Float value, Rounding rounding) {
  using Limits = std::numeric_limits<Integer>;
  const long double exact = integral(static_cast<long double>(value), rounding);
  Integer expected;
  if (exact > static_cast<long double>(Limits::max()))
    expected = Limits::max();
  else if (exact < static_cast<long double>(Limits::min()))
    expected = Limits::min();
  else
    expected = static_cast<Integer>(exact);
  const Integer got = to_integer<Integer>(value, rounding);
  CHECK(got == expected, value, static_cast<int>(rounding), sizeof(Integer), got, expected);
}

template <typename Float>
void floats_become_integers_as_cvt_says() {
  const auto check = [](Float value) {
    for (const Rounding rounding : all_roundings) {
      const Float got = round_integral(value, rounding);
      if (std::isinf(value))
        CHECK(got == value, value);
      else
        CHECK(static_cast<long double>(got) == integral(static_cast<long double>(value), rounding),
              value, got);
      CHECK(std::signbit(got) == std::signbit(value), value, got);
      check_to_integer<std::int8_t>(value, rounding);
      check_to_integer<std::uint8_t>(value, rounding);
      check_to_integer<std::int16_t>(value, rounding);
      check_to_integer<std::uint16_t>(value, rounding);
      check_to_integer<std::int32_t>(value, rounding);
      check_to_integer<std::uint32_t>(value, rounding);
      check_to_integer<std::int64_t>(value, rounding);
      check_to_integer<std::uint64_t>(value, rounding);
    }
  };
  for (int i = 0; i < 40000; ++i) {
    const Float value = random_float<Float>(-3, 66);
    if (!std::isnan(value)) check(value);
  }
  for (int half = -1100; half <= 1100; ++half) {
    const Float value = static_cast<Float>(half) / 2;
    for (const Float near :
         {value, std::nextafter(value, Float{1e30f}), std::nextafter(value, Float{-1e30f})})
      check(near);
  }
  for (int bits = 7; bits <= 64; ++bits) {
    const Float power = std::ldexp(Float{1}, bits);
    for (const Float offset : {Float{-1}, Float{-0.5f}, Float{0}, Float{0.5f}, Float{1}}) {
      check(power + offset);
      check(-power + offset);
    }
    check(std::nextafter(power, Float{0}));
    check(-std::nextafter(power, Float{0}));
  }
  check(std::numeric_limits<Float>::infinity());
  check(-std::numeric_limits<Float>::infinity());
}

void nan_becomes_an_integer_as_cvt_says() {
  const float single = std::numeric_limits<float>::quiet_NaN();
  for (const Rounding rounding : all_roundings) {
    CHECK(to_integer<std::int8_t>(single, rounding) == 0);
    CHECK(to_integer<std::uint16_t>(single, rounding) == 0);
    CHECK(to_integer<std::int32_t>(single, rounding) == 0);
    CHECK(to_integer<std::uint32_t>(single, rounding) == 0);
    CHECK(to_integer<std::int64_t>(single, rounding) == std::numeric_limits<std::int64_t>::min());
    CHECK(to_integer<std::uint64_t>(single, rounding) == 0x8000000000000000u);
    CHECK(to_integer<std::int8_t>(nan_value, rounding) == -128);
    CHECK(to_integer<std::uint8_t>(nan_value, rounding) == 0x80);
    CHECK(to_integer<std::int32_t>(nan_value, rounding) ==
          std::numeric_limits<std::int32_t>::min());
    CHECK(to_integer<std::uint32_t>(nan_value, rounding) == 0x80000000u);
    CHECK(to_integer<std::uint64_t>(nan_value, rounding) == 0x8000000000000000u);
  }
}

void subnormals_flush_to_zero_of_their_sign() {
  CHECK(bits_of(flush_subnormal(0x1p-149f)) == 0);
  CHECK(bits_of(flush_subnormal(-0x1.fffffcp-127f)) == 0x80000000u);
  CHECK(flush_subnormal(-0x1p-126f) == -0x1p-126f);
  CHECK(bits_of(flush_subnormal(std::bit_cast<float>(0x7fc00001u))) == 0x7fc00001u);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bool small = std::fabs(decode(SmallFloat::f16, bits)) < 0x1p-14;
    CHECK(flush_subnormal_f16(static_cast<std::uint16_t>(bits)) == (small ? bits & 0x8000 : bits),
          bits);
  }
}

}  // namespace

int main() {
  const std::vector<Ruler> all = rulers();
  for (const Ruler& ruler : all) {
    every_pattern_has_its_value_and_comes_back(ruler);
    encode_takes_the_nearest_on_the_ruler(ruler);
  }
  hand_computed_patterns();
  ue8m0_is_a_power_of_two();
  fast_conversions_agree_with_the_ruler(all[0], all[1]);
  f16_agrees_with_the_compiler();
  float_arithmetic_rounds_once<float>(-149, 127, 12000);
  float_arithmetic_rounds_once<double>(-1074, 1023, 12000);
  half_arithmetic_rounds_once(all[0], 60000);
  half_arithmetic_rounds_once(all[1], 60000);
  half_arithmetic_special_cases();
  float_special_cases();
  mul_and_add_are_not_fused();
  doubles_become_floats_in_one_step();
  integers_become_floats_in_one_step<float>();
  integers_become_floats_in_one_step<double>();
  floats_become_integers_as_cvt_says<float>();
  floats_become_integers_as_cvt_says<double>();
  nan_becomes_an_integer_as_cvt_says();
  subnormals_flush_to_zero_of_their_sign();
  if (failures == 0) return 0;
  std::fprintf(stderr, "%d checks failed\n", failures);
  return 1;
}
