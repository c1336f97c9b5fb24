// mov: copies, and the packing and unpacking of vectors.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "float.hpp"
#include "lanes.hpp"

namespace cudademo::emulator {

namespace {

template <typename T>
Handler copy() {
  return unary<T, T>([](T a) { return a; });
}

Handler copy_of(std::size_t bytes) {
  switch (bytes) {
    case 2:
      return copy<u16>();
    case 4:
      return copy<u32>();
    case 8:
      return copy<u64>();
    default:
      return copy<u128>();
  }
}

void copy_predicate(Warp& warp, const Instruction& instruction, Mask mask) {
  put_mask(warp, instruction.rows[0], predicate(warp, instruction.rows[1]), mask);
}

// {a, b} into one register of twice the size.
template <typename Whole, typename Part>
void pack(Warp& warp, const Instruction& instruction, Mask mask) {
  constexpr unsigned parts = sizeof(Whole) / sizeof(Part);
  Whole values[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) {
    Whole value = 0;
    for (unsigned i = 0; i < parts; ++i) {
      const Part part = row<Part>(warp, instruction.rows[1 + i])[lane];
      value |= static_cast<Whole>(static_cast<Whole>(part) << (i * sizeof(Part) * 8));
    }
    values[lane] = value;
  }
  put(warp, instruction.rows[0], values, mask);
}

template <typename Whole, typename Part>
void unpack(Warp& warp, const Instruction& instruction, Mask mask) {
  constexpr unsigned parts = sizeof(Whole) / sizeof(Part);
  Whole whole[lanes];  // a part may go into the row that the whole comes from
  std::copy_n(row<Whole>(warp, instruction.rows[parts]), lanes, whole);
  for (unsigned i = 0; i < parts; ++i) {
    Part values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      values[lane] = static_cast<Part>(whole[lane] >> (i * sizeof(Part) * 8));
    }
    put(warp, instruction.rows[i], values, mask);
  }
}

Handler packing(std::size_t whole, std::size_t parts, bool packs) {
  if (whole == 4 && parts == 2) return packs ? pack<u32, u16> : unpack<u32, u16>;
  if (whole == 8 && parts == 2) return packs ? pack<u64, u32> : unpack<u64, u32>;
  if (whole == 8 && parts == 4) return packs ? pack<u64, u16> : unpack<u64, u16>;
  if (whole == 16 && parts == 2) return packs ? pack<u128, u64> : unpack<u128, u64>;
  if (whole == 16 && parts == 4) return packs ? pack<u128, u32> : unpack<u128, u32>;
  return nullptr;
}

// Bytes packed into a half or a word are kept in 16-bit rows.
void pack_bytes(Warp& warp, const Instruction& instruction, Mask mask) {
  const unsigned parts = instruction.count - 1u;
  u32 values[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) {
    values[lane] = 0;
    for (unsigned i = 0; i < parts; ++i) {
      values[lane] |= (row<u16>(warp, instruction.rows[1 + i])[lane] & 0xffu) << (8 * i);
    }
  }
  if (parts == 4) return put(warp, instruction.rows[0], values, mask);
  u16 halves[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) halves[lane] = static_cast<u16>(values[lane]);
  put(warp, instruction.rows[0], halves, mask);
}

void unpack_bytes(Warp& warp, const Instruction& instruction, Mask mask) {
  const unsigned parts = instruction.count - 1u;
  u32 whole[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) {
    whole[lane] = parts == 4 ? row<u32>(warp, instruction.rows[parts])[lane]
                             : row<u16>(warp, instruction.rows[parts])[lane];
  }
  for (unsigned i = 0; i < parts; ++i) {
    u16 values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      values[lane] = static_cast<u16>(whole[lane] >> (8 * i) & 0xff);
    }
    put(warp, instruction.rows[i], values, mask);
  }
}

void mov(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  const ptx::Operand& to = w.operands[0];
  const ptx::Operand& from = w.operands[1];
  const std::string_view type = last_type(w);
  if (type == "pred") {
    const Row a = d.source(from, 0);
    d.emit(copy_predicate, {d.result(to, 0), a});
    return;
  }
  const std::size_t bytes = d.bytes_of(type, {1, 2, 4, 8, 16});
  const bool packs = from.kind == ptx::Operand::Kind::vector;
  const bool unpacks = to.kind == ptx::Operand::Kind::vector;
  if (packs || unpacks) {
    const std::vector<ptx::Operand>& items = packs ? from.items : to.items;
    const std::size_t parts = items.size();
    if (parts == 0 || bytes % parts != 0) d.fail("a vector that does not fit");
    const bool of_bytes = bytes / parts == 1;
    Handler handler = packing(bytes, parts, packs);
    if (of_bytes && bytes <= 4) handler = packs ? pack_bytes : unpack_bytes;
    if (handler == nullptr) d.fail("a vector that does not fit");
    std::vector<Row> rows;
    if (packs) {
      rows.push_back(no_row);
      for (const ptx::Operand& item : items) rows.push_back(d.source(item, bytes / parts));
      rows[0] = d.result(to, bytes);
    } else {
      const Row whole = d.source(from, bytes);
      for (const ptx::Operand& item : items) rows.push_back(d.result(item, bytes / parts));
      rows.push_back(whole);
    }
    d.emit(handler, rows);
    return;
  }
  const Row a = d.source(from, bytes, is_float(type));
  d.emit(copy_of(bytes == 1 ? 2 : bytes), {d.result(to, bytes), a});
}

}  // namespace

void add_move_rules(Rules& rules) { rules["mov"] = mov; }

}  // namespace cudademo::emulator
