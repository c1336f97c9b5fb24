// Reciprocals, roots, exponentials and trigonometry.
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "float_rules.hpp"

namespace cudademo::emulator {

namespace {

// The approximate functions are correct to float here: within the manual's bounds.
template <typename F>
void function32(Decoder& d, const ptx::Instruction& w, F f) {
  const std::string_view type = last_type(w);
  if (type == "f32") return emit(d, w, one_source<float>(f), 4, 1);
  if (type == "f64") d.fail("not for f64");
  static_cast<void>(f);
  arithmetic<1>(
      d, w,
      [](auto a, Rounding r) { return static_cast<decltype(a)>(F{}(static_cast<float>(a), r)); },
      [](auto format, u16 a, u16, u16) {
        constexpr SmallFloat kind = decltype(format)::value;
        const float value = F{}(static_cast<float>(decode(kind, a)), Rounding::nearest_even);
        return static_cast<u16>(encode(kind, value, Rounding::nearest_even));
      });
}

// rcp and rsqrt.approx.ftz.f64 look at the upper 32 bits alone, and give no more.
template <bool with_root>
double coarse(double value) {
  constexpr u64 upper = u64{0xffffffff} << 32;
  double given = std::bit_cast<double>(std::bit_cast<u64>(value) & upper);
  if (std::isnan(given)) return std::bit_cast<double>(u64{nan_bits} << 32);
  if (std::fpclassify(given) == FP_SUBNORMAL) given = std::copysign(0.0, given);
  double made = 1.0 / (with_root ? std::sqrt(given) : given);
  if (std::isnan(made)) return std::bit_cast<double>(u64{nan_bits} << 32);
  if (std::fpclassify(made) == FP_SUBNORMAL) made = std::copysign(0.0, made);
  return std::bit_cast<double>(std::bit_cast<u64>(made) & upper);
}

bool is_coarse(const ptx::Instruction& w) {
  return w.has("approx") && last_type(w) == "f64" && w.has("ftz");
}

void rcp(Decoder& d, const ptx::Instruction& w) {
  if (is_coarse(w)) {
    return emit(d, w, unary<double, double>([](double a) { return coarse<false>(a); }), 8, 1);
  }
  arithmetic<1>(
      d, w, [](auto a, Rounding r) { return div(decltype(a){1}, a, r); },
      [](auto, u16 a, u16, u16) { return a; });
}

void sqrt(Decoder& d, const ptx::Instruction& w) {
  arithmetic<1>(
      d, w, [](auto a, Rounding r) { return sqrt(a, r); }, [](auto, u16 a, u16, u16) { return a; });
}

void rsqrt(Decoder& d, const ptx::Instruction& w) {
  if (is_coarse(w)) {
    return emit(d, w, unary<double, double>([](double a) { return coarse<true>(a); }), 8, 1);
  }
  arithmetic<1>(
      d, w,
      [](auto a, Rounding) {
        using T = decltype(a);
        if constexpr (std::is_same_v<T, float>) {
          return canonical(static_cast<float>(1.0 / std::sqrt(static_cast<double>(a))));
        } else {
          return static_cast<T>(1.0L / std::sqrt(static_cast<long double>(a)));
        }
      },
      [](auto, u16 a, u16, u16) { return a; });
}

void ex2(Decoder& d, const ptx::Instruction& w) {
  function32(d, w,
             [](float a, Rounding) { return canonical(static_cast<float>(std::exp2(double{a}))); });
}
void lg2(Decoder& d, const ptx::Instruction& w) {
  function32(d, w,
             [](float a, Rounding) { return canonical(static_cast<float>(std::log2(double{a}))); });
}
void sin(Decoder& d, const ptx::Instruction& w) {
  function32(d, w,
             [](float a, Rounding) { return canonical(static_cast<float>(std::sin(double{a}))); });
}
void cos(Decoder& d, const ptx::Instruction& w) {
  function32(d, w,
             [](float a, Rounding) { return canonical(static_cast<float>(std::cos(double{a}))); });
}
void tanh(Decoder& d, const ptx::Instruction& w) {
  function32(d, w,
             [](float a, Rounding) { return canonical(static_cast<float>(std::tanh(double{a}))); });
}

}  // namespace

void add_approximation_rules(Rules& rules) {
  rules["rcp"] = rcp;
  rules["sqrt"] = sqrt;
  rules["rsqrt"] = rsqrt;
  rules["ex2"] = ex2;
  rules["lg2"] = lg2;
  rules["sin"] = sin;
  rules["cos"] = cos;
  rules["tanh"] = tanh;
}

}  // namespace cudademo::emulator
