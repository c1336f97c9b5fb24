// Integer arithmetic, logic, shifts and bit fields.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "float.hpp"
#include "lanes.hpp"

namespace cudademo::emulator {

namespace {

using i64 = std::int64_t;

template <typename T>
using Bits = std::make_unsigned_t<T>;

// The double width.
template <typename T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, u32>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, i64, u64>,
                       std::conditional_t<std::is_signed_v<T>, i128, u128>>>;

template <typename T>
T low(T a, T b) {
  return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b));
}

template <typename T>
T high(T a, T b) {
  return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (sizeof(T) * 8));
}

template <typename T>
T plus(T a, T b) {
  return static_cast<T>(static_cast<Bits<T>>(a) + static_cast<Bits<T>>(b));
}

template <typename T>
T saturate(i64 value) {
  return static_cast<T>(
      std::clamp<i64>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

void two(Decoder& d, const ptx::Instruction& w, Handler handler, std::size_t bytes) {
  d.require(2);
  const bool is_signed = is_signed_type(last_type(w));
  const Row a = d.source(w.operands[1], bytes);
  d.emit(handler, {d.result(w.operands[0], bytes, is_signed), a});
}

void three(Decoder& d, const ptx::Instruction& w, Handler handler, std::size_t bytes) {
  d.require(3);
  const Row a = d.source(w.operands[1], bytes);
  const Row b = d.source(w.operands[2], bytes);
  d.emit(handler, {d.result(w.operands[0], bytes, is_signed_type(last_type(w))), a, b});
}

// Emits what `choose`, given the type's tag, hands back, for two sources of that type.
template <typename F>
void two_of_type(Decoder& d, const ptx::Instruction& w, F choose) {
  if (!with_integer(last_type(w), [&](auto tag) {
        three(d, w, choose(tag), sizeof(typename decltype(tag)::Type));
      })) {
    d.fail("not for this type");
  }
}

template <typename F>
void one_of_type(Decoder& d, const ptx::Instruction& w, F choose) {
  if (!with_integer(last_type(w), [&](auto tag) {
        two(d, w, choose(tag), sizeof(typename decltype(tag)::Type));
      })) {
    d.fail("not for this type");
  }
}

// Two 16-bit integers side by side: `lane` works on each.
template <typename T, typename F>
u32 halves(u32 a, u32 b, F lane) {
  const auto low_half = static_cast<u16>(lane(static_cast<T>(a), static_cast<T>(b)));
  const auto high_half = static_cast<u16>(lane(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
  return low_half | static_cast<u32>(high_half) << 16;
}

// ---- sums ----

// d = a + b + carry, with the carry out where asked for. `invert` makes it a difference.
template <typename T, bool invert, bool takes, bool gives>
void carried(Warp& warp, const Instruction& instruction, Mask mask) {
  const T* a = row<T>(warp, instruction.rows[1]);
  const T* b = row<T>(warp, instruction.rows[2]);
  T values[lanes];
  Mask carry = warp.carry;
  Mask out = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const T other = invert ? static_cast<T>(~b[lane]) : b[lane];
    // A difference borrows where the flag is set: a - b - borrow = a + ~b + (1 - borrow).
    const bool in = takes ? (is_set(carry, lane) != invert) : invert;
    const u128 sum = static_cast<u128>(a[lane]) + other + (in ? 1u : 0u);
    values[lane] = static_cast<T>(sum);
    const bool over = (sum >> (sizeof(T) * 8)) != 0;
    if (over != invert) out |= Mask{1} << lane;
  }
  put(warp, instruction.rows[0], values, mask);
  if (gives) warp.carry = (carry & ~mask) | (out & mask);
}

template <bool invert, bool takes>
void carry_rule(Decoder& d, const ptx::Instruction& w) {
  const bool gives = w.has("cc");
  const std::size_t bytes = ptx::size_of(last_type(w));
  if (bytes == 8) {
    three(d, w, gives ? carried<u64, invert, takes, true> : carried<u64, invert, takes, false>, 8);
  } else {
    three(d, w, gives ? carried<u32, invert, takes, true> : carried<u32, invert, takes, false>, 4);
  }
}

void add(Decoder& d, const ptx::Instruction& w) {
  if (is_float(last_type(w))) return float_add(d, w);
  if (w.has("cc")) return carry_rule<false, false>(d, w);
  if (last_type(w) == "u16x2" || last_type(w) == "s16x2") {
    return three(d, w, binary<u32, u32, u32>([](u32 a, u32 b) {
                   return halves<u16>(a, b, [](u16 x, u16 y) { return x + y; });
                 }),
                 4);
  }
  if (w.has("sat")) {
    return three(
        d, w, binary<std::int32_t, std::int32_t, std::int32_t>([](std::int32_t a, std::int32_t b) {
          return saturate<std::int32_t>(i64{a} + b);
        }),
        4);
  }
  two_of_type(d, w, [](auto tag) {
    using T = typename decltype(tag)::Type;
    return binary<T, T, T>([](T a, T b) { return plus(a, b); });
  });
}

void sub(Decoder& d, const ptx::Instruction& w) {
  if (is_float(last_type(w))) return float_sub(d, w);
  if (w.has("cc")) return carry_rule<true, false>(d, w);
  if (w.has("sat")) {
    return three(
        d, w, binary<std::int32_t, std::int32_t, std::int32_t>([](std::int32_t a, std::int32_t b) {
          return saturate<std::int32_t>(i64{a} - b);
        }),
        4);
  }
  two_of_type(d, w, [](auto tag) {
    using T = typename decltype(tag)::Type;
    return binary<T, T, T>(
        [](T a, T b) { return static_cast<T>(static_cast<Bits<T>>(a) - static_cast<Bits<T>>(b)); });
  });
}

void mul(Decoder& d, const ptx::Instruction& w) {
  if (is_float(last_type(w))) return float_mul(d, w);
  const bool is_signed = is_signed_type(last_type(w));
  if (w.has("wide")) {
    d.require(3);
    with_integer(last_type(w), [&](auto tag) {
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

void sad(Decoder& d, const ptx::Instruction& w) {
  d.require(4);
  const bool found = with_integer(last_type(w), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Row a = d.source(w.operands[1], sizeof(T));
    const Row b = d.source(w.operands[2], sizeof(T));
    const Row c = d.source(w.operands[3], sizeof(T));
    d.emit(ternary<T, T, T, T>([](T x, T y, T z) {
             const auto larger = static_cast<Bits<T>>(std::max(x, y));
             const auto smaller = static_cast<Bits<T>>(std::min(x, y));
             return plus(static_cast<T>(larger - smaller), z);
           }),
           {d.result(w.operands[0], sizeof(T)), a, b, c});
  });
  if (!found) d.fail("not for this type");
}

// Division by zero does not trap: all bits of the quotient and of the remainder are set.
template <typename T>
T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(0 - static_cast<Bits<T>>(a));
  }
  return static_cast<T>(a / b);
}

template <typename T>
T remainder(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}

void div(Decoder& d, const ptx::Instruction& w) {
  if (is_float(last_type(w))) return float_div(d, w);
  two_of_type(d, w, [](auto tag) {
    using T = typename decltype(tag)::Type;
    return binary<T, T, T>([](T a, T b) { return quotient(a, b); });
  });
}

void rem(Decoder& d, const ptx::Instruction& w) {
  two_of_type(d, w, [](auto tag) {
    using T = typename decltype(tag)::Type;
    return binary<T, T, T>([](T a, T b) { return remainder(a, b); });
  });
}

void abs(Decoder& d, const ptx::Instruction& w) {
  if (is_float(last_type(w))) return float_abs(d, w);
  one_of_type(d, w, [](auto tag) {
    using T = typename decltype(tag)::Type;
    return unary<T, T>([](T a) {
      if constexpr (std::is_signed_v<T>)
        return a < 0 ? static_cast<T>(0 - static_cast<Bits<T>>(a)) : a;
      else
        return a;
    });
  });
}

void neg(Decoder& d, const ptx::Instruction& w) {
  if (is_float(last_type(w))) return float_neg(d, w);
  one_of_type(d, w, [](auto tag) {
    using T = typename decltype(tag)::Type;
    return unary<T, T>([](T a) { return static_cast<T>(0 - static_cast<Bits<T>>(a)); });
  });
}

template <bool largest>
void extreme(Decoder& d, const ptx::Instruction& w) {
  const std::string_view type = last_type(w);
  if (is_float(type)) return largest ? float_max(d, w) : float_min(d, w);
  const auto pick = [](auto a, auto b) { return largest ? std::max(a, b) : std::min(a, b); };
  using Pick = decltype(pick);
  if (type == "u16x2") {
    return three(d, w,
                 binary<u32, u32, u32>([](u32 a, u32 b) { return halves<u16>(a, b, Pick{}); }), 4);
  }
  if (type == "s16x2") {
    if (w.has("relu")) {
      return three(d, w, binary<u32, u32, u32>([](u32 a, u32 b) {
                     return halves<std::int16_t>(a, b, [](std::int16_t x, std::int16_t y) {
                       return std::max<std::int16_t>(Pick{}(x, y), 0);
                     });
                   }),
                   4);
    }
    return three(
        d, w,
        binary<u32, u32, u32>([](u32 a, u32 b) { return halves<std::int16_t>(a, b, Pick{}); }), 4);
  }
  if (w.has("relu")) {
    return three(d, w,
                 binary<std::int32_t, std::int32_t, std::int32_t>(
                     [](std::int32_t a, std::int32_t b) { return std::max(Pick{}(a, b), 0); }),
                 4);
  }
  two_of_type(d, w, [](auto tag) {
    using T = typename decltype(tag)::Type;
    return binary<T, T, T>([](T a, T b) { return Pick{}(a, b); });
  });
}

// ---- bits ----

template <typename D, typename F>
void count_rule(Decoder& d, const ptx::Instruction& w, F) {
  d.require(2);
  const std::size_t bytes = ptx::size_of(last_type(w));
  const Row a = d.source(w.operands[1], bytes);
  const Row to = d.result(w.operands[0], 4);
  if (bytes == 8)
    d.emit(unary<D, u64>([](u64 v) { return static_cast<D>(F{}(v)); }), {to, a});
  else
    d.emit(unary<D, u32>([](u32 v) { return static_cast<D>(F{}(v)); }), {to, a});
}

void popc(Decoder& d, const ptx::Instruction& w) {
  count_rule<u32>(d, w, [](auto v) { return std::popcount(v); });
}

void clz(Decoder& d, const ptx::Instruction& w) {
  count_rule<u32>(d, w, [](auto v) { return std::countl_zero(v); });
}

// The place of the leading bit that is not the sign's; all ones where there is none.
template <typename T, bool shift_amount>
u32 find_leading(T value) {
  if constexpr (std::is_signed_v<T>) {
    if (value < 0) value = static_cast<T>(~value);
  }
  const auto bits = static_cast<Bits<T>>(value);
  if (bits == 0) return 0xffffffff;
  const auto leading = static_cast<u32>(std::countl_zero(bits));
  return shift_amount ? leading : static_cast<u32>(sizeof(T) * 8) - 1 - leading;
}

void bfind(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  with_integer(last_type(w), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Row a = d.source(w.operands[1], sizeof(T));
    const Row to = d.result(w.operands[0], 4);
    d.emit(w.has("shiftamt") ? unary<u32, T>([](T v) { return find_leading<T, true>(v); })
                             : unary<u32, T>([](T v) { return find_leading<T, false>(v); }),
           {to, a});
  });
}

// The place of the n-th set bit from a base, upwards or downwards.
u32 nth_set(u32 mask, u32 base, std::int32_t offset) {
  if (base > 31) return 0xffffffff;
  if (offset == 0) return is_set(mask, base) ? base : 0xffffffff;
  int position = static_cast<int>(base);
  int left =
      offset > 0 ? offset : (offset == std::numeric_limits<std::int32_t>::min() ? 64 : -offset);
  const int step = offset > 0 ? 1 : -1;
  for (; position >= 0 && position < 32; position += step) {
    if (!is_set(mask, static_cast<unsigned>(position))) continue;
    if (--left == 0) return static_cast<u32>(position);
  }
  return 0xffffffff;
}

void fns(Decoder& d, const ptx::Instruction& w) {
  d.require(4);
  const Row a = d.source(w.operands[1], 4);
  const Row b = d.source(w.operands[2], 4);
  const Row c = d.source(w.operands[3], 4);
  d.emit(ternary<u32, u32, u32, std::int32_t>(
             [](u32 mask, u32 base, std::int32_t offset) { return nth_set(mask, base, offset); }),
         {d.result(w.operands[0], 4), a, b, c});
}

template <typename T>
T reversed(T value) {
  T made = 0;
  for (std::size_t i = 0; i < sizeof(T) * 8; ++i) {
    made = static_cast<T>(made << 1 | (value & 1));
    value = static_cast<T>(value >> 1);
  }
  return made;
}

void brev(Decoder& d, const ptx::Instruction& w) {
  if (ptx::size_of(last_type(w)) == 8)
    two(d, w, unary<u64, u64>([](u64 v) { return reversed(v); }), 8);
  else
    two(d, w, unary<u32, u32>([](u32 v) { return reversed(v); }), 4);
}

// As the manual's pseudo-code for bfe: a field that reaches over the top is filled with its sign.
// Of position and length 32 bits take the lowest byte, as the manual says; 64 bits take all, as an
// H200 does.
template <typename T>
u64 field_operand(u32 value) {
  return sizeof(T) == 8 ? value : value & 0xff;
}

template <typename T>
T extract(T value, u32 position_operand, u32 length_operand) {
  constexpr u64 top = sizeof(T) * 8 - 1;
  const u64 position = field_operand<T>(position_operand);
  const u64 length = field_operand<T>(length_operand);
  const auto bits = static_cast<Bits<T>>(value);
  const auto bit = [bits](u64 at) {
    return static_cast<Bits<T>>(at <= top ? (bits >> at) & 1 : 0);
  };
  Bits<T> sign = 0;
  if (std::is_signed_v<T> && length != 0)
    sign = static_cast<Bits<T>>(bit(std::min(position + length - 1, top)));
  Bits<T> made = 0;
  for (u64 i = 0; i <= top; ++i) {
    const Bits<T> next = i < length && position + i <= top ? bit(position + i) : sign;
    made |= static_cast<Bits<T>>(next << i);
  }
  return static_cast<T>(made);
}

void bfe(Decoder& d, const ptx::Instruction& w) {
  d.require(4);
  with_integer(last_type(w), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Row a = d.source(w.operands[1], sizeof(T));
    const Row b = d.source(w.operands[2], 4);
    const Row c = d.source(w.operands[3], 4);
    d.emit(ternary<T, T, u32, u32>([](T x, u32 y, u32 z) { return extract(x, y, z); }),
           {d.result(w.operands[0], sizeof(T)), a, b, c});
  });
}

template <typename T>
void insert(Warp& warp, const Instruction& instruction, Mask mask) {
  const T* a = row<T>(warp, instruction.rows[1]);
  const T* b = row<T>(warp, instruction.rows[2]);
  const u32* positions = row<u32>(warp, instruction.rows[3]);
  const u32* lengths = row<u32>(warp, instruction.rows[4]);
  T values[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const u64 position = field_operand<T>(positions[lane]);
    const u64 length = field_operand<T>(lengths[lane]);
    values[lane] = b[lane];
    for (u64 i = 0; i < length && position + i < sizeof(T) * 8; ++i) {
      const T bit = static_cast<T>(i < sizeof(T) * 8 ? (a[lane] >> i) & 1 : 0);
      values[lane] =
          static_cast<T>((values[lane] & ~(T{1} << (position + i))) | bit << (position + i));
    }
  }
  put(warp, instruction.rows[0], values, mask);
}

void bfi(Decoder& d, const ptx::Instruction& w) {
  d.require(5);
  const std::size_t bytes = ptx::size_of(last_type(w));
  const Row a = d.source(w.operands[1], bytes);
  const Row b = d.source(w.operands[2], bytes);
  const Row c = d.source(w.operands[3], 4);
  const Row e = d.source(w.operands[4], 4);
  d.emit(bytes == 8 ? insert<u64> : insert<u32>, {d.result(w.operands[0], bytes), a, b, c, e});
}

u32 low_bits(u32 count) { return count >= 32 ? 0xffffffff : (u32{1} << count) - 1; }

void bmsk(Decoder& d, const ptx::Instruction& w) {
  three(d, w,
        w.has("clamp")
            ? binary<u32, u32, u32>([](u32 a, u32 b) { return a >= 32 ? 0 : low_bits(b) << a; })
            : binary<u32, u32, u32>([](u32 a, u32 b) { return low_bits(b & 31) << (a & 31); }),
        4);
}

// The value's lowest bits, extended by their sign or by zeros.
template <typename T, bool wraps>
T extend(T value, u32 count) {
  if (wraps) count &= 31;
  if (count == 0) return 0;
  if (count >= 32) return value;
  const u32 shift = 32 - count;
  return static_cast<T>(static_cast<T>(static_cast<u32>(value) << shift) >> shift);
}

template <typename T>
void szext_of(Decoder& d, const ptx::Instruction& w) {
  three(d, w,
        w.has("wrap") ? binary<T, T, u32>([](T a, u32 b) { return extend<T, true>(a, b); })
                      : binary<T, T, u32>([](T a, u32 b) { return extend<T, false>(a, b); }),
        4);
}

void szext(Decoder& d, const ptx::Instruction& w) {
  if (last_type(w) == "s32")
    szext_of<std::int32_t>(d, w);
  else
    szext_of<u32>(d, w);
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

// ---- logic ----

template <typename F>
void logic(Decoder& d, const ptx::Instruction& w, F) {
  d.require(3);
  if (last_type(w) == "pred") {
    const Row a = d.source(w.operands[1], 0);
    const Row b = d.source(w.operands[2], 0);
    d.emit(
        [](Warp& warp, const Instruction& instruction, Mask mask) {
          put_mask(warp, instruction.rows[0],
                   F{}(predicate(warp, instruction.rows[1]), predicate(warp, instruction.rows[2])),
                   mask);
        },
        {d.result(w.operands[0], 0), a, b});
    return;
  }
  two_of_type(d, w, [](auto tag) {
    using T = typename decltype(tag)::Type;
    return binary<T, T, T>([](T a, T b) { return static_cast<T>(F{}(a, b)); });
  });
}

void bit_and(Decoder& d, const ptx::Instruction& w) {
  logic(d, w, [](auto a, auto b) { return a & b; });
}
void bit_or(Decoder& d, const ptx::Instruction& w) {
  logic(d, w, [](auto a, auto b) { return a | b; });
}
void bit_xor(Decoder& d, const ptx::Instruction& w) {
  logic(d, w, [](auto a, auto b) { return a ^ b; });
}

void bit_not(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  if (last_type(w) == "pred") {
    const Row a = d.source(w.operands[1], 0);
    d.emit(
        [](Warp& warp, const Instruction& instruction, Mask mask) {
          put_mask(warp, instruction.rows[0], ~predicate(warp, instruction.rows[1]), mask);
        },
        {d.result(w.operands[0], 0), a});
    return;
  }
  one_of_type(d, w, [](auto tag) {
    using T = typename decltype(tag)::Type;
    return unary<T, T>([](T a) { return static_cast<T>(~a); });
  });
}

void cnot(Decoder& d, const ptx::Instruction& w) {
  one_of_type(d, w, [](auto tag) {
    using T = typename decltype(tag)::Type;
    return unary<T, T>([](T a) { return static_cast<T>(a == 0 ? 1 : 0); });
  });
}

void lop3(Decoder& d, const ptx::Instruction& w) {
  const bool with_predicate = !w.operands.empty() && w.operands[0].kind == ptx::Operand::Kind::pair;
  d.require(5);
  const Row a = d.source(w.operands[1], 4);
  const Row b = d.source(w.operands[2], 4);
  const Row c = d.source(w.operands[3], 4);
  const ptx::Operand& to = w.operands[0];
  const Row value = d.result(with_predicate ? to.items[0] : to, 4);
  Instruction& made = d.emit(
      [](Warp& warp, const Instruction& instruction, Mask mask) {
        const u32* x = row<u32>(warp, instruction.rows[1]);
        const u32* y = row<u32>(warp, instruction.rows[2]);
        const u32* z = row<u32>(warp, instruction.rows[3]);
        u32 values[lanes];
        for (unsigned lane = 0; lane < lanes; ++lane) {
          u32 bits = 0;
          for (unsigned k = 0; k < 8; ++k) {
            if ((instruction.detail >> k & 1) == 0) continue;
            bits |= ((k & 4) != 0 ? x[lane] : ~x[lane]) & ((k & 2) != 0 ? y[lane] : ~y[lane]) &
                    ((k & 1) != 0 ? z[lane] : ~z[lane]);
          }
          values[lane] = bits;
        }
        put(warp, instruction.rows[0], values, mask);
      },
      {value, a, b, c});
  made.detail = static_cast<u8>(w.operands[4].bits);
  if (!with_predicate) return;
  // d|p: p is whether d is not zero, combined with another predicate.
  d.require(6);
  const Row with = d.source(w.operands[5], 0);
  d.emit(
       [](Warp& warp, const Instruction& instruction, Mask mask) {
         const u32* values = row<u32>(warp, instruction.rows[1]);
         Mask nonzero = 0;
         for (unsigned lane = 0; lane < lanes; ++lane) nonzero |= Mask{values[lane] != 0} << lane;
         const Mask other = predicate(warp, instruction.rows[2]);
         put_mask(warp, instruction.rows[0],
                  instruction.detail != 0 ? nonzero & other : nonzero | other, mask);
       },
       {d.result(to.items[1], 0), value, with})
      .detail = w.has("and") ? 1 : 0;
}

// ---- shifts ----

template <typename T>
T left(T a, u32 count) {
  return count >= sizeof(T) * 8 ? T{0} : static_cast<T>(static_cast<Bits<T>>(a) << count);
}

template <typename T>
T right(T a, u32 count) {
  if (count >= sizeof(T) * 8) {
    if constexpr (std::is_signed_v<T>)
      return a < 0 ? T{-1} : T{0};
    else
      return T{0};
  }
  return static_cast<T>(a >> count);
}

template <bool to_left>
void shift(Decoder& d, const ptx::Instruction& w) {
  d.require(3);
  const bool found = with_integer(last_type(w), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Row a = d.source(w.operands[1], sizeof(T));
    const Row b = d.source(w.operands[2], 4);
    d.emit(binary<T, T, u32>([](T x, u32 y) { return to_left ? left(x, y) : right(x, y); }),
           {d.result(w.operands[0], sizeof(T), std::is_signed_v<T>), a, b});
  });
  if (!found) d.fail("not for this type");
}

template <bool to_left, bool clamps>
u32 funnel(u32 a, u32 b, u32 count) {
  const u32 by = clamps ? std::min<u32>(count, 32) : count & 31;
  const u64 both = u64{b} << 32 | a;
  return static_cast<u32>(to_left ? (both << by) >> 32 : both >> by);
}

void shf(Decoder& d, const ptx::Instruction& w) {
  d.require(4);
  const Row a = d.source(w.operands[1], 4);
  const Row b = d.source(w.operands[2], 4);
  const Row c = d.source(w.operands[3], 4);
  const bool clamps = w.has("clamp");
  const Handler handler = w.has("l")
                              ? (clamps ? ternary<u32, u32, u32, u32>([](u32 x, u32 y, u32 z) {
                                  return funnel<true, true>(x, y, z);
                                })
                                        : ternary<u32, u32, u32, u32>([](u32 x, u32 y, u32 z) {
                                            return funnel<true, false>(x, y, z);
                                          }))
                              : (clamps ? ternary<u32, u32, u32, u32>([](u32 x, u32 y, u32 z) {
                                  return funnel<false, true>(x, y, z);
                                })
                                        : ternary<u32, u32, u32, u32>([](u32 x, u32 y, u32 z) {
                                            return funnel<false, false>(x, y, z);
                                          }));
  d.emit(handler, {d.result(w.operands[0], 4), a, b, c});
}

// ---- bytes ----

// The selectors that prmt's modes stand for, by the two low bits of its control.
u32 selectors(std::string_view mode, u32 control) {
  constexpr std::array<u32, 4> f4e{0x3210, 0x4321, 0x5432, 0x6543};
  constexpr std::array<u32, 4> b4e{0x5670, 0x6701, 0x7012, 0x0123};
  constexpr std::array<u32, 4> rc8{0x0000, 0x1111, 0x2222, 0x3333};
  constexpr std::array<u32, 4> ecl{0x3210, 0x3211, 0x3222, 0x3333};
  constexpr std::array<u32, 4> ecr{0x0000, 0x1110, 0x2210, 0x3210};
  constexpr std::array<u32, 4> rc16{0x1010, 0x3232, 0x1010, 0x3232};
  const u32 i = control & 3;
  if (mode == "f4e") return f4e[i];
  if (mode == "b4e") return b4e[i];
  if (mode == "rc8") return rc8[i];
  if (mode == "ecl") return ecl[i];
  if (mode == "ecr") return ecr[i];
  if (mode == "rc16") return rc16[i];
  return control;
}

void prmt(Decoder& d, const ptx::Instruction& w) {
  d.require(4);
  const Row a = d.source(w.operands[1], 4);
  const Row b = d.source(w.operands[2], 4);
  const Row c = d.source(w.operands[3], 4);
  d.emit(
      [](Warp& warp, const Instruction& instruction, Mask mask) {
        const u32* x = row<u32>(warp, instruction.rows[1]);
        const u32* y = row<u32>(warp, instruction.rows[2]);
        const u32* z = row<u32>(warp, instruction.rows[3]);
        u32 values[lanes];
        const std::string_view mode = instruction.written->modifiers.back();
        for (unsigned lane = 0; lane < lanes; ++lane) {
          const u64 both = u64{y[lane]} << 32 | x[lane];
          const u32 chosen = selectors(mode, z[lane]);
          u32 value = 0;
          for (unsigned i = 0; i < 4; ++i) {
            const u32 selector = chosen >> (4 * i) & 0xf;
            u32 byte = static_cast<u32>(both >> (8 * (selector & 7))) & 0xff;
            if ((selector & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
            value |= byte << (8 * i);
          }
          values[lane] = value;
        }
        put(warp, instruction.rows[0], values, mask);
      },
      {d.result(w.operands[0], 4), a, b, c});
}

}  // namespace

void add_integer_rules(Rules& rules) {
  rules["add"] = add;
  rules["addc"] = carry_rule<false, true>;
  rules["sub"] = sub;
  rules["subc"] = carry_rule<true, true>;
  rules["mul"] = mul;
  rules["mad"] = mad;
  rules["madc"] = mad;
  rules["mul24"] = mul24;
  rules["mad24"] = mul24;
  rules["sad"] = sad;
  rules["div"] = div;
  rules["rem"] = rem;
  rules["abs"] = abs;
  rules["neg"] = neg;
  rules["min"] = extreme<false>;
  rules["max"] = extreme<true>;
  rules["popc"] = popc;
  rules["clz"] = clz;
  rules["bfind"] = bfind;
  rules["fns"] = fns;
  rules["brev"] = brev;
  rules["bfe"] = bfe;
  rules["bfi"] = bfi;
  rules["bmsk"] = bmsk;
  rules["szext"] = szext;
  rules["dp4a"] = dot;
  rules["dp2a"] = dot;
  rules["and"] = bit_and;
  rules["or"] = bit_or;
  rules["xor"] = bit_xor;
  rules["not"] = bit_not;
  rules["cnot"] = cnot;
  rules["lop3"] = lop3;
  rules["shl"] = shift<true>;
  rules["shr"] = shift<false>;
  rules["shf"] = shf;
  rules["prmt"] = prmt;
}

}  // namespace cudademo::emulator
