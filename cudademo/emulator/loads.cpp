// Loads, stores, and the hints to a cache.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "access.hpp"
#include "block.hpp"
#include "float.hpp"
#include "lanes.hpp"

namespace cudademo::emulator {

namespace {

template <bool is_vector, typename Memory, typename Register>
void load(Warp& warp, const Instruction& instruction, Mask mask) {
  const unsigned elements = is_vector ? instruction.access.elements : 1;
  const std::size_t bytes = sizeof(Memory) * elements;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    const std::byte* from = locate(warp, instruction, lane,
                                   address_of(warp, instruction, elements, lane), bytes, Use::read);
    if (instruction.access.unused == 0) note(warp, instruction, lane, from, bytes, Use::read);
    for (unsigned i = 0; i < elements; ++i) {
      if ((instruction.access.unused >> i & 1) != 0) continue;
      if (instruction.access.unused != 0) {
        note(warp, instruction, lane, from + i * sizeof(Memory), sizeof(Memory), Use::read);
      }
      Memory value;
      std::memcpy(&value, from + i * sizeof(Memory), sizeof(Memory));
      row<Register>(warp, instruction.rows[i])[lane] = static_cast<Register>(value);
    }
  }
}

// rows: the base, then the elements.
template <bool is_vector, typename Memory, typename Register>
void store(Warp& warp, const Instruction& instruction, Mask mask) {
  const unsigned elements = is_vector ? instruction.access.elements : 1;
  const std::size_t bytes = sizeof(Memory) * elements;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    std::byte* to =
        locate(warp, instruction, lane, address_of(warp, instruction, 0, lane), bytes, Use::write);
    Memory values[8];
    for (unsigned i = 0; i < elements; ++i) {
      values[i] = static_cast<Memory>(row<Register>(warp, instruction.rows[1 + i])[lane]);
    }
    write(warp, instruction, lane, to, values, bytes);
  }
}

template <bool is_vector>
Handler loading(const Access& access) {
  switch (access.bytes) {
    case 1:
      return access.is_signed ? load<is_vector, std::int8_t, std::int16_t>
                              : load<is_vector, std::uint8_t, u16>;
    case 2:
      return load<is_vector, u16, u16>;
    case 4:
      return load<is_vector, u32, u32>;
    case 8:
      return load<is_vector, u64, u64>;
    default:
      return load<is_vector, u128, u128>;
  }
}

template <bool is_vector>
Handler storing(const Access& access) {
  switch (access.bytes) {
    case 1:
      return store<is_vector, std::uint8_t, u16>;
    case 2:
      return store<is_vector, u16, u16>;
    case 4:
      return store<is_vector, u32, u32>;
    case 8:
      return store<is_vector, u64, u64>;
    default:
      return store<is_vector, u128, u128>;
  }
}

std::vector<ptx::Operand> elements_of(Decoder& d, const ptx::Operand& operand, unsigned count) {
  if (operand.kind != ptx::Operand::Kind::vector) {
    if (count != 1) d.fail("a vector is needed");
    return {operand};
  }
  if (operand.items.size() != count) d.fail("a vector of another length");
  return operand.items;
}

void ld(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  Access access = access_of(d, w);
  const Row base = d.address(base_of(d, w.operands[1]), access.wide_base);
  std::vector<Row> rows;
  for (const ptx::Operand& element : elements_of(d, w.operands[0], access.elements)) {
    if (access.elements > 1 && !d.is_used(element)) {
      access.unused |= static_cast<std::uint8_t>(1u << rows.size());
    }
    rows.push_back(d.result(element, access.bytes, access.is_signed));
  }
  rows.push_back(base);
  Instruction& made =
      d.emit(access.elements > 1 ? loading<true>(access) : loading<false>(access), rows);
  made.access = access;
  made.immediate = w.operands[1].offset;
}

void st(Decoder& d, const ptx::Instruction& w) {
  if (w.has("async") || w.has("bulk")) d.fail("this instruction is not emulated");
  d.require(2);
  Access access = access_of(d, w);
  std::vector<Row> rows{d.address(base_of(d, w.operands[0]), access.wide_base)};
  for (const ptx::Operand& element : elements_of(d, w.operands[1], access.elements)) {
    rows.push_back(d.source(element, access.bytes, is_float(last_type(w))));
  }
  Instruction& made =
      d.emit(access.elements > 1 ? storing<true>(access) : storing<false>(access), rows);
  made.access = access;
  made.immediate = w.operands[0].offset;
}

// Hints to a cache that is not there.
void nothing(Decoder&, const ptx::Instruction&) {}

void createpolicy(Decoder& d, const ptx::Instruction& w) {
  d.require(1);
  d.emit(unary<u64, u64>([](u64 none) { return none; }),
         {d.result(w.operands[0], 8), d.constant(0, 8)});
}

}  // namespace

void add_memory_rules(Rules& rules) {
  rules["ld"] = ld;
  rules["ldu"] = ld;
  rules["st"] = st;
  rules["prefetch"] = nothing;
  rules["prefetchu"] = nothing;
  rules["applypriority"] = nothing;
  rules["discard"] = nothing;
  rules["createpolicy"] = createpolicy;
}

}  // namespace cudademo::emulator
