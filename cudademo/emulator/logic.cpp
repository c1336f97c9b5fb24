// Bitwise logic, shifts, and the choice of bytes.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "integer.hpp"

namespace cudademo::emulator {

namespace {

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
        const auto& modifiers = instruction.written->modifiers;
        const std::string_view mode = modifiers.empty() ? "" : modifiers.back();
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

void add_logic_rules(Rules& rules) {
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
