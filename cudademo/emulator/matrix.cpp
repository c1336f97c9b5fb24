// Moving matrices between memory and a warp's registers: ldmatrix, stmatrix, movmatrix, and the
// loads and stores of wmma.
#include "matrix.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "access.hpp"

namespace cudademo::emulator {

namespace {

using ptx::Space;

struct ElementName {
  std::string_view name;
  Element element;
  unsigned bits;
};

constexpr ElementName elements[] = {
    {"f16", Element::f16, 16},   {"bf16", Element::bf16, 16},   {"tf32", Element::tf32, 32},
    {"f32", Element::f32, 32},   {"f64", Element::f64, 64},     {"e4m3", Element::e4m3, 8},
    {"e5m2", Element::e5m2, 8},  {"s8", Element::signed8, 8},   {"u8", Element::unsigned8, 8},
    {"s4", Element::signed4, 4}, {"u4", Element::unsigned4, 4}, {"s32", Element::signed32, 32},
};

const ElementName* find_element(std::string_view type) {
  for (const ElementName& known : elements) {
    if (known.name == type) return &known;
  }
  return nullptr;
}

// ---- 8 by 8 matrices of 16 bits: a lane has two neighbours of row lane / 4 ----

constexpr std::size_t row_bytes = 16;

struct Small {
  u16 at[8][8];

  u32 pair(unsigned lane, bool transposed) const noexcept {
    const unsigned row = lane / 4;
    const unsigned column = lane % 4 * 2;
    const u32 low = transposed ? at[column][row] : at[row][column];
    const u32 high = transposed ? at[column + 1][row] : at[row][column + 1];
    return low | high << 16;
  }
  void set_pair(unsigned lane, bool transposed, u32 pair) noexcept {
    const unsigned row = lane / 4;
    const unsigned column = lane % 4 * 2;
    (transposed ? at[column][row] : at[row][column]) = static_cast<u16>(pair);
    (transposed ? at[column + 1][row] : at[row][column + 1]) = static_cast<u16>(pair >> 16);
  }
};

// The place of a row of a matrix, whose address its own lane gives.
std::byte* locate_row(Warp& warp, const Instruction& instruction, Row addresses, unsigned lane,
                      Use use) {
  const u64 offset = shared_place(warp, lane, row<u64>(warp, addresses)[lane]);
  return locate(warp, instruction, lane, offset, row_bytes, use);
}

// rows: the results, then the addresses.
void load_matrices(Warp& warp, const Instruction& instruction, Mask mask) {
  for_whole_warp(warp, mask, [&] {
    const unsigned count = instruction.count - 1u;
    const bool transposed = instruction.detail != 0;
    u32 made[4][lanes];
    for (unsigned matrix = 0; matrix < count; ++matrix) {
      Small small;
      for (unsigned r = 0; r < 8; ++r) {
        const unsigned lane = matrix * 8 + r;
        const std::byte* from =
            locate_row(warp, instruction, instruction.rows[count], lane, Use::read);
        note(warp, instruction, lane, from, row_bytes, Use::read);
        std::memcpy(small.at[r], from, row_bytes);
      }
      for (unsigned lane = 0; lane < lanes; ++lane)
        made[matrix][lane] = small.pair(lane, transposed);
    }
    for (unsigned matrix = 0; matrix < count; ++matrix) {
      put(warp, instruction.rows[matrix], made[matrix], all_lanes);
    }
  });
}

// rows: the values, then the addresses.
void store_matrices(Warp& warp, const Instruction& instruction, Mask mask) {
  for_whole_warp(warp, mask, [&] {
    const unsigned count = instruction.count - 1u;
    const bool transposed = instruction.detail != 0;
    for (unsigned matrix = 0; matrix < count; ++matrix) {
      Small small;
      const u32* values = row<u32>(warp, instruction.rows[matrix]);
      for (unsigned lane = 0; lane < lanes; ++lane) small.set_pair(lane, transposed, values[lane]);
      for (unsigned r = 0; r < 8; ++r) {
        const unsigned lane = matrix * 8 + r;
        std::byte* to = locate_row(warp, instruction, instruction.rows[count], lane, Use::write);
        write(warp, instruction, lane, to, small.at[r], row_bytes);
      }
    }
  });
}

void transpose(Warp& warp, const Instruction& instruction, Mask mask) {
  for_whole_warp(warp, mask, [&] {
    Small small;
    const u32* values = row<u32>(warp, instruction.rows[1]);
    for (unsigned lane = 0; lane < lanes; ++lane) small.set_pair(lane, false, values[lane]);
    u32 made[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) made[lane] = small.pair(lane, true);
    put(warp, instruction.rows[0], made, all_lanes);
  });
}

void move_matrices(Decoder& d, const ptx::Instruction& w, bool loads) {
  d.require(2);
  if (!w.has("m8n8") || !w.has("b16")) d.fail("only of 8 by 8 elements of 16 bits");
  const ptx::Operand& registers = w.operands[loads ? 0 : 1];
  const std::size_t count = w.has("x4") ? 4 : w.has("x2") ? 2 : 1;
  std::vector<Row> rows;
  for (const ptx::Operand& item : items_of(registers)) {
    rows.push_back(loads ? d.result(item, 4) : d.source(item, 4));
  }
  if (rows.size() != count) d.fail("a register for each matrix is needed");
  rows.push_back(generic_address(d, w.operands[loads ? 1 : 0], space_of(w)));
  Instruction& made = d.emit(loads ? load_matrices : store_matrices, rows);
  made.detail = w.has("trans") ? 1 : 0;
  made.access.space = Space::shared;
}

void ldmatrix(Decoder& d, const ptx::Instruction& w) { move_matrices(d, w, true); }
void stmatrix(Decoder& d, const ptx::Instruction& w) { move_matrices(d, w, false); }

void movmatrix(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  if (!w.has("m8n8") || !w.has("trans") || !w.has("b16")) d.fail("only of 16 bits, transposed");
  const Row from = d.source(w.operands[1], 4);
  d.emit(transpose, {d.result(w.operands[0], 4), from});
}

// ---- wmma ----

struct Tile {
  unsigned rows = 0;
  unsigned columns = 0;
  bool column_major = false;
};

// Elements in a register, which is of at least 32 bits.
template <typename T>
constexpr unsigned per_register = sizeof(T) < 4 ? 4 / sizeof(T) : 1;

// The place of an element in memory. rows: the registers, the address, the stride or none.
template <typename T>
std::byte* locate_element(Warp& warp, const Instruction& instruction, unsigned lane, unsigned index,
                          unsigned count, Use use) {
  const Tile& tile = *static_cast<const Tile*>(instruction.more);
  const std::size_t registers = instruction.count - 2u;
  u64 stride = tile.column_major ? tile.rows : tile.columns;
  if (instruction.rows[registers + 1] != no_row) {
    stride = row<u32>(warp, instruction.rows[registers + 1])[lane];
  }
  const u64 base = row<u64>(warp, instruction.rows[registers])[lane];
  // A fragment's bytes, as PTX has it; for strides CUDA C++ is content with 16.
  const u64 alignment = registers * std::max<std::size_t>(sizeof(T), 4);
  const u64 step = stride * sizeof(T);
  if (base % alignment != 0 || step % std::min<u64>(alignment, 16) != 0) {
    warp.fail(kind::misaligned, lane,
              "a matrix of wmma whose address is no multiple of " + std::to_string(alignment) +
                  " bytes or whose stride, " + std::to_string(step) + " bytes, is none of " +
                  std::to_string(std::min<u64>(alignment, 16)));
  }
  const Place at = place_in_wmma(lane, index, count, tile.rows, tile.columns);
  const u64 element = tile.column_major ? at.column * stride + at.row : at.row * stride + at.column;
  return locate(warp, instruction, lane, base + element * sizeof(T), sizeof(T), use);
}

template <typename T>
void load_tile(Warp& warp, const Instruction& instruction, Mask mask) {
  using Register = std::conditional_t<sizeof(T) == 8, u64, u32>;
  for_whole_warp(warp, mask, [&] {
    constexpr unsigned each = per_register<T>;
    const unsigned count = (instruction.count - 2u) * each;
    Register made[8][lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      for (unsigned index = 0; index < count; ++index) {
        const std::byte* from = locate_element<T>(warp, instruction, lane, index, count, Use::read);
        note(warp, instruction, lane, from, sizeof(T), Use::read);
        std::memcpy(reinterpret_cast<T*>(&made[index / each][lane]) + index % each, from,
                    sizeof(T));
      }
    }
    for (unsigned r = 0; r < count / each; ++r) put(warp, instruction.rows[r], made[r], all_lanes);
  });
}

template <typename T>
void store_tile(Warp& warp, const Instruction& instruction, Mask mask) {
  using Register = std::conditional_t<sizeof(T) == 8, u64, u32>;
  for_whole_warp(warp, mask, [&] {
    constexpr unsigned each = per_register<T>;
    const unsigned count = (instruction.count - 2u) * each;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      for (unsigned index = 0; index < count; ++index) {
        std::byte* to = locate_element<T>(warp, instruction, lane, index, count, Use::write);
        const T* value =
            reinterpret_cast<const T*>(row<Register>(warp, instruction.rows[index / each]) + lane) +
            index % each;
        write(warp, instruction, lane, to, value, sizeof(T));
      }
    }
  });
}

Handler tile_handler(Decoder& d, unsigned bits, bool loads) {
  switch (bits) {
    case 8:
      return loads ? load_tile<u8> : store_tile<u8>;
    case 16:
      return loads ? load_tile<u16> : store_tile<u16>;
    case 32:
      return loads ? load_tile<u32> : store_tile<u32>;
    case 64:
      return loads ? load_tile<u64> : store_tile<u64>;
    default:
      d.fail("matrices of less than 8 bits are not emulated");
  }
}

// wmma.load.a.sync.aligned.row.m16n16k16.f16 registers, [address], stride
void move_tile(Decoder& d, const ptx::Instruction& w, bool loads) {
  d.require(2);
  const MatrixShape shape = shape_of(d, w);
  const bool is_a = w.has("a");
  const bool is_b = w.has("b");
  const Tile tile{is_b ? shape.k : shape.m, is_a ? shape.k : shape.n, w.has("col")};
  const Element element = element_named(d, last_type(w));
  std::vector<Row> rows;
  const std::size_t bytes = element == Element::f64 ? 8 : 4;
  for (const ptx::Operand& item : items_of(w.operands[loads ? 0 : 1])) {
    rows.push_back(loads ? d.result(item, bytes) : d.source(item, bytes));
  }
  if (rows.size() > 8) d.fail("a fragment of more than 8 registers");
  const Handler handler = tile_handler(d, bits_of(element), loads);
  d.mark_access(space_of(w), bits_of(element) / 8);
  const Row base = generic_address(d, w.operands[loads ? 1 : 0], space_of(w));
  rows.push_back(base);
  rows.push_back(w.operands.size() > 2 ? d.source(w.operands[2], 4) : no_row);
  d.emit(handler, rows).more = d.keep(tile);
}

void wmma(Decoder& d, const ptx::Instruction& w) {
  if (w.has("mma")) return wmma_mma(d, w);
  move_tile(d, w, w.has("load"));
}

}  // namespace

bool is_element(std::string_view type) noexcept { return find_element(type) != nullptr; }

Element element_named(Decoder& d, std::string_view type) {
  const ElementName* found = find_element(type);
  if (found == nullptr) d.fail("matrices of this type are not emulated");
  return found->element;
}

unsigned bits_of(Element element) noexcept {
  return elements[static_cast<std::size_t>(element)].bits;
}

MatrixShape shape_of(Decoder& d, const ptx::Instruction& w) {
  for (const std::string_view modifier : w.modifiers) {
    MatrixShape shape;
    const char* at = modifier.data();
    const char* const end = at + modifier.size();
    bool is_shape = true;
    for (auto [letter, extent] : {std::pair{'m', &shape.m}, {'n', &shape.n}, {'k', &shape.k}}) {
      if (at == end || *at != letter) {
        is_shape = false;
        break;
      }
      const auto [next, error] = std::from_chars(at + 1, end, *extent);
      is_shape = is_shape && error == std::errc();
      at = next;
    }
    if (is_shape && at == end) return shape;
  }
  d.fail("no shape of a matrix");
}

void add_matrix_rules(Rules& rules) {
  rules["mma"] = mma;
  rules["wmma"] = wmma;
  rules["ldmatrix"] = ldmatrix;
  rules["stmatrix"] = stmatrix;
  rules["movmatrix"] = movmatrix;
}

}  // namespace cudademo::emulator
