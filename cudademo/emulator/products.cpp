// Integer products: single, added up, of 24 bits, and dot products of bytes.
#include <cstdint>
#include <type_traits>

#include "float.hpp"
#include "integer.hpp"

namespace cudademo::emulator {

namespace {

void mul(Decoder& d, const ptx::Instruction& w) {
  if (is_float(last_type(w))) return float_mul(d, w);
  const bool is_signed = is_signed_type(last_type(w));
  if (w.has("wide")) {
    d.require(3);
    const bool found = with_integer(last_type(w), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (sizeof(T) < 8) {
        const Row a = d.source(w.operands[1], sizeof(T));
        const Row b = d.source(w.operands[2], sizeof(T));
        d.emit(binary<Wide<T>, T, T>([](T x, T y) {
                 return static_cast<Wide<T>>(static_cast<Wide<T>>(x) * static_cast<Wide<T>>(y));
               }),
               {d.result(w.operands[0], sizeof(T) * 2, is_signed), a, b});
      } else {
        d.fail("not for this type");
      }
    });
    if (!found) d.fail("not for this type");
    return;
  }
  if (w.has("hi")) {
    return two_of_type(d, w, [](auto tag) {
      using T = typename decltype(tag)::Type;
      return binary<T, T, T>([](T a, T b) { return high(a, b); });
    });
  }
  two_of_type(d, w, [](auto tag) {
    using T = typename decltype(tag)::Type;
    return binary<T, T, T>([](T a, T b) { return low(a, b); });
  });
}

template <typename T, bool is_high, bool takes, bool gives>
void carried_product(Warp& warp, const Instruction& instruction, Mask mask) {
  const T* a = row<T>(warp, instruction.rows[1]);
  const T* b = row<T>(warp, instruction.rows[2]);
  const T* c = row<T>(warp, instruction.rows[3]);
  T values[lanes];
  const Mask carry = warp.carry;
  Mask out = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const T product = is_high ? high(a[lane], b[lane]) : low(a[lane], b[lane]);
    const u128 sum = static_cast<u128>(static_cast<Bits<T>>(product)) +
                     static_cast<Bits<T>>(c[lane]) + (takes && is_set(carry, lane) ? 1u : 0u);
    values[lane] = static_cast<T>(sum);
    if ((sum >> (sizeof(T) * 8)) != 0) out |= Mask{1} << lane;
  }
  put(warp, instruction.rows[0], values, mask);
  if (gives) warp.carry = (carry & ~mask) | (out & mask);
}

template <typename T, bool is_high>
Handler carried_product_handler(bool takes, bool gives) {
  if (takes)
    return gives ? carried_product<T, is_high, true, true>
                 : carried_product<T, is_high, true, false>;
  return carried_product<T, is_high, false, true>;
}

void mad(Decoder& d, const ptx::Instruction& w) {
  if (is_float(last_type(w))) return float_fma(d, w);
  d.require(4);
  const bool is_signed = is_signed_type(last_type(w));
  const bool found = with_integer(last_type(w), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Row a = d.source(w.operands[1], sizeof(T));
    const Row b = d.source(w.operands[2], sizeof(T));
    if (w.has("wide")) {
      if constexpr (sizeof(T) < 8) {
        using D = Wide<T>;
        const Row c = d.source(w.operands[3], sizeof(D));
        d.emit(ternary<D, T, T, D>([](T x, T y, D z) {
                 return plus(static_cast<D>(static_cast<D>(x) * static_cast<D>(y)), z);
               }),
               {d.result(w.operands[0], sizeof(D), is_signed), a, b, c});
        return;
      }
      d.fail("not for this type");
    }
    const Row c = d.source(w.operands[3], sizeof(T));
    const Row to = d.result(w.operands[0], sizeof(T), is_signed);
    const bool takes = w.opcode == "madc";
    if (takes || w.has("cc")) {
      d.emit(w.has("hi") ? carried_product_handler<T, true>(takes, w.has("cc"))
                         : carried_product_handler<T, false>(takes, w.has("cc")),
             {to, a, b, c});
    } else if (w.has("hi") && w.has("sat")) {
      d.emit(ternary<T, T, T, T>([](T x, T y, T z) {
               if constexpr (sizeof(T) == 4) {
                 return saturate<T>(static_cast<i64>(high(x, y)) + static_cast<i64>(z));
               } else {
                 return plus(high(x, y), z);
               }
             }),
             {to, a, b, c});
    } else if (w.has("hi")) {
      d.emit(ternary<T, T, T, T>([](T x, T y, T z) { return plus(high(x, y), z); }), {to, a, b, c});
    } else {
      d.emit(ternary<T, T, T, T>([](T x, T y, T z) { return plus(low(x, y), z); }), {to, a, b, c});
    }
  });
  if (!found) d.fail("not for this type");
}

// The product of the low 24 bits: its low 32 bits, or the 32 above the lowest 16.
template <typename T, bool is_high>
T product24(T a, T b) {
  const auto narrow = [](T value) {
    return static_cast<i64>(static_cast<T>(static_cast<u32>(value) << 8) >> 8);
  };
  const i64 product = narrow(a) * narrow(b);
  return static_cast<T>(is_high ? product >> 16 : product);
}

template <typename T>
void mul24_of(Decoder& d, const ptx::Instruction& w) {
  if (w.opcode == "mul24") {
    three(d, w,
          w.has("hi") ? binary<T, T, T>([](T a, T b) { return product24<T, true>(a, b); })
                      : binary<T, T, T>([](T a, T b) { return product24<T, false>(a, b); }),
          4);
    return;
  }
  d.require(4);
  const Row a = d.source(w.operands[1], 4);
  const Row b = d.source(w.operands[2], 4);
  const Row c = d.source(w.operands[3], 4);
  const Row to = d.result(w.operands[0], 4);
  if (w.has("sat")) {
    d.emit(ternary<T, T, T, T>([](T x, T y, T z) {
             return saturate<T>(static_cast<i64>(product24<T, true>(x, y)) + static_cast<i64>(z));
           }),
           {to, a, b, c});
  } else if (w.has("hi")) {
    d.emit(ternary<T, T, T, T>([](T x, T y, T z) { return plus(product24<T, true>(x, y), z); }),
           {to, a, b, c});
  } else {
    d.emit(ternary<T, T, T, T>([](T x, T y, T z) { return plus(product24<T, false>(x, y), z); }),
           {to, a, b, c});
  }
}

void mul24(Decoder& d, const ptx::Instruction& w) {
  if (last_type(w) == "s32")
    mul24_of<std::int32_t>(d, w);
  else
    mul24_of<u32>(d, w);
}

// ---- dot products ----

template <typename A, typename B, typename C>
C dot4(u32 a, u32 b, C c) {
  i64 sum = c;
  for (unsigned i = 0; i < 4; ++i) {
    sum += i64{static_cast<A>(a >> (8 * i))} * static_cast<B>(b >> (8 * i));
  }
  return static_cast<C>(sum);
}

template <typename A, typename B, typename C>
C dot2(u32 a, u32 b, C c, bool upper) {
  using Half = std::conditional_t<std::is_signed_v<A>, std::int16_t, u16>;
  i64 sum = c;
  for (unsigned i = 0; i < 2; ++i) {
    sum += i64{static_cast<Half>(a >> (16 * i))} * static_cast<B>(b >> (8 * (i + (upper ? 2 : 0))));
  }
  return static_cast<C>(sum);
}

template <typename A, typename B>
Handler dot_handler(bool four, bool upper) {
  using C = std::conditional_t<std::is_signed_v<A> || std::is_signed_v<B>, std::int32_t, u32>;
  if (four) {
    return ternary<C, u32, u32, C>([](u32 a, u32 b, C c) { return dot4<A, B, C>(a, b, c); });
  }
  return upper ? ternary<C, u32, u32, C>(
                     [](u32 a, u32 b, C c) { return dot2<A, B, C>(a, b, c, true); })
               : ternary<C, u32, u32, C>(
                     [](u32 a, u32 b, C c) { return dot2<A, B, C>(a, b, c, false); });
}

void dot(Decoder& d, const ptx::Instruction& w) {
  d.require(4);
  if (w.modifiers.size() < 2) d.fail("two types are needed");
  const bool four = w.opcode == "dp4a";
  const bool upper = w.has("hi");
  const bool a_signed = is_signed_type(last_type(w, 1));
  const bool b_signed = is_signed_type(last_type(w));
  const Handler handler = a_signed ? (b_signed ? dot_handler<std::int8_t, std::int8_t>(four, upper)
                                               : dot_handler<std::int8_t, u8>(four, upper))
                                   : (b_signed ? dot_handler<u8, std::int8_t>(four, upper)
                                               : dot_handler<u8, u8>(four, upper));
  const Row a = d.source(w.operands[1], 4);
  const Row b = d.source(w.operands[2], 4);
  const Row c = d.source(w.operands[3], 4);
  d.emit(handler, {d.result(w.operands[0], 4), a, b, c});
}

}  // namespace

void add_product_rules(Rules& rules) {
  rules["mul"] = mul;
  rules["mad"] = mad;
  rules["madc"] = mad;
  rules["mul24"] = mul24;
  rules["mad24"] = mul24;
  rules["dp4a"] = dot;
  rules["dp2a"] = dot;
}

}  // namespace cudademo::emulator
