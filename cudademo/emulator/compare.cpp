// Comparison and selection.
#include <cmath>
#include <cstdint>

#include "float.hpp"
#include "lanes.hpp"
#include "numeric.hpp"

namespace cudademo::emulator {

namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;

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
  switch (static_cast<Combine>(how)) {
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

// p = a ? b, q = not that, both combined with c.
template <typename T>
void set_predicates(Warp& warp, const Instruction& instruction, Mask mask) {
  const Mask made = compared<T>(warp, instruction, instruction.rows[2], instruction.rows[3]);
  const unsigned how = instruction.detail >> combine_shift;
  const Mask with = how != 0 ? predicate(warp, instruction.rows[4]) : 0;
  put_mask(warp, instruction.rows[0], combined(made, with, how), mask);
  if (instruction.rows[1] != no_row) {
    put_mask(warp, instruction.rows[1], combined(~made, with, how), mask);
  }
}

template <SmallFloat format>
float widened(u16 bits, bool flush) {
  const float value = format == SmallFloat::f16
                          ? float_from_f16(flush ? flush_subnormal_f16(bits) : bits)
                          : float_from_bf16(bits);
  return value;
}

template <SmallFloat format>
Mask compared16(const u16* a, const u16* b, unsigned stride, unsigned detail) {
  Mask made = 0;
  const auto compare = static_cast<Compare>(detail & 15);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    made |= Mask{holds(compare, widened<format>(a[lane * stride], (detail & flushes) != 0),
                       widened<format>(b[lane * stride], (detail & flushes) != 0))}
            << lane;
  }
  return made;
}

template <SmallFloat format>
void set_predicates16(Warp& warp, const Instruction& instruction, Mask mask) {
  const Mask made = compared16<format>(row<u16>(warp, instruction.rows[2]),
                                       row<u16>(warp, instruction.rows[3]), 1, instruction.detail);
  const unsigned how = instruction.detail >> combine_shift;
  const Mask with = how != 0 ? predicate(warp, instruction.rows[4]) : 0;
  put_mask(warp, instruction.rows[0], combined(made, with, how), mask);
  if (instruction.rows[1] != no_row) {
    put_mask(warp, instruction.rows[1], combined(~made, with, how), mask);
  }
}

// The packed forms compare the lower halves into p and the upper ones into q.
template <SmallFloat format>
void set_predicates16x2(Warp& warp, const Instruction& instruction, Mask mask) {
  const u16* a = row<u16>(warp, instruction.rows[2]);
  const u16* b = row<u16>(warp, instruction.rows[3]);
  const unsigned how = instruction.detail >> combine_shift;
  const Mask with = how != 0 ? predicate(warp, instruction.rows[4]) : 0;
  const Mask low = compared16<format>(a, b, 2, instruction.detail);
  const Mask high = compared16<format>(a + 1, b + 1, 2, instruction.detail);
  put_mask(warp, instruction.rows[0], combined(low, with, how), mask);
  if (instruction.rows[1] != no_row) {
    put_mask(warp, instruction.rows[1], combined(high, with, how), mask);
  }
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

void setp(Decoder& d, const ptx::Instruction& w) {
  d.require(3);
  const unsigned detail = detail_of(d, w);
  const std::string_view type = last_type(w);
  const bool flag = detail >> combine_shift != 0;
  if (flag) d.require(4);
  Handler handler = nullptr;
  std::size_t bytes = ptx::size_of(type);
  if (type == "f32")
    handler = set_predicates<float>;
  else if (type == "f64")
    handler = set_predicates<double>;
  else if (type == "f16")
    handler = set_predicates16<SmallFloat::f16>;
  else if (type == "bf16")
    handler = set_predicates16<SmallFloat::bf16>;
  else if (type == "f16x2")
    handler = set_predicates16x2<SmallFloat::f16>;
  else if (type == "bf16x2")
    handler = set_predicates16x2<SmallFloat::bf16>;
  else
    with_integer(type, [&](auto tag) { handler = set_predicates<typename decltype(tag)::Type>; });
  if (handler == nullptr) d.fail("not for this type");
  const Row a = d.source(w.operands[1], bytes, is_float(type));
  const Row b = d.source(w.operands[2], bytes, is_float(type));
  const Row c = flag ? d.source(w.operands[3], 0) : no_row;
  const ptx::Operand& to = w.operands[0];
  const bool pair = to.kind == ptx::Operand::Kind::pair;
  const Row p = d.result(pair ? to.items[0] : to, 0);
  const Row q = pair ? d.result(to.items[1], 0) : no_row;
  d.emit(handler, {p, q, a, b, c}).detail = static_cast<std::uint8_t>(detail);
}

// ---- set: a number instead of a predicate ----

template <typename D>
void set_number(Warp& warp, Row to, Mask made, Mask mask, D one) {
  D values[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) values[lane] = is_set(made, lane) ? one : D{0};
  put(warp, to, values, mask);
}

void set(Decoder& d, const ptx::Instruction& w) {
  // set.eq.and.f32.s32 d, a, b, c: a comparison, a predicate of it, then the number.
  d.require(3);
  if (w.modifiers.size() < 3) d.fail("two types are needed");
  const std::string_view from = last_type(w);
  const std::string_view to = w.modifiers[w.modifiers.size() - 2];
  const unsigned detail = detail_of(d, w);
  const bool flag = detail >> combine_shift != 0;
  if (flag) d.require(4);
  if (from.ends_with("x2") || to.ends_with("x2")) {
    const Row a = d.source(w.operands[1], 4);
    const Row b = d.source(w.operands[2], 4);
    const Row c = flag ? d.source(w.operands[3], 0) : d.constant(0, 0);
    const Row low = d.temporary(0);
    const Row high = d.temporary(0);
    d.emit(from == "f16x2" ? set_predicates16x2<SmallFloat::f16>
                           : set_predicates16x2<SmallFloat::bf16>,
           {low, high, a, b, c})
        .detail = static_cast<std::uint8_t>(detail);
    Instruction& made = d.emit(
        [](Warp& warp, const Instruction& instruction, Mask mask) {
          const Mask lower = predicate(warp, instruction.rows[1]);
          const Mask upper = predicate(warp, instruction.rows[2]);
          const auto one = static_cast<u32>(instruction.immediate);
          u32 values[lanes];
          for (unsigned lane = 0; lane < lanes; ++lane) {
            values[lane] = (is_set(lower, lane) ? one : 0) | (is_set(upper, lane) ? one << 16 : 0);
          }
          put(warp, instruction.rows[0], values, mask);
        },
        {d.result(w.operands[0], 4), low, high});
    made.immediate = to == "f16x2" ? 0x3c00 : to == "bf16x2" ? 0x3f80 : 0xffff;
    return;
  }
  Handler handler = nullptr;
  if (from == "f32")
    handler = set_predicates<float>;
  else if (from == "f64")
    handler = set_predicates<double>;
  else if (from == "f16")
    handler = set_predicates16<SmallFloat::f16>;
  else if (from == "bf16")
    handler = set_predicates16<SmallFloat::bf16>;
  else
    with_integer(from, [&](auto tag) { handler = set_predicates<typename decltype(tag)::Type>; });
  if (handler == nullptr) d.fail("not for this type");
  const std::size_t bytes = ptx::size_of(from);
  const Row a = d.source(w.operands[1], bytes, is_float(from));
  const Row b = d.source(w.operands[2], bytes, is_float(from));
  const Row c = flag ? d.source(w.operands[3], 0) : no_row;
  const Row p = d.temporary(0);
  d.emit(handler, {p, no_row, a, b, c}).detail = static_cast<std::uint8_t>(detail);
  const std::size_t size = ptx::size_of(to);
  Instruction& made = size == 2 ? d.emit(
                                      [](Warp& warp, const Instruction& i, Mask mask) {
                                        set_number(warp, i.rows[0], predicate(warp, i.rows[1]),
                                                   mask, static_cast<u16>(i.immediate));
                                      },
                                      {d.result(w.operands[0], 2), p})
                                : d.emit(
                                      [](Warp& warp, const Instruction& i, Mask mask) {
                                        set_number(warp, i.rows[0], predicate(warp, i.rows[1]),
                                                   mask, static_cast<u32>(i.immediate));
                                      },
                                      {d.result(w.operands[0], 4), p});
  made.immediate = to == "f32"    ? 0x3f800000
                   : to == "f16"  ? 0x3c00
                   : to == "bf16" ? 0x3f80
                                  : 0xffffffff;
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
  const std::size_t bytes = ptx::size_of(last_type(w));
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
  const std::size_t bytes = ptx::size_of(w.modifiers[w.modifiers.size() - 2]);
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
