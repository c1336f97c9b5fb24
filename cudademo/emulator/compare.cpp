// Comparison and selection.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "float.hpp"
#include "lanes.hpp"
#include "numeric.hpp"

namespace cudademo::emulator {

namespace {

enum class Compare : std::uint8_t {
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  equ,
  neu,
  ltu,
  leu,
  gtu,
  geu,
  num,
  nan
};

constexpr std::pair<std::string_view, Compare> comparisons[] = {
    {"eq", Compare::eq},   {"ne", Compare::ne},   {"lt", Compare::lt},   {"le", Compare::le},
    {"gt", Compare::gt},   {"ge", Compare::ge},   {"lo", Compare::lt},   {"ls", Compare::le},
    {"hi", Compare::gt},   {"hs", Compare::ge},   {"equ", Compare::equ}, {"neu", Compare::neu},
    {"ltu", Compare::ltu}, {"leu", Compare::leu}, {"gtu", Compare::gtu}, {"geu", Compare::geu},
    {"num", Compare::num}, {"nan", Compare::nan},
};

// Integers have no unordered comparisons; there lt and its kin are all.
template <typename T>
bool holds(Compare compare, T a, T b) {
  bool unordered = false;
  if constexpr (std::is_floating_point_v<T>) unordered = std::isnan(a) || std::isnan(b);
  switch (compare) {
    case Compare::eq:
      return !unordered && a == b;
    case Compare::ne:
      return !unordered && a != b;
    case Compare::lt:
      return !unordered && a < b;
    case Compare::le:
      return !unordered && a <= b;
    case Compare::gt:
      return !unordered && a > b;
    case Compare::ge:
      return !unordered && a >= b;
    case Compare::equ:
      return unordered || a == b;
    case Compare::neu:
      return unordered || a != b;
    case Compare::ltu:
      return unordered || a < b;
    case Compare::leu:
      return unordered || a <= b;
    case Compare::gtu:
      return unordered || a > b;
    case Compare::geu:
      return unordered || a >= b;
    case Compare::num:
      return !unordered;
    case Compare::nan:
      return unordered;
  }
  return false;
}

enum class Combine : std::uint8_t { none, conjunction, disjunction, exclusive };

Mask combined(Mask value, Mask with, unsigned how) {
  switch (static_cast<Combine>(how & 3)) {
    case Combine::conjunction:
      return value & with;
    case Combine::disjunction:
      return value | with;
    case Combine::exclusive:
      return value ^ with;
    case Combine::none:
      break;
  }
  return value;
}

constexpr unsigned flushes = 16;  // in detail, beside the comparison's four bits
constexpr unsigned combine_shift = 5;

template <typename T>
T ready(T value, unsigned detail) {
  if constexpr (std::is_same_v<T, float>) {
    return (detail & flushes) != 0 ? flush_subnormal(value) : value;
  } else {
    return value;
  }
}

template <typename T>
Mask compared(Warp& warp, const Instruction& instruction, Row left, Row right) {
  const T* a = row<T>(warp, left);
  const T* b = row<T>(warp, right);
  const unsigned detail = instruction.detail;
  Mask made = 0;
  const auto all = [&]<Compare compare>() {
    for (unsigned lane = 0; lane < lanes; ++lane) {
      made |= Mask{holds(compare, ready(a[lane], detail), ready(b[lane], detail))} << lane;
    }
  };
  switch (static_cast<Compare>(detail & 15)) {  // the loops inside know what they compare
    case Compare::eq:
      all.template operator()<Compare::eq>();
      break;
    case Compare::ne:
      all.template operator()<Compare::ne>();
      break;
    case Compare::lt:
      all.template operator()<Compare::lt>();
      break;
    case Compare::le:
      all.template operator()<Compare::le>();
      break;
    case Compare::gt:
      all.template operator()<Compare::gt>();
      break;
    case Compare::ge:
      all.template operator()<Compare::ge>();
      break;
    case Compare::equ:
      all.template operator()<Compare::equ>();
      break;
    case Compare::neu:
      all.template operator()<Compare::neu>();
      break;
    case Compare::ltu:
      all.template operator()<Compare::ltu>();
      break;
    case Compare::leu:
      all.template operator()<Compare::leu>();
      break;
    case Compare::gtu:
      all.template operator()<Compare::gtu>();
      break;
    case Compare::geu:
      all.template operator()<Compare::geu>();
      break;
    case Compare::num:
      all.template operator()<Compare::num>();
      break;
    case Compare::nan:
      all.template operator()<Compare::nan>();
      break;
  }
  return made;
}

// rows: p, q or none, a, b, and c where the comparison is combined with one.
void put_pair(Warp& warp, const Instruction& instruction, Mask p, Mask q, Mask mask) {
  const unsigned how = instruction.detail >> combine_shift;
  const Mask with = how != 0 ? predicate(warp, instruction.rows[4]) : 0;
  put_mask(warp, instruction.rows[0], combined(p, with, how), mask);
  if (instruction.rows[1] != no_row) {
    put_mask(warp, instruction.rows[1], combined(q, with, how), mask);
  }
}

// p = a ? b, q = not that.
template <typename T>
void set_predicates(Warp& warp, const Instruction& instruction, Mask mask) {
  const Mask made = compared<T>(warp, instruction, instruction.rows[2], instruction.rows[3]);
  put_pair(warp, instruction, made, ~made, mask);
}

template <SmallFloat format>
float widened(u16 bits, bool flush) {
  if constexpr (format == SmallFloat::bf16) return float_from_bf16(bits);
  return float_from_f16(flush ? flush_subnormal_f16(bits) : bits);
}

template <SmallFloat format>
Mask compared16(const u16* a, const u16* b, std::size_t stride, unsigned detail) {
  Mask made = 0;
  const auto compare = static_cast<Compare>(detail & 15);
  const bool flush = (detail & flushes) != 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    made |= Mask{holds(compare, widened<format>(a[lane * stride], flush),
                       widened<format>(b[lane * stride], flush))}
            << lane;
  }
  return made;
}

template <SmallFloat format>
void set_predicates16(Warp& warp, const Instruction& instruction, Mask mask) {
  const Mask made = compared16<format>(row<u16>(warp, instruction.rows[2]),
                                       row<u16>(warp, instruction.rows[3]), 1, instruction.detail);
  put_pair(warp, instruction, made, ~made, mask);
}

// The packed forms compare the lower halves into p and the upper ones into q.
template <SmallFloat format>
void set_predicates16x2(Warp& warp, const Instruction& instruction, Mask mask) {
  const u16* a = row<u16>(warp, instruction.rows[2]);
  const u16* b = row<u16>(warp, instruction.rows[3]);
  put_pair(warp, instruction, compared16<format>(a, b, 2, instruction.detail),
           compared16<format>(a + 1, b + 1, 2, instruction.detail), mask);
}

Handler comparing(Decoder& d, std::string_view type) {
  if (type == "f32") return set_predicates<float>;
  if (type == "f64") return set_predicates<double>;
  if (type == "f16") return set_predicates16<SmallFloat::f16>;
  if (type == "bf16") return set_predicates16<SmallFloat::bf16>;
  if (type == "f16x2") return set_predicates16x2<SmallFloat::f16>;
  if (type == "bf16x2") return set_predicates16x2<SmallFloat::bf16>;
  Handler handler = nullptr;
  with_integer(type, [&](auto tag) { handler = set_predicates<typename decltype(tag)::Type>; });
  if (handler == nullptr) d.fail("not for this type");
  return handler;
}

unsigned detail_of(Decoder& d, const ptx::Instruction& w) {
  unsigned detail = 255;
  for (const auto& [name, compare] : comparisons) {
    if (!w.modifiers.empty() && w.modifiers.front() == name)
      detail = static_cast<unsigned>(compare);
  }
  if (detail == 255) d.fail("no such comparison");
  const unsigned how = w.has("and") ? 1u : w.has("or") ? 2u : w.has("xor") ? 3u : 0u;
  return detail | (w.has("ftz") ? flushes : 0) | how << combine_shift;
}

// Emits the comparison of the operands from the second on, into these rows.
void compare_into(Decoder& d, const ptx::Instruction& w, Row p, Row q) {
  const unsigned detail = detail_of(d, w);
  const std::string_view type = last_type(w);
  const bool is_combined = detail >> combine_shift != 0;
  if (is_combined) d.require(4);
  const std::size_t bytes = ptx::size_of(type);
  const Handler handler = comparing(d, type);
  const Row a = d.source(w.operands[1], bytes, is_float(type));
  const Row b = d.source(w.operands[2], bytes, is_float(type));
  const Row c = is_combined ? d.source(w.operands[3], 0) : no_row;
  d.emit(handler, {p, q, a, b, c}).detail = static_cast<std::uint8_t>(detail);
}

void setp(Decoder& d, const ptx::Instruction& w) {
  d.require(3);
  const ptx::Operand& to = w.operands[0];
  const bool pair = to.kind == ptx::Operand::Kind::pair;
  const Row p = d.result(pair ? to.items[0] : to, 0);
  const Row q = pair ? d.result(to.items[1], 0) : no_row;
  compare_into(d, w, p, q);
}

// ---- set: a number instead of a predicate ----

// rows: the result, a predicate, and the upper half's predicate in packed forms.
template <typename D>
void set_number(Warp& warp, const Instruction& instruction, Mask mask) {
  const auto one = static_cast<D>(instruction.immediate);
  const Mask made = predicate(warp, instruction.rows[1]);
  const Mask upper = instruction.count > 2 ? predicate(warp, instruction.rows[2]) : 0;
  D values[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) {
    values[lane] = is_set(made, lane) ? one : D{0};
    if (is_set(upper, lane)) values[lane] = static_cast<D>(values[lane] | one << 16);
  }
  put(warp, instruction.rows[0], values, mask);
}

// What set gives where the comparison holds: 1.0, or all bits of an integer.
std::int64_t one_of(std::string_view type, bool packed) {
  if (type == "f32") return 0x3f800000;
  if (type == "f16" || type == "f16x2") return 0x3c00;
  if (type == "bf16" || type == "bf16x2") return 0x3f80;
  return packed ? 0xffff : 0xffffffff;
}

// set.eq.and.f32.s32 d, a, b, c: a comparison, a predicate of it, then the number.
void set(Decoder& d, const ptx::Instruction& w) {
  d.require(3);
  if (w.modifiers.size() < 3) d.fail("two types are needed");
  const std::string_view to = last_type(w, 1);
  const bool packed = last_type(w).ends_with("x2");
  const Row low = d.temporary(0);
  const Row high = packed ? d.temporary(0) : no_row;
  compare_into(d, w, low, high);
  const std::size_t bytes = packed ? 4 : d.bytes_of(to, {2, 4});
  std::vector<Row> rows{d.result(w.operands[0], bytes), low};
  if (packed) rows.push_back(high);
  d.emit(bytes == 2 ? set_number<u16> : set_number<u32>, rows).immediate = one_of(to, packed);
}

// ---- selection ----

template <typename T>
void select(Warp& warp, const Instruction& instruction, Mask mask) {
  const T* a = row<T>(warp, instruction.rows[1]);
  const T* b = row<T>(warp, instruction.rows[2]);
  const Mask which = predicate(warp, instruction.rows[3]);
  T values[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane)
    values[lane] = is_set(which, lane) ? a[lane] : b[lane];
  put(warp, instruction.rows[0], values, mask);
}

void selp(Decoder& d, const ptx::Instruction& w) {
  d.require(4);
  const std::size_t bytes = d.bytes_of(last_type(w), {2, 4, 8});
  const bool real = is_float(last_type(w));
  const Row a = d.source(w.operands[1], bytes, real);
  const Row b = d.source(w.operands[2], bytes, real);
  const Row c = d.source(w.operands[3], 0);
  d.emit(bytes == 8   ? select<std::uint64_t>
         : bytes == 2 ? select<u16>
                      : select<u32>,
         {d.result(w.operands[0], bytes), a, b, c});
}

template <typename T, typename C>
Handler choose_by_sign() {
  return ternary<T, T, T, C>([](T a, T b, C c) { return c >= 0 ? a : b; });
}

void slct(Decoder& d, const ptx::Instruction& w) {
  d.require(4);
  if (w.modifiers.size() < 2) d.fail("two types are needed");
  const std::size_t bytes = d.bytes_of(last_type(w, 1), {2, 4, 8});
  const bool real = last_type(w) == "f32";
  const Row a = d.source(w.operands[1], bytes);
  const Row b = d.source(w.operands[2], bytes);
  const Row c = d.source(w.operands[3], 4, real);
  Handler handler = nullptr;
  // With .ftz a subnormal counts as zero, which is as good as its own sign but for negative ones.
  if (real && w.has("ftz")) {
    const auto pick = [](auto x, auto y, float z) { return flush_subnormal(z) >= 0 ? x : y; };
    using F = decltype(pick);
    handler = bytes == 8   ? ternary<std::uint64_t, std::uint64_t, std::uint64_t, float>(F{})
              : bytes == 2 ? ternary<u16, u16, u16, float>(F{})
                           : ternary<u32, u32, u32, float>(F{});
  } else if (real) {
    handler = bytes == 8   ? choose_by_sign<std::uint64_t, float>()
              : bytes == 2 ? choose_by_sign<u16, float>()
                           : choose_by_sign<u32, float>();
  } else {
    handler = bytes == 8   ? choose_by_sign<std::uint64_t, std::int32_t>()
              : bytes == 2 ? choose_by_sign<u16, std::int32_t>()
                           : choose_by_sign<u32, std::int32_t>();
  }
  d.emit(handler, {d.result(w.operands[0], bytes), a, b, c});
}

}  // namespace

void add_compare_rules(Rules& rules) {
  rules["setp"] = setp;
  rules["set"] = set;
  rules["selp"] = selp;
  rules["slct"] = slct;
}

}  // namespace cudademo::emulator
