// Floating-point arithmetic, minimum and maximum, and the approximate functions.
#include "float.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "extreme.hpp"
#include "lanes.hpp"
#include "numeric.hpp"

namespace cudademo::emulator {

bool is_float(std::string_view type) noexcept {
  return type == "f32" || type == "f64" || type == "f16" || type == "f16x2" || type == "bf16" ||
         type == "bf16x2" || type == "f32x2";
}

namespace {

// What Instruction::detail holds here.
constexpr unsigned rounding_bits = 7;
constexpr unsigned flushes = 8;
constexpr unsigned saturates = 16;
constexpr unsigned clips = 32;  // .relu

Rounding rounding_of(unsigned detail) { return static_cast<Rounding>(detail & rounding_bits); }

unsigned detail_of(const ptx::Instruction& w) {
  Rounding rounding = Rounding::nearest_even;
  if (w.has("rz")) rounding = Rounding::zero;
  if (w.has("rm")) rounding = Rounding::down;
  if (w.has("rp")) rounding = Rounding::up;
  return static_cast<unsigned>(rounding) | (w.has("ftz") ? flushes : 0) |
         (w.has("sat") ? saturates : 0) | (w.has("relu") ? clips : 0);
}

float flush(float value, unsigned detail) {
  return (detail & flushes) != 0 ? flush_subnormal(value) : value;
}
double flush(double value, unsigned) { return value; }

template <typename T>
T finish(T value, unsigned detail) {
  value = flush(value, detail);
  if ((detail & saturates) != 0) value = value > T{0} ? std::min(value, T{1}) : T{0};
  return value;
}

template <typename T, typename F>
Handler one_source(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const T* a = row<T>(warp, instruction.rows[1]);
    const unsigned detail = instruction.detail;
    T values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      values[lane] = finish(F{}(flush(a[lane], detail), rounding_of(detail)), detail);
    }
    put(warp, instruction.rows[0], values, mask);
  };
}

template <typename T, typename F>
Handler two_sources(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const T* a = row<T>(warp, instruction.rows[1]);
    const T* b = row<T>(warp, instruction.rows[2]);
    const unsigned detail = instruction.detail;
    T values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      values[lane] =
          finish(F{}(flush(a[lane], detail), flush(b[lane], detail), rounding_of(detail)), detail);
    }
    put(warp, instruction.rows[0], values, mask);
  };
}

template <typename T, typename F>
Handler three_sources(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const T* a = row<T>(warp, instruction.rows[1]);
    const T* b = row<T>(warp, instruction.rows[2]);
    const T* c = row<T>(warp, instruction.rows[3]);
    const unsigned detail = instruction.detail;
    T values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      values[lane] = finish(F{}(flush(a[lane], detail), flush(b[lane], detail),
                                flush(c[lane], detail), rounding_of(detail)),
                            detail);
    }
    put(warp, instruction.rows[0], values, mask);
  };
}

// Two f32 side by side in 64 bits.
template <unsigned sources, typename F>
Handler pairs_of_singles(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const float* a = row<float>(warp, instruction.rows[1]);
    const float* b = row<float>(warp, instruction.rows[2]);
    const float* c = sources > 2 ? row<float>(warp, instruction.rows[3]) : a;
    const unsigned detail = instruction.detail;
    u64 values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      u32 halves[2];
      for (unsigned i = 0; i < 2; ++i) {
        const float x = flush(a[2 * lane + i], detail);
        const float y = flush(b[2 * lane + i], detail);
        float made;
        if constexpr (sources == 2)
          made = F{}(x, y, rounding_of(detail));
        else
          made = F{}(x, y, flush(c[2 * lane + i], detail), rounding_of(detail));
        halves[i] = std::bit_cast<u32>(finish(made, detail));
      }
      values[lane] = halves[0] | u64{halves[1]} << 32;
    }
    put(warp, instruction.rows[0], values, mask);
  };
}

// ---- 16 bits ----

constexpr SmallFloat f16 = SmallFloat::f16;
constexpr SmallFloat bf16 = SmallFloat::bf16;

constexpr u16 one_of(SmallFloat format) { return format == f16 ? 0x3c00 : 0x3f80; }

u16 flush16(SmallFloat format, u16 bits, unsigned detail) {
  return (detail & flushes) != 0 && format == f16 ? flush_subnormal_f16(bits) : bits;
}

u16 finish16(SmallFloat format, u16 bits, unsigned detail) {
  bits = flush16(format, bits, detail);
  if ((detail & saturates) != 0) {
    if (is_nan(format, bits) || (bits & 0x8000) != 0)
      bits = 0;
    else if (bits > one_of(format))
      bits = one_of(format);
  }
  if ((detail & clips) != 0) {
    if (is_nan(format, bits))
      bits = 0x7fff;
    else if ((bits & 0x8000) != 0)
      bits = 0;
  }
  return bits;
}

// F works on the bits of up to three halves; T is one or two of them.
template <typename T, SmallFloat format, unsigned sources, typename F>
Handler sixteen(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const T* a = row<T>(warp, instruction.rows[1]);
    const T* b = sources > 1 ? row<T>(warp, instruction.rows[2]) : a;
    const T* c = sources > 2 ? row<T>(warp, instruction.rows[3]) : a;
    const unsigned detail = instruction.detail;
    const auto half = [detail](T x, T y, T z) {
      return finish16(format,
                      F{}(flush16(format, static_cast<u16>(x), detail),
                          flush16(format, static_cast<u16>(y), detail),
                          flush16(format, static_cast<u16>(z), detail)),
                      detail);
    };
    T values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      T made = half(a[lane], b[lane], c[lane]);
      if constexpr (sizeof(T) == 4) {
        made |= static_cast<T>(half(a[lane] >> 16, b[lane] >> 16, c[lane] >> 16)) << 16;
      }
      values[lane] = made;
    }
    put(warp, instruction.rows[0], values, mask);
  };
}

template <SmallFloat format, unsigned sources, typename F>
Handler sixteen_of(bool packed, F f) {
  return packed ? sixteen<u32, format, sources>(f) : sixteen<u16, format, sources>(f);
}

void emit(Decoder& d, const ptx::Instruction& w, Handler handler, std::size_t bytes,
          std::size_t sources) {
  d.require(sources + 1);
  std::vector<Row> rows{no_row};
  for (std::size_t i = 1; i <= sources; ++i) rows.push_back(d.source(w.operands[i], bytes, true));
  rows[0] = d.result(w.operands[0], bytes);
  d.emit(handler, rows).detail = static_cast<std::uint8_t>(detail_of(w));
}

// One lambda for f32 and f64, generic, with a rounding; and one for the 16-bit ones, given a
// format's tag and bits.
template <SmallFloat format>
struct Format {
  static constexpr SmallFloat value = format;
};

template <unsigned sources, typename F, typename H>
void arithmetic(Decoder& d, const ptx::Instruction& w, F full, H half) {
  const std::string_view type = last_type(w);
  if (type == "f32" || type == "f64") {
    const auto choose = [&]<typename T>(Tag<T>) {
      if constexpr (sources == 1)
        return one_source<T>(full);
      else if constexpr (sources == 2)
        return two_sources<T>(full);
      else
        return three_sources<T>(full);
    };
    if (type == "f32")
      emit(d, w, choose(Tag<float>()), 4, sources);
    else
      emit(d, w, choose(Tag<double>()), 8, sources);
    return;
  }
  if (type == "f32x2") {
    if constexpr (sources == 1) {
      d.fail("not for this type");
    } else {
      return emit(d, w, pairs_of_singles<sources>(full), 8, sources);
    }
  }
  const bool packed = type.ends_with("x2");
  const auto choose = [&]<SmallFloat format>(Format<format>) {
    return sixteen_of<format, sources>(
        packed, [](u16 a, u16 b, u16 c) { return H{}(Format<format>(), a, b, c); });
  };
  static_cast<void>(half);
  emit(d, w, type.starts_with("b") ? choose(Format<bf16>()) : choose(Format<f16>()), packed ? 4 : 2,
       sources);
}

// ---- minimum and maximum ----

template <bool largest, bool with_nan, bool exclusive>
void extreme_rule(Decoder& d, const ptx::Instruction& w) {
  arithmetic<2>(
      d, w,
      [](auto a, auto b, Rounding) {
        return extreme<decltype(a), largest, with_nan, exclusive>(a, b);
      },
      [](auto format, u16 a, u16 b, u16) {
        return extreme16<decltype(format)::value, largest, with_nan, exclusive>(a, b);
      });
}

template <bool largest, bool with_nan, bool absolute>
Handler extreme_of_three() {
  return three_sources<float>([](float a, float b, float c, Rounding) {
    if (absolute) {
      a = std::abs(a);
      b = std::abs(b);
      c = std::abs(c);
    }
    constexpr auto of_two = extreme<float, largest, with_nan, false>;
    return of_two(of_two(a, b), c);
  });
}

template <bool largest>
void extreme_of_three(Decoder& d, const ptx::Instruction& w) {
  if (last_type(w) != "f32") d.fail("with three sources");
  const bool absolute = w.has("abs");
  const Handler handler = w.has("NaN") ? (absolute ? extreme_of_three<largest, true, true>()
                                                   : extreme_of_three<largest, true, false>())
                                       : (absolute ? extreme_of_three<largest, false, true>()
                                                   : extreme_of_three<largest, false, false>());
  emit(d, w, handler, 4, 3);
}

template <bool largest>
void extreme_rules(Decoder& d, const ptx::Instruction& w) {
  if (w.operands.size() > 3) return extreme_of_three<largest>(d, w);
  const bool exclusive = w.has("xorsign");
  if (w.has("NaN")) {
    return exclusive ? extreme_rule<largest, true, true>(d, w)
                     : extreme_rule<largest, true, false>(d, w);
  }
  if (exclusive)
    extreme_rule<largest, false, true>(d, w);
  else
    extreme_rule<largest, false, false>(d, w);
}

// ---- functions ----

constexpr u32 nan_bits = 0x7fffffff;

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

template <typename T>
T canonical(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::isnan(value) ? std::bit_cast<float>(nan_bits) : value;
  } else {
    return value;
  }
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
  const std::string_view what = w.modifiers.front();
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
void float_min(Decoder& d, const ptx::Instruction& w) { extreme_rules<false>(d, w); }
void float_max(Decoder& d, const ptx::Instruction& w) { extreme_rules<true>(d, w); }

void add_float_rules(Rules& rules) {
  rules["fma"] = float_fma;
  rules["rcp"] = rcp;
  rules["sqrt"] = sqrt;
  rules["rsqrt"] = rsqrt;
  rules["ex2"] = ex2;
  rules["lg2"] = lg2;
  rules["sin"] = sin;
  rules["cos"] = cos;
  rules["tanh"] = tanh;
  rules["copysign"] = copysign;
  rules["testp"] = testp;
}

}  // namespace cudademo::emulator
