// cvt, between all types.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "float.hpp"
#include "lanes.hpp"
#include "numeric.hpp"

namespace cudademo::emulator {

namespace {

enum Flag : u8 {
  flag_integral = 8,
  flag_saturate = 16,
  flag_flush = 32,
  flag_clip = 64,
  flag_finite = 128,
};

Rounding rounding_of(unsigned detail) { return static_cast<Rounding>(detail & 7); }

struct Half {};
struct Brain {};
struct Tensor {};

template <typename T>
struct Storage {
  using Bits = T;
};
template <>
struct Storage<Half> {
  using Bits = u16;
};
template <>
struct Storage<Brain> {
  using Bits = u16;
};
template <>
struct Storage<Tensor> {
  using Bits = u32;
};
template <>
struct Storage<u8> {
  using Bits = u16;
};
template <>
struct Storage<std::int8_t> {
  using Bits = u16;
};

template <typename T>
constexpr bool is_real = std::is_floating_point_v<T> || std::is_same_v<T, Half> ||
                         std::is_same_v<T, Brain> || std::is_same_v<T, Tensor>;

template <typename From>
auto load(typename Storage<From>::Bits bits, unsigned detail) {
  if constexpr (std::is_same_v<From, Half>)
    return float_from_f16(bits);
  else if constexpr (std::is_same_v<From, Brain>)
    return float_from_bf16(bits);
  else if constexpr (std::is_same_v<From, Tensor>)
    return std::bit_cast<float>(bits);
  else if constexpr (std::is_same_v<From, float>)
    return (detail & flag_flush) != 0 ? flush_subnormal(bits) : bits;
  else
    return static_cast<From>(bits);
}

// tf32 is a float whose lowest 13 bits are not there. NaN and what is too large, as an H200 has
// them.
u32 to_tf32(float value, unsigned detail) {
  const Rounding rounding = rounding_of(detail);
  const u32 bits = std::bit_cast<u32>(value);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  if (is_nan && rounding != Rounding::nearest_away) return 0x7fffe000;
  if ((detail & flag_clip) != 0 && (bits & 0x80000000) != 0) return 0;
  const u32 made = is_nan ? bits & ~u32{0x1fff} : encode(SmallFloat::tf32, value, rounding);
  const bool is_too_large = (made & 0x7f800000) == 0x7f800000;
  return (detail & flag_finite) != 0 && is_too_large ? made - 0x2000 : made;
}

template <typename To>
auto store_real(double value, unsigned detail) -> typename Storage<To>::Bits {
  const Rounding rounding = rounding_of(detail);
  if (std::isnan(value)) {
    if ((detail & flag_saturate) != 0) value = 0;
  } else {
    if ((detail & flag_saturate) != 0) value = value > 0 ? std::min(value, 1.0) : 0.0;
    if ((detail & flag_clip) != 0 && std::signbit(value)) value = 0;
  }
  const bool is_finite = (detail & flag_finite) != 0;
  if constexpr (std::is_same_v<To, Half>)
    return static_cast<u16>(encode(SmallFloat::f16, value, rounding, is_finite));
  else if constexpr (std::is_same_v<To, Brain>)
    return static_cast<u16>(encode(SmallFloat::bf16, value, rounding, is_finite));
  else if constexpr (std::is_same_v<To, Tensor>)
    return encode(SmallFloat::tf32, value, rounding);
  else if constexpr (std::is_same_v<To, float>) {
    if (std::isnan(value)) return std::bit_cast<float>(0x7fffffffu);
    const float made = to_float(value, rounding);
    return (detail & flag_flush) != 0 ? flush_subnormal(made) : made;
  } else {
    return value;
  }
}

template <typename To, typename From>
typename Storage<To>::Bits convert(typename Storage<From>::Bits bits, unsigned detail) {
  if constexpr (std::is_same_v<To, Tensor> && std::is_same_v<From, float>) {
    return to_tf32(bits, detail);
  }
  // Into 16 bits .ftz leaves what it comes from.
  const auto value =
      load<From>(bits, std::is_same_v<To, Half> ? detail & ~unsigned{flag_flush} : detail);
  if constexpr (is_real<From> && is_real<To>) {
    double real = value;
    if ((detail & flag_integral) != 0) real = round_integral(real, rounding_of(detail));
    return store_real<To>(real, (detail & flag_integral) != 0 ? detail & ~7u : detail);
  } else if constexpr (is_real<From>) {
    // NaN gives 0, but for 64 bits on either side: then the highest bit.
    if (std::isnan(value)) {
      const bool is_64 = sizeof(To) == 8 || std::is_same_v<From, double>;
      if (!is_64) return 0;
      return static_cast<typename Storage<To>::Bits>(
          static_cast<To>(u64{1} << (sizeof(To) * 8 - 1)));
    }
    return static_cast<typename Storage<To>::Bits>(to_integer<To>(value, rounding_of(detail)));
  } else if constexpr (is_real<To>) {
    using Wide = std::conditional_t<std::is_signed_v<From>, std::int64_t, u64>;
    if constexpr (std::is_same_v<To, float> || std::is_same_v<To, double>) {
      auto made = from_integer<To>(static_cast<Wide>(value), rounding_of(detail));
      if ((detail & flag_saturate) != 0) made = made > 0 ? std::min(made, To{1}) : To{0};
      return made;
    } else {
      // To odd first: the second rounding is then the only one.
      const double near = from_integer<double>(static_cast<Wide>(value), Rounding::zero);
      const bool exact = static_cast<long double>(near) == static_cast<long double>(value);
      const double odd = exact ? near : std::bit_cast<double>(std::bit_cast<u64>(near) | 1);
      return store_real<To>(odd, detail);
    }
  } else {
    if ((detail & flag_saturate) != 0) {
      const auto wide = static_cast<i128>(value);
      return static_cast<typename Storage<To>::Bits>(
          static_cast<To>(std::clamp(wide, static_cast<i128>(std::numeric_limits<To>::min()),
                                     static_cast<i128>(std::numeric_limits<To>::max()))));
    }
    return static_cast<typename Storage<To>::Bits>(static_cast<To>(value));
  }
}

template <typename To, typename From>
void convert_row(Warp& warp, const Instruction& instruction, Mask mask) {
  using D = typename Storage<To>::Bits;
  using S = typename Storage<From>::Bits;
  const S* a = row<S>(warp, instruction.rows[1]);
  D values[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane)
    values[lane] = convert<To, From>(a[lane], instruction.detail);
  put(warp, instruction.rows[0], values, mask);
}

template <typename F>
bool with_type(std::string_view name, F use) {
  if (name == "u8" || name == "b8")
    use(Tag<u8>());
  else if (name == "s8")
    use(Tag<std::int8_t>());
  else if (name == "f16")
    use(Tag<Half>());
  else if (name == "bf16")
    use(Tag<Brain>());
  else if (name == "tf32")
    use(Tag<Tensor>());
  else if (name == "f32")
    use(Tag<float>());
  else if (name == "f64")
    use(Tag<double>());
  else
    return with_integer(name, use);
  return true;
}

unsigned detail_of(const ptx::Instruction& w, bool from_real, bool to_real) {
  Rounding rounding = Rounding::nearest_even;
  unsigned detail = 0;
  for (const std::string_view modifier : w.modifiers) {
    if (modifier == "rz" || modifier == "rzi")
      rounding = Rounding::zero;
    else if (modifier == "rm" || modifier == "rmi")
      rounding = Rounding::down;
    else if (modifier == "rp" || modifier == "rpi")
      rounding = Rounding::up;
    else if (modifier == "rna")
      rounding = Rounding::nearest_away;
    if (modifier.size() == 3 && modifier.back() == 'i' && from_real && to_real)
      detail |= flag_integral;
    if (modifier == "sat") detail |= flag_saturate;
    if (modifier == "ftz") detail |= flag_flush;
    if (modifier == "relu") detail |= flag_clip;
    if (modifier == "satfinite") detail |= flag_finite;
  }
  return detail | static_cast<unsigned>(rounding);
}

// Two reals into one word: the first operand goes into the upper half.
template <SmallFloat format>
void convert_two(Warp& warp, const Instruction& instruction, Mask mask) {
  const float* high = row<float>(warp, instruction.rows[1]);
  const float* low = row<float>(warp, instruction.rows[2]);
  const unsigned detail = instruction.detail;
  const bool saturates = (detail & flag_saturate) != 0;
  constexpr bool bytes = format == SmallFloat::e4m3 || format == SmallFloat::e5m2;
  const auto one = [&](float value) {
    if ((detail & flag_clip) != 0 && !std::isnan(value) && std::signbit(value)) value = 0;
    return encode(format, value, rounding_of(detail), saturates);
  };
  if constexpr (bytes) {
    u16 values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      values[lane] = static_cast<u16>(one(high[lane]) << 8 | one(low[lane]));
    }
    put(warp, instruction.rows[0], values, mask);
  } else {
    u32 values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane)
      values[lane] = one(high[lane]) << 16 | one(low[lane]);
    put(warp, instruction.rows[0], values, mask);
  }
}

// e4m3x2 and e5m2x2 to and from f16x2.
template <SmallFloat format>
void widen_two(Warp& warp, const Instruction& instruction, Mask mask) {
  const u16* from = row<u16>(warp, instruction.rows[1]);
  u32 values[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const auto one = [&](u32 bits) {
      u32 made = encode(SmallFloat::f16, decode(format, bits & 0xff), Rounding::nearest_even);
      if ((instruction.detail & flag_clip) != 0 && (made & 0x8000) != 0) made = 0;
      return made;
    };
    values[lane] = one(from[lane]) | one(static_cast<u32>(from[lane] >> 8)) << 16;
  }
  put(warp, instruction.rows[0], values, mask);
}

template <SmallFloat format>
void narrow_two(Warp& warp, const Instruction& instruction, Mask mask) {
  const u32* from = row<u32>(warp, instruction.rows[1]);
  u16 values[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const auto one = [&](u32 bits) {
      double value = decode(SmallFloat::f16, bits & 0xffff);
      if ((instruction.detail & flag_clip) != 0 && !std::isnan(value) && std::signbit(value))
        value = 0;
      return encode(format, value, Rounding::nearest_even, true);
    };
    values[lane] = static_cast<u16>(one(from[lane]) | one(from[lane] >> 16) << 8);
  }
  put(warp, instruction.rows[0], values, mask);
}

bool packed(Decoder& d, const ptx::Instruction& w, std::string_view to, std::string_view from) {
  unsigned detail = detail_of(w, true, true) & ~static_cast<unsigned>(flag_integral);
  if (w.has("satfinite")) detail |= flag_saturate;
  Handler handler = nullptr;
  if (from == "f32" && w.operands.size() == 3) {
    if (to == "f16x2") handler = convert_two<SmallFloat::f16>;
    if (to == "bf16x2") handler = convert_two<SmallFloat::bf16>;
    if (to == "e4m3x2") handler = convert_two<SmallFloat::e4m3>;
    if (to == "e5m2x2") handler = convert_two<SmallFloat::e5m2>;
    if (handler == nullptr) return false;
    const Row a = d.source(w.operands[1], 4, true);
    const Row b = d.source(w.operands[2], 4, true);
    const Row result = d.result(w.operands[0], to.starts_with('e') ? 2 : 4);
    d.emit(handler, {result, a, b}).detail = static_cast<u8>(detail);
    return true;
  }
  if (to == "f16x2" && from == "e4m3x2") handler = widen_two<SmallFloat::e4m3>;
  if (to == "f16x2" && from == "e5m2x2") handler = widen_two<SmallFloat::e5m2>;
  const bool widens = handler != nullptr;
  if (from == "f16x2" && to == "e4m3x2") handler = narrow_two<SmallFloat::e4m3>;
  if (from == "f16x2" && to == "e5m2x2") handler = narrow_two<SmallFloat::e5m2>;
  if (handler == nullptr) return false;
  const Row a = d.source(w.operands[1], widens ? 2 : 4);
  d.emit(handler, {d.result(w.operands[0], widens ? 4 : 2), a}).detail = static_cast<u8>(detail);
  return true;
}

// cvt.pack.sat: two integers, saturated, into the low bytes; what was in c moves up.
template <int bits, bool is_signed>
void pack_saturated(Warp& warp, const Instruction& instruction, Mask mask) {
  const auto* a = row<std::int32_t>(warp, instruction.rows[1]);
  const auto* b = row<std::int32_t>(warp, instruction.rows[2]);
  const u32* c = instruction.rows[3] == no_row ? nullptr : row<u32>(warp, instruction.rows[3]);
  static constexpr std::int32_t least = is_signed ? -(1 << (bits - 1)) : 0;
  static constexpr std::int32_t most = (1 << (is_signed ? bits - 1 : bits)) - 1;
  const auto one = [](std::int32_t value) {
    return static_cast<u32>(std::clamp(value, least, most)) & ((u32{1} << bits) - 1);
  };
  u32 values[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const u32 low = one(a[lane]) << bits | one(b[lane]);
    values[lane] = bits == 16 || c == nullptr ? low : low | c[lane] << (2 * bits);
  }
  put(warp, instruction.rows[0], values, mask);
}

void cvt_pack(Decoder& d, const ptx::Instruction& w) {
  d.require(3);
  constexpr std::pair<std::string_view, Handler> handlers[] = {
      {"u16", pack_saturated<16, false>}, {"s16", pack_saturated<16, true>},
      {"u8", pack_saturated<8, false>},   {"s8", pack_saturated<8, true>},
      {"u4", pack_saturated<4, false>},   {"s4", pack_saturated<4, true>},
      {"u2", pack_saturated<2, false>},   {"s2", pack_saturated<2, true>},
  };
  Handler handler = nullptr;
  for (const auto& [name, known] : handlers) {
    if (w.has(name)) handler = known;
  }
  if (handler == nullptr) d.fail("not for this type");
  const Row a = d.source(w.operands[1], 4);
  const Row b = d.source(w.operands[2], 4);
  const Row c = w.operands.size() > 3 ? d.source(w.operands[3], 4) : no_row;
  d.emit(handler, {d.result(w.operands[0], 4), a, b, c});
}

void cvt(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  if (w.modifiers.size() < 2) d.fail("two types are needed");
  if (w.has("pack")) return cvt_pack(d, w);
  const std::string_view from = last_type(w);
  const std::string_view to = last_type(w, 1);
  if (packed(d, w, to, from)) return;
  const bool from_real = is_float(from) || from == "tf32";
  const bool to_real = is_float(to) || to == "tf32";
  const unsigned detail = detail_of(w, from_real, to_real);
  Handler handler = nullptr;
  with_type(to, [&](auto to_tag) {
    with_type(from, [&](auto from_tag) {
      handler = convert_row<typename decltype(to_tag)::Type, typename decltype(from_tag)::Type>;
    });
  });
  if (handler == nullptr) d.fail("not between these types");
  const Row a = d.source(w.operands[1], ptx::size_of(from), from_real);
  const Row result = d.result(w.operands[0], ptx::size_of(to), is_signed_type(to));
  d.emit(handler, {result, a}).detail = static_cast<u8>(detail);
}

}  // namespace

void add_convert_rules(Rules& rules) { rules["cvt"] = cvt; }

}  // namespace cudademo::emulator
