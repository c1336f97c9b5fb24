// Floating-point arithmetic, signs and classes.
#include "float.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "float_rules.hpp"

namespace cudademo::emulator {

bool is_float(std::string_view type) noexcept {
  return type == "f32" || type == "f64" || type == "f16" || type == "f16x2" || type == "bf16" ||
         type == "bf16x2" || type == "f32x2";
}

namespace {

template <typename T>
Handler copysign_handler() {
  constexpr T sign = T{1} << (sizeof(T) * 8 - 1);
  // The first operand gives its sign, the second its magnitude.
  return binary<T, T, T>([](T a, T b) { return static_cast<T>((a & sign) | (b & ~sign)); });
}

void copysign(Decoder& d, const ptx::Instruction& w) {
  d.require(3);
  if (last_type(w) == "f64")
    emit(d, w, copysign_handler<u64>(), 8, 2);
  else
    emit(d, w, copysign_handler<u32>(), 4, 2);
}

template <typename T>
void test(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  const Row a = d.source(w.operands[1], sizeof(T), true);
  const std::string_view what = w.modifiers.empty() ? "" : w.modifiers.front();
  const auto make = [](auto f) -> Handler {
    using F = decltype(f);
    return [](Warp& warp, const Instruction& instruction, Mask mask) {
      const T* values = row<T>(warp, instruction.rows[1]);
      Mask made = 0;
      for (unsigned lane = 0; lane < lanes; ++lane) made |= Mask{F{}(values[lane])} << lane;
      put_mask(warp, instruction.rows[0], made, mask);
    };
  };
  Handler handler = nullptr;
  if (what == "finite") handler = make([](T v) { return std::isfinite(v); });
  if (what == "infinite") handler = make([](T v) { return std::isinf(v); });
  if (what == "number") handler = make([](T v) { return !std::isnan(v); });
  if (what == "notanumber") handler = make([](T v) { return std::isnan(v); });
  if (what == "normal") handler = make([](T v) { return std::isnormal(v) || v == 0; });
  if (what == "subnormal") handler = make([](T v) { return std::fpclassify(v) == FP_SUBNORMAL; });
  if (handler == nullptr) d.fail("no such property");
  d.emit(handler, {d.result(w.operands[0], 0), a});
}

void testp(Decoder& d, const ptx::Instruction& w) {
  if (last_type(w) == "f64")
    test<double>(d, w);
  else
    test<float>(d, w);
}

template <bool negates>
void sign_rule(Decoder& d, const ptx::Instruction& w) {
  arithmetic<1>(
      d, w,
      [](auto a, Rounding) {
        using T = decltype(a);
        if constexpr (std::is_same_v<T, float>) {
          const u32 bits = std::bit_cast<u32>(a);
          return std::bit_cast<float>(negates ? bits ^ 0x80000000u : bits & 0x7fffffffu);
        } else {
          const u64 bits = std::bit_cast<u64>(a);
          const u64 sign = u64{1} << 63;
          return std::bit_cast<double>(negates ? bits ^ sign : bits & ~sign);
        }
      },
      [](auto, u16 a, u16, u16) { return static_cast<u16>(negates ? a ^ 0x8000 : a & 0x7fff); });
}

// ---- f16 and bf16 beside f32 ----

bool is_mixed(const ptx::Instruction& w) { return last_type(w, 1) == "f32"; }

// A source of 16 bits, as an f32.
Row widened(Decoder& d, const ptx::Instruction& w, const ptx::Operand& operand) {
  const Row from = d.source(operand, 2, true);
  const Row to = d.temporary(4);
  d.emit(last_type(w) == "bf16"
             ? unary<float, u16>([](u16 bits) { return static_cast<float>(decode(bf16, bits)); })
             : unary<float, u16>([](u16 bits) { return static_cast<float>(decode(f16, bits)); }),
         {to, from});
  return to;
}

void mixed(Decoder& d, const ptx::Instruction& w, Handler handler, std::size_t narrow,
           std::size_t sources) {
  d.require(sources + 1);
  std::vector<Row> rows{no_row};
  for (std::size_t i = 1; i <= sources; ++i) {
    rows.push_back(i <= narrow ? widened(d, w, w.operands[i]) : d.source(w.operands[i], 4, true));
  }
  rows[0] = d.result(w.operands[0], 4);
  d.emit(handler, rows).detail = static_cast<std::uint8_t>(detail_of(w));
}

}  // namespace

void float_add(Decoder& d, const ptx::Instruction& w) {
  if (is_mixed(w)) {
    return mixed(
        d, w, two_sources<float>([](float a, float b, Rounding r) { return add(a, b, r); }), 1, 2);
  }
  arithmetic<2>(
      d, w, [](auto a, auto b, Rounding r) { return add(a, b, r); },
      [](auto format, u16 a, u16 b, u16) { return add(decltype(format)::value, a, b); });
}

void float_sub(Decoder& d, const ptx::Instruction& w) {
  if (is_mixed(w)) {
    return mixed(
        d, w, two_sources<float>([](float a, float b, Rounding r) { return add(a, -b, r); }), 1, 2);
  }
  arithmetic<2>(
      d, w, [](auto a, auto b, Rounding r) { return add(a, -b, r); },
      [](auto format, u16 a, u16 b, u16) { return sub(decltype(format)::value, a, b); });
}

void float_mul(Decoder& d, const ptx::Instruction& w) {
  arithmetic<2>(
      d, w, [](auto a, auto b, Rounding r) { return mul(a, b, r); },
      [](auto format, u16 a, u16 b, u16) { return mul(decltype(format)::value, a, b); });
}

void float_fma(Decoder& d, const ptx::Instruction& w) {
  if (is_mixed(w)) {
    return mixed(d, w, three_sources<float>([](float a, float b, float c, Rounding r) {
                   return fma(a, b, c, r);
                 }),
                 2, 3);
  }
  arithmetic<3>(
      d, w, [](auto a, auto b, auto c, Rounding r) { return fma(a, b, c, r); },
      [](auto format, u16 a, u16 b, u16 c) { return fma(decltype(format)::value, a, b, c); });
}

void float_div(Decoder& d, const ptx::Instruction& w) {
  if (w.has("approx")) {
    // By way of the divisor's reciprocal, which is zero for the largest divisors.
    return arithmetic<2>(
        d, w,
        [](auto a, auto b, Rounding r) {
          using T = decltype(a);
          constexpr T large = T{8.507059173023462e37};  // 2^126
          const bool vanishes = std::abs(b) > large && !std::isinf(b);
          return vanishes && std::isinf(a) ? canonical(std::numeric_limits<T>::quiet_NaN())
                                           : div(a, b, r);
        },
        [](auto, u16 a, u16, u16) { return a; });
  }
  arithmetic<2>(
      d, w, [](auto a, auto b, Rounding r) { return div(a, b, r); },
      [](auto, u16 a, u16, u16) { return a; });
}

void float_abs(Decoder& d, const ptx::Instruction& w) { sign_rule<false>(d, w); }
void float_neg(Decoder& d, const ptx::Instruction& w) { sign_rule<true>(d, w); }

void add_float_rules(Rules& rules) {
  rules["fma"] = float_fma;
  rules["copysign"] = copysign;
  rules["testp"] = testp;
}

}  // namespace cudademo::emulator
