// Products of matrices: mma.sync and wmma.mma.
//
// Products are exact and summed in double, and the sum is rounded once to the type of the result;
// hardware sums with fewer bits. Products of f64 are fused with the sum, in the order of k.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "access.hpp"
#include "matrix.hpp"
#include "numeric.hpp"

namespace cudademo::emulator {

namespace {

enum class Part : std::uint8_t { a, b, c };

struct Operand {
  Element element = Element::f16;
  unsigned registers = 0;
  std::size_t first = 0;  // among the instruction's rows
  // Where the elements of each lane's registers stand in the whole matrix, row by row: those of a
  // register side by side, lane after lane, register after register.
  std::vector<u16> places;

  unsigned bits() const noexcept { return bits_of(element); }
  // Elements of a register.
  unsigned each() const noexcept { return std::max(32 / bits(), 1u); }
};

struct Product {
  MatrixShape shape;
  Operand d, a, b, c;
  unsigned batches = 1;  // m8n8k4 of f16 is four products at once
  bool is_wmma = false;
  bool saturates = false;
  bool a_by_columns = false;
  bool b_by_rows = false;
  Rounding rounding = Rounding::nearest_even;

  unsigned rows(Part part) const noexcept { return part == Part::b ? shape.k : shape.m; }
  unsigned columns(Part part) const noexcept { return part == Part::a ? shape.k : shape.n; }
  std::size_t count(Part part) const noexcept {
    return std::size_t{rows(part)} * columns(part) * batches;
  }
};

constexpr std::size_t most_elements = 1024;  // of an operand

// Of four products: each is of eight threads, four of the warp's lower half and four of the upper.
std::size_t place_of_four(const Product& product, Part part, const Operand& operand, unsigned lane,
                          unsigned index) {
  const unsigned quarter = lane / 4 % 4;
  const unsigned upper = lane / 16 * 4;
  const unsigned own = lane % 4;
  Place at{own + upper, index};
  if (part == Part::a && product.a_by_columns) at = {index + upper, own};
  if (part == Part::b)
    at = product.b_by_rows ? Place{own, index + upper} : Place{index, own + upper};
  if (part == Part::c && operand.element == Element::f32) {
    at = {(lane & 1) + (index & 2) + upper, (index & 4) + (lane & 2) + (index & 1)};
  }
  return (quarter * product.rows(part) + at.row) * product.columns(part) + at.column;
}

// Where element `i` of register `r` of a lane stands in the whole matrix, row by row.
std::size_t place_of(const Product& product, Part part, const Operand& operand, unsigned lane,
                     unsigned r, unsigned i) {
  const unsigned each = operand.each();
  const unsigned columns = product.columns(part);
  if (product.batches != 1) return place_of_four(product, part, operand, lane, r * each + i);
  Place at;
  if (product.is_wmma) {
    at = place_in_wmma(lane, r * each + i, operand.registers * each, product.rows(part), columns);
  } else {
    const unsigned group = lane / 4;
    const unsigned own = lane % 4;
    const unsigned halves = product.shape.m / 8;
    if (part == Part::a) {
      at = {group + r % halves * 8, (own + r / halves * 4) * each + i};
    } else if (part == Part::b) {
      at = {(own + r * 4) * each + i, group};
    } else {
      const unsigned index = r * each + i;
      at = {group + index / 2 * 8, own * 2 + index % 2};
    }
  }
  return std::size_t{at.row} * columns + at.column;
}

void find_places(const Product& product, Part part, Operand& operand) {
  for (unsigned r = 0; r < operand.registers; ++r) {
    for (unsigned lane = 0; lane < lanes; ++lane) {
      for (unsigned i = 0; i < operand.each(); ++i) {
        operand.places.push_back(static_cast<u16>(place_of(product, part, operand, lane, r, i)));
      }
    }
  }
}

template <typename F>
void for_each_element(const Operand& operand, F use) {
  const u16* at = operand.places.data();
  const unsigned each = operand.each();
  for (unsigned r = 0; r < operand.registers; ++r) {
    for (unsigned lane = 0; lane < lanes; ++lane) {
      for (unsigned i = 0; i < each; ++i) use(lane, r, i, *at++);
    }
  }
}

template <typename T, typename Decode>
void unpack(Warp& warp, const Instruction& instruction, const Operand& operand, T* to,
            Decode decoded) {
  const unsigned bits = operand.bits();
  for_each_element(operand, [&](unsigned lane, unsigned r, unsigned i, u16 at) {
    const Row from = instruction.rows[operand.first + r];
    to[at] = bits == 64 ? decoded(row<u64>(warp, from)[lane])
                        : decoded(u64{row<u32>(warp, from)[lane] >> (i * bits)});
  });
}

void unpack_floats(Warp& warp, const Instruction& instruction, const Operand& operand, double* to) {
  const auto with = [&](auto decoded) { unpack(warp, instruction, operand, to, decoded); };
  switch (operand.element) {
    case Element::f16:
      return with([](u64 bits) { return double{float_from_f16(static_cast<u16>(bits))}; });
    case Element::bf16:
      return with([](u64 bits) { return double{float_from_bf16(static_cast<u16>(bits))}; });
    case Element::tf32:
      return with([](u64 bits) { return decode(SmallFloat::tf32, static_cast<u32>(bits)); });
    case Element::e4m3:
      return with([](u64 bits) { return decode(SmallFloat::e4m3, static_cast<u32>(bits)); });
    case Element::e5m2:
      return with([](u64 bits) { return decode(SmallFloat::e5m2, static_cast<u32>(bits)); });
    case Element::f32:
      return with([](u64 bits) { return double{std::bit_cast<float>(static_cast<u32>(bits))}; });
    default:
      return with([](u64 bits) { return std::bit_cast<double>(bits); });
  }
}

void unpack_integers(Warp& warp, const Instruction& instruction, const Operand& operand,
                     std::int64_t* to) {
  const auto with = [&](auto decoded) { unpack(warp, instruction, operand, to, decoded); };
  switch (operand.element) {
    case Element::signed8:
      return with([](u64 bits) { return std::int64_t{static_cast<std::int8_t>(bits)}; });
    case Element::unsigned8:
      return with([](u64 bits) { return static_cast<std::int64_t>(bits & 0xff); });
    case Element::signed4:
      return with([](u64 bits) { return static_cast<std::int64_t>(bits << 60) >> 60; });
    case Element::unsigned4:
      return with([](u64 bits) { return static_cast<std::int64_t>(bits & 0xf); });
    default:
      return with([](u64 bits) { return std::int64_t{static_cast<std::int32_t>(bits)}; });
  }
}

// c += a * b
template <typename T, typename F>
void accumulate(const Product& product, const T* a, const T* b, T* c, F sum) {
  const auto [m, n, k] = product.shape;
  for (unsigned batch = 0; batch < product.batches; ++batch) {
    for (unsigned i = 0; i < m; ++i) {
      for (unsigned l = 0; l < k; ++l) {
        for (unsigned j = 0; j < n; ++j)
          c[i * n + j] = sum(a[i * k + l], b[l * n + j], c[i * n + j]);
      }
    }
    a += m * k;
    b += k * n;
    c += m * n;
  }
}

void pack_floats(Warp& warp, const Instruction& instruction, const Product& product,
                 const double* values) {
  const Operand& d = product.d;
  for_each_element(d, [&](unsigned lane, unsigned r, unsigned i, u16 at) {
    const Row to = instruction.rows[d.first + r];
    if (d.element == Element::f64) {
      row<double>(warp, to)[lane] = values[at];
    } else if (d.element == Element::f32) {
      row<float>(warp, to)[lane] = to_float(values[at], Rounding::nearest_even);
    } else {
      row<u16>(warp, to)[lane * 2 + i] =
          static_cast<u16>(encode(SmallFloat::f16, values[at], Rounding::nearest_even));
    }
  });
}

void multiply_floats(Warp& warp, const Instruction& instruction, Mask mask) {
  for_whole_warp(warp, mask, [&] {
    const auto& product = *static_cast<const Product*>(instruction.more);
    double a[most_elements];
    double b[most_elements];
    double c[most_elements];
    unpack_floats(warp, instruction, product.a, a);
    unpack_floats(warp, instruction, product.b, b);
    unpack_floats(warp, instruction, product.c, c);
    if (product.d.element == Element::f64) {
      accumulate(product, a, b, c, [rounding = product.rounding](double x, double y, double sum) {
        return fma(x, y, sum, rounding);
      });
    } else {
      accumulate(product, a, b, c, [](double x, double y, double sum) { return sum + x * y; });
    }
    pack_floats(warp, instruction, product, c);
  });
}

void multiply_integers(Warp& warp, const Instruction& instruction, Mask mask) {
  for_whole_warp(warp, mask, [&] {
    const auto& product = *static_cast<const Product*>(instruction.more);
    std::int64_t a[most_elements];
    std::int64_t b[most_elements];
    std::int64_t c[most_elements];
    unpack_integers(warp, instruction, product.a, a);
    unpack_integers(warp, instruction, product.b, b);
    unpack_integers(warp, instruction, product.c, c);
    accumulate(product, a, b, c,
               [](std::int64_t x, std::int64_t y, std::int64_t sum) { return sum + x * y; });
    using Limits = std::numeric_limits<std::int32_t>;
    for_each_element(product.d, [&](unsigned lane, unsigned r, unsigned, u16 at) {
      std::int64_t value = c[at];
      if (product.saturates) {
        value = std::clamp<std::int64_t>(value, Limits::min(), Limits::max());
      }
      row<u32>(warp, instruction.rows[product.d.first + r])[lane] = static_cast<u32>(value);
    });
  });
}

bool is_integer(Element element) {
  return element == Element::signed8 || element == Element::unsigned8 ||
         element == Element::signed4 || element == Element::unsigned4;
}

// The types as the instruction names them: the result's, a's, b's and c's.
std::array<Element, 4> types_of(Decoder& d, const ptx::Instruction& w) {
  std::vector<Element> types;
  for (const std::string_view modifier : w.modifiers) {
    if (is_element(modifier)) types.push_back(element_named(d, modifier));
  }
  if (types.size() == 2) return {types[0], Element::f16, Element::f16, types[1]};  // wmma of f16
  if (types.size() != 4) d.fail("products of these types are not emulated");
  return {types[0], types[1], types[2], types[3]};
}

void require_known(Decoder& d, const ptx::Instruction& w) {
  constexpr std::string_view known[] = {"mma",       "sync", "aligned", "row", "col",
                                        "satfinite", "rn",   "rz",      "rm",  "rp"};
  for (const std::string_view modifier : w.modifiers) {
    const bool is_shape = modifier.front() == 'm' && modifier.find('k') != modifier.npos;
    if (is_shape || is_element(modifier)) continue;
    if (std::find(std::begin(known), std::end(known), modifier) == std::end(known)) {
      d.fail("products with ." + std::string(modifier) + " are not emulated");
    }
  }
}

// Whether the registers hold the matrix, as they must but for wmma's.
bool has_room(const Product& product, Part part, const Operand& operand) {
  const std::size_t held = std::size_t{operand.registers} * operand.each() * lanes;
  return product.is_wmma ? held >= product.count(part) : held == product.count(part);
}

void multiply(Decoder& d, const ptx::Instruction& w, bool is_wmma) {
  d.require(4);
  require_known(d, w);
  const std::array<Element, 4> types = types_of(d, w);
  Product product;
  product.shape = shape_of(d, w);
  product.is_wmma = is_wmma;
  product.saturates = w.has("satfinite");
  product.rounding = w.has("rz")   ? Rounding::zero
                     : w.has("rm") ? Rounding::down
                     : w.has("rp") ? Rounding::up
                                   : Rounding::nearest_even;
  const auto [m, n, k] = product.shape;
  if (!is_wmma && m == 8 && n == 8 && k == 4 && types[1] == Element::f16) {
    product.batches = 4;
    const auto layout = std::find_if(w.modifiers.begin(), w.modifiers.end(), [](auto modifier) {
      return modifier == "row" || modifier == "col";
    });
    product.a_by_columns = layout != w.modifiers.end() && *layout == "col";
    product.b_by_rows =
        layout != w.modifiers.end() && layout + 1 != w.modifiers.end() && *(layout + 1) == "row";
  } else if (!is_wmma && (n != 8 || (m != 8 && m != 16))) {
    d.fail("products of this shape are not emulated");
  }
  std::vector<Row> rows;
  const auto place = [&](Operand& operand, std::size_t index) {
    operand.element = types[index];
    operand.first = rows.size();
    const std::size_t bytes = operand.bits() == 64 ? 8 : 4;
    for (const ptx::Operand& item : items_of(w.operands[index])) {
      rows.push_back(index == 0 ? d.result(item, bytes) : d.source(item, bytes));
    }
    operand.registers = static_cast<unsigned>(rows.size() - operand.first);
    const Part part = index == 1 ? Part::a : index == 2 ? Part::b : Part::c;
    if (product.count(part) > most_elements || !has_room(product, part, operand)) {
      d.fail("a fragment of another size");
    }
    find_places(product, part, operand);
  };
  place(product.d, 0);
  place(product.a, 1);
  place(product.b, 2);
  place(product.c, 3);
  d.emit(is_integer(types[1]) ? multiply_integers : multiply_floats, rows).more =
      d.keep(std::move(product));
}

}  // namespace

void mma(Decoder& d, const ptx::Instruction& w) { multiply(d, w, false); }
void wmma_mma(Decoder& d, const ptx::Instruction& w) { multiply(d, w, true); }

}  // namespace cudademo::emulator
