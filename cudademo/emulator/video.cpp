// The video instructions: bytes and half-words of 32-bit registers, computed on without loss, then
// clamped, and then accumulated or merged into a third operand. Each is taken apart into steps over
// 64-bit rows.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "lanes.hpp"

namespace cudademo::emulator {

namespace {

using i64 = std::int64_t;

// A part of a 32-bit register.
struct Part {
  unsigned bits = 32;
  unsigned shift = 0;
};

// "b2" or "h1"; the whole register where nothing is written.
Part part_of(Decoder& d, std::string_view selector) {
  if (selector.empty()) return {};
  const bool is_byte = selector.front() == 'b';
  const unsigned bits = is_byte ? 8 : 16;
  const unsigned index = selector.size() == 2 ? static_cast<unsigned>(selector[1] - '0') : 4;
  if ((!is_byte && selector.front() != 'h') || index * bits >= 32) d.fail("no such part");
  return {bits, index * bits};
}

// An operand without its selector and sign.
ptx::Operand plain(const ptx::Operand& operand) {
  ptx::Operand whole = operand;
  whole.selector = {};
  whole.negated = false;
  return whole;
}

Row source(Decoder& d, const ptx::Operand& operand) { return d.source(plain(operand), 4); }

// The types of an instruction, in their order.
std::vector<bool> signs_of(Decoder& d, const ptx::Instruction& w, std::size_t count) {
  std::vector<bool> signs;
  for (const std::string_view modifier : w.modifiers) {
    if (modifier == "u32" || modifier == "s32") signs.push_back(modifier == "s32");
  }
  if (signs.size() != count) d.fail("another number of types is needed");
  return signs;
}

// ---- steps ----

template <typename T>
void extract(Warp& warp, const Instruction& instruction, Mask mask) {
  const u32* a = row<u32>(warp, instruction.rows[1]);
  i64 values[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) {
    values[lane] = static_cast<T>(a[lane] >> instruction.immediate);
  }
  put(warp, instruction.rows[0], values, mask);
}

// A part, extended to 64 bits.
Row extracted(Decoder& d, Row from, Part part, bool is_signed) {
  const Handler handler = part.bits == 8    ? (is_signed ? extract<std::int8_t> : extract<u8>)
                          : part.bits == 16 ? (is_signed ? extract<std::int16_t> : extract<u16>)
                                            : (is_signed ? extract<std::int32_t> : extract<u32>);
  const Row to = d.temporary(8);
  d.emit(handler, {to, from}).immediate = part.shift;
  return to;
}

template <typename F>
Handler of_two(F f) {
  return binary<i64, i64, i64>(f);
}

Row computed(Decoder& d, Handler handler, Row a, Row b) {
  const Row to = d.temporary(8);
  d.emit(handler, {to, a, b});
  return to;
}

template <typename T>
Handler clamping() {
  return unary<i64, i64>([](i64 value) {
    using Limits = std::numeric_limits<T>;
    return std::clamp<i64>(value, Limits::min(), Limits::max());
  });
}

// Into what a part of the result's type can hold.
Row clamped(Decoder& d, Row value, unsigned bits, bool is_signed) {
  const Handler handler = bits == 8    ? (is_signed ? clamping<std::int8_t>() : clamping<u8>())
                          : bits == 16 ? (is_signed ? clamping<std::int16_t>() : clamping<u16>())
                                       : (is_signed ? clamping<std::int32_t>() : clamping<u32>());
  const Row to = d.temporary(8);
  d.emit(handler, {to, value});
  return to;
}

// A 32-bit row with the value's lowest bits at a part's place, and the rest of another row.
void insert(Warp& warp, const Instruction& instruction, Mask mask) {
  const i64* values = row<i64>(warp, instruction.rows[1]);
  const u32* around = row<u32>(warp, instruction.rows[2]);
  const u32 field = (0xffffffffu >> (32 - instruction.detail)) << instruction.immediate;
  u32 made[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const auto bits = static_cast<u32>(values[lane]) << instruction.immediate;
    made[lane] = (bits & field) | (around[lane] & ~field);
  }
  put(warp, instruction.rows[0], made, mask);
}

void inserted(Decoder& d, Row to, Row value, Row around, Part part) {
  Instruction& made = d.emit(insert, {to, value, around});
  made.detail = static_cast<u8>(part.bits);
  made.immediate = part.shift;
}

// ---- one operation ----

Handler comparison(Decoder& d, const ptx::Instruction& w) {
  if (w.has("eq")) return of_two([](i64 a, i64 b) { return i64{a == b}; });
  if (w.has("ne")) return of_two([](i64 a, i64 b) { return i64{a != b}; });
  if (w.has("lt")) return of_two([](i64 a, i64 b) { return i64{a < b}; });
  if (w.has("le")) return of_two([](i64 a, i64 b) { return i64{a <= b}; });
  if (w.has("gt")) return of_two([](i64 a, i64 b) { return i64{a > b}; });
  if (w.has("ge")) return of_two([](i64 a, i64 b) { return i64{a >= b}; });
  d.fail("no such comparison");
}

Handler shift(const ptx::Instruction& w, bool to_left) {
  if (w.has("wrap")) {
    return to_left ? of_two([](i64 a, i64 b) { return a << (b & 31); })
                   : of_two([](i64 a, i64 b) { return a >> (b & 31); });
  }
  return to_left ? of_two([](i64 a, i64 b) { return b >= 32 ? a << 32 : a << b; })
                 : of_two([](i64 a, i64 b) { return a >> std::min<i64>(b, 32); });
}

// `name` is the opcode without the number of its elements.
Handler operation(Decoder& d, const ptx::Instruction& w, std::string_view name) {
  if (name == "vadd") return of_two([](i64 a, i64 b) { return a + b; });
  if (name == "vsub") return of_two([](i64 a, i64 b) { return a - b; });
  if (name == "vabsdiff")
    return of_two([](i64 a, i64 b) { return std::max(a, b) - std::min(a, b); });
  if (name == "vmin") return of_two([](i64 a, i64 b) { return std::min(a, b); });
  if (name == "vmax") return of_two([](i64 a, i64 b) { return std::max(a, b); });
  if (name == "vset") return comparison(d, w);
  if (name == "vshl") return shift(w, true);
  if (name == "vshr") return shift(w, false);
  // Halves go up where the sum is not negative, down where it is.
  return of_two([](i64 a, i64 b) { return (a + b + (a + b >= 0 ? 1 : 0)) >> 1; });
}

// d.dsel, a.asel, b.bsel, c
void scalar(Decoder& d, const ptx::Instruction& w) {
  d.require(3);
  const bool compares = w.opcode == "vset";
  const std::vector<bool> signs = signs_of(d, w, compares ? 2 : 3);
  const bool is_signed = !compares && signs.front();
  const bool shifts = w.opcode == "vshl" || w.opcode == "vshr";
  if (shifts && signs.back()) d.fail("a count of bits is u32");
  const bool accumulates = w.has("add") || w.has("min") || w.has("max");
  const Part into = part_of(d, w.operands[0].selector);
  const Row a = extracted(d, source(d, w.operands[1]), part_of(d, w.operands[1].selector),
                          signs[signs.size() - 2]);
  const Row b =
      extracted(d, source(d, w.operands[2]), part_of(d, w.operands[2].selector), signs.back());
  Row value = computed(d, operation(d, w, w.opcode), a, b);
  if (w.has("sat")) value = clamped(d, value, into.bits, is_signed);
  Row around = value;  // all of it is covered
  if (accumulates || into.bits != 32) {
    d.require(4);
    around = source(d, w.operands[3]);
  }
  if (accumulates) {
    const Handler second = w.has("add")   ? of_two([](i64 x, i64 y) { return x + y; })
                           : w.has("min") ? of_two([](i64 x, i64 y) { return std::min(x, y); })
                                          : of_two([](i64 x, i64 y) { return std::max(x, y); });
    value = computed(d, second, value, extracted(d, around, {}, is_signed));
  }
  inserted(d, d.result(plain(w.operands[0]), 4), value, around, into);
}

// ---- several operations side by side ----

// Which elements of {a, b} are taken, the lowest first: "h32" is {2, 3}.
std::vector<unsigned> chosen(Decoder& d, std::string_view selector, unsigned first,
                             unsigned count) {
  std::vector<unsigned> elements(count);
  std::iota(elements.begin(), elements.end(), first);
  if (selector.empty()) return elements;
  if (selector.size() != count + 1) d.fail("no such selection of elements");
  for (unsigned i = 0; i < count; ++i) {
    elements[i] = static_cast<unsigned>(selector[count - i] - '0');
    if (elements[i] >= 2 * count) d.fail("no such selection of elements");
  }
  return elements;
}

// d.mask, a.asel, b.bsel, c
template <unsigned count>
void simd(Decoder& d, const ptx::Instruction& w) {
  d.require(4);
  constexpr unsigned bits = 32 / count;
  const std::string_view name = w.opcode.substr(0, w.opcode.size() - 1);
  const bool compares = name == "vset";
  const std::vector<bool> signs = signs_of(d, w, compares ? 2 : 3);
  const Row sources[] = {source(d, w.operands[1]), source(d, w.operands[2])};
  const auto take = [&](unsigned element, bool is_signed) {
    return extracted(d, sources[element / count], {bits, element % count * bits}, is_signed);
  };
  const auto first = chosen(d, w.operands[1].selector, 0, count);
  const auto second = chosen(d, w.operands[2].selector, count, count);
  const std::string_view mask = w.operands[0].selector;
  const Handler handler = operation(d, w, name);
  Row made = source(d, w.operands[3]);
  for (unsigned i = 0; i < count; ++i) {
    if (!mask.empty() && mask.find(static_cast<char>('0' + i)) == std::string_view::npos) continue;
    const Row a = take(first[i], signs[signs.size() - 2]);
    Row value = computed(d, handler, a, take(second[i], signs.back()));
    if (w.has("sat")) value = clamped(d, value, bits, signs.front());
    const Row next = d.temporary(4);
    if (w.has("add"))
      d.emit(binary<u32, i64, u32>([](i64 x, u32 y) { return static_cast<u32>(x) + y; }),
             {next, value, made});
    else
      inserted(d, next, value, made, {bits, i * bits});
    made = next;
  }
  d.emit(unary<u32, u32>([](u32 bits_made) { return bits_made; }),
         {d.result(plain(w.operands[0]), 4), made});
}

// ---- the product ----

enum ProductFlag : u8 {
  plus_one = 1,
  negates_product = 2,
  negates_summand = 4,
  is_signed_product = 8,
  saturates = 16,
};

void product(Warp& warp, const Instruction& instruction, Mask mask) {
  const i64* a = row<i64>(warp, instruction.rows[1]);
  const i64* b = row<i64>(warp, instruction.rows[2]);
  const u32* c = row<u32>(warp, instruction.rows[3]);
  const auto is = [&](ProductFlag flag) { return (instruction.detail & flag) != 0; };
  u32 values[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) {
    i128 value = i128{a[lane]} * b[lane];
    i128 summand = is(is_signed_product) ? i128{static_cast<std::int32_t>(c[lane])} : i128{c[lane]};
    if (is(negates_product)) value = -value;
    if (is(negates_summand)) summand = -summand;
    value = (value + summand + (is(plus_one) ? 1 : 0)) >> instruction.immediate;
    if (is(saturates)) {
      const i128 least = is(is_signed_product) ? std::numeric_limits<std::int32_t>::min() : 0;
      const i128 most = is(is_signed_product) ? i128{std::numeric_limits<std::int32_t>::max()}
                                              : i128{std::numeric_limits<u32>::max()};
      value = std::clamp(value, least, most);
    }
    values[lane] = static_cast<u32>(value);
  }
  put(warp, instruction.rows[0], values, mask);
}

// d, -a.asel, -b.bsel, -c
void vmad(Decoder& d, const ptx::Instruction& w) {
  d.require(4);
  const std::vector<bool> signs = signs_of(d, w, 3);
  const bool negative = w.operands[1].negated != w.operands[2].negated;
  const bool is_signed = signs[1] || signs[2] || negative || w.operands[3].negated;
  const Row a =
      extracted(d, source(d, w.operands[1]), part_of(d, w.operands[1].selector), signs[1]);
  const Row b =
      extracted(d, source(d, w.operands[2]), part_of(d, w.operands[2].selector), signs[2]);
  const Row c = source(d, w.operands[3]);
  Instruction& made = d.emit(product, {d.result(w.operands[0], 4), a, b, c});
  made.immediate = w.has("shr7") ? 7 : w.has("shr15") ? 15 : 0;
  made.detail =
      static_cast<u8>((w.has("po") ? plus_one : 0) | (negative ? negates_product : 0) |
                      (w.operands[3].negated ? negates_summand : 0) |
                      (is_signed ? is_signed_product : 0) | (w.has("sat") ? saturates : 0));
}

}  // namespace

void add_video_rules(Rules& rules) {
  for (const std::string_view name :
       {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset", "vshl", "vshr"}) {
    rules[name] = scalar;
  }
  for (const std::string_view name :
       {"vadd2", "vsub2", "vavrg2", "vabsdiff2", "vmin2", "vmax2", "vset2"}) {
    rules[name] = simd<2>;
  }
  for (const std::string_view name :
       {"vadd4", "vsub4", "vavrg4", "vabsdiff4", "vmin4", "vmax4", "vset4"}) {
    rules[name] = simd<4>;
  }
  rules["vmad"] = vmad;
}

}  // namespace cudademo::emulator
