// Integer sums, quotients, signs, minimum and maximum.
#include "integer.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "float.hpp"

namespace cudademo::emulator {

namespace {

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
  const std::size_t bytes = d.bytes_of(last_type(w), {4, 8});
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

}  // namespace

void add_integer_rules(Rules& rules) {
  rules["add"] = add;
  rules["addc"] = carry_rule<false, true>;
  rules["sub"] = sub;
  rules["subc"] = carry_rule<true, true>;
  rules["sad"] = sad;
  rules["div"] = div;
  rules["rem"] = rem;
  rules["abs"] = abs;
  rules["neg"] = neg;
  rules["min"] = extreme<false>;
  rules["max"] = extreme<true>;
}

}  // namespace cudademo::emulator
