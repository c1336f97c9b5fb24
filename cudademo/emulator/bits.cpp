// Counting, finding, reversing and moving bits and bit fields.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "integer.hpp"

namespace cudademo::emulator {

namespace {

template <typename D, typename F>
void count_rule(Decoder& d, const ptx::Instruction& w, F) {
  d.require(2);
  const std::size_t bytes = d.bytes_of(last_type(w), {4, 8});
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
  const bool found = with_integer(last_type(w), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Row a = d.source(w.operands[1], sizeof(T));
    const Row to = d.result(w.operands[0], 4);
    d.emit(w.has("shiftamt") ? unary<u32, T>([](T v) { return find_leading<T, true>(v); })
                             : unary<u32, T>([](T v) { return find_leading<T, false>(v); }),
           {to, a});
  });
  if (!found) d.fail("not for this type");
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
  if (d.bytes_of(last_type(w), {4, 8}) == 8)
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
  const bool found = with_integer(last_type(w), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Row a = d.source(w.operands[1], sizeof(T));
    const Row b = d.source(w.operands[2], 4);
    const Row c = d.source(w.operands[3], 4);
    d.emit(ternary<T, T, u32, u32>([](T x, u32 y, u32 z) { return extract(x, y, z); }),
           {d.result(w.operands[0], sizeof(T)), a, b, c});
  });
  if (!found) d.fail("not for this type");
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
  const std::size_t bytes = d.bytes_of(last_type(w), {4, 8});
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

}  // namespace

void add_bit_rules(Rules& rules) {
  rules["popc"] = popc;
  rules["clz"] = clz;
  rules["bfind"] = bfind;
  rules["fns"] = fns;
  rules["brev"] = brev;
  rules["bfe"] = bfe;
  rules["bfi"] = bfi;
  rules["bmsk"] = bmsk;
  rules["szext"] = szext;
}

}  // namespace cudademo::emulator
