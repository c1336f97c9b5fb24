// The operands of an instruction as rows.
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "decoder.hpp"
#include "lanes.hpp"
#include "registers.hpp"
#include "special_registers.hpp"

namespace cudademo::emulator {

Row Decoder::row_of(const ptx::Operand& operand) const {
  const auto index = static_cast<std::size_t>(operand.index);
  if (operand.component == 0) return rows_[index];
  const ptx::Variable& variable = source_.variables[index];
  const std::size_t component = std::string_view("xyzw").find(operand.component);
  if (component >= static_cast<std::size_t>(variable.vector)) fail("no such component");
  const std::size_t bytes = bytes_of_register(variable);
  const std::size_t step =
      bytes == predicate_bytes ? sizeof(Mask) : align_up(bytes * lanes, row_alignment);
  return rows_[index] + static_cast<Row>(component * step);
}

Row Decoder::address_in(const ptx::Operand& operand, std::size_t bytes) {
  bool wide = true;
  const Row whole = address(operand, wide);
  if (bytes == 8) return whole;
  const Row narrowed = temporary(bytes);
  emit(narrowing(bytes, 8), {narrowed, whole});
  return narrowed;
}

Row Decoder::temporary(std::size_t bytes) { return reserve(lane_bytes(bytes)); }

Row Decoder::constant(std::uint64_t bits, std::size_t bytes) {
  bytes = bytes == predicate_bytes ? bytes : lane_bytes(bytes);
  if (bytes != predicate_bytes && bytes < 8) bits &= (std::uint64_t{1} << (bytes * 8)) - 1;
  const auto [found, is_new] = constant_rows_.try_emplace({bits, bytes}, no_row);
  if (is_new) {
    found->second = first_constant + static_cast<Row>(constants_.size());
    constants_.push_back({bits, bytes});
  }
  return found->second;
}

std::size_t Decoder::integer_bytes(std::size_t bytes) const {
  if (bytes != 2 && bytes != 4 && bytes != 8) fail("an operand of the wrong size");
  return bytes;
}

Row Decoder::source(const ptx::Operand& operand, std::size_t bytes, bool is_float) {
  using Kind = ptx::Operand::Kind;
  const std::size_t wanted = bytes == predicate_bytes ? bytes : lane_bytes(bytes);
  switch (operand.kind) {
    case Kind::integer:
      if (is_float) {
        const auto value = static_cast<double>(static_cast<std::int64_t>(operand.bits));
        if (bytes == 4) return constant(std::bit_cast<std::uint32_t>(static_cast<float>(value)), 4);
        if (bytes == 8) return constant(std::bit_cast<std::uint64_t>(value), 8);
      }
      return constant(operand.bits, bytes);
    case Kind::single:
      if (bytes == 8) {
        const auto value =
            static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(operand.bits)));
        return constant(std::bit_cast<std::uint64_t>(value), 8);
      }
      return constant(operand.bits, bytes);
    case Kind::number:
      if (bytes == 4) {
        const auto value = static_cast<float>(std::bit_cast<double>(operand.bits));
        return constant(std::bit_cast<std::uint32_t>(value), 4);
      }
      return constant(operand.bits, bytes);
    case Kind::variable: {
      if (!operand.selector.empty()) fail("a part of a register");
      const auto index = static_cast<std::size_t>(operand.index);
      const ptx::Variable& variable = source_.variables[index];
      if (variable.space != ptx::Space::reg) return address_in(operand, integer_bytes(wanted));
      const std::size_t has = bytes_of_register(variable);
      const Row row = row_of(operand);
      if (operand.negated) {
        if (has != predicate_bytes) fail("only a predicate can be negated");
        const Row negated = reserve(predicate_bytes);
        emit(
            [](Warp& warp, const Instruction& instruction, Mask) {
              predicate(warp, instruction.rows[0]) = ~predicate(warp, instruction.rows[1]);
            },
            {negated, row});
        return negated;
      }
      if (has == wanted) return row;
      if (has == predicate_bytes || wanted == predicate_bytes) fail("a predicate and a number");
      if (has < wanted) {
        // Bits of a narrower register: shfl and the like never ask, cvt and st may.
        if (wanted > 8) fail("an operand of the wrong size");
        const Row wider = temporary(wanted);
        emit(extending(wanted, has, false), {wider, row});
        return wider;
      }
      if (has > 8) fail("an operand of the wrong size");
      const Row narrowed = temporary(wanted);
      emit(narrowing(wanted, has), {narrowed, row});
      return narrowed;
    }
    case Kind::symbol: {
      if (operand.text == "WARP_SZ") return constant(lanes, bytes);
      if (const Handler read = special_register(operand.text, wanted)) {
        integer_bytes(wanted);
        const Row row = temporary(wanted);
        const unsigned axis =
            operand.component == 0 ? 0u : static_cast<unsigned>(operand.component - 'x');
        emit(read, {row}).detail = static_cast<std::uint8_t>(axis);
        return row;
      }
      if (operand.text.starts_with("%envreg") || operand.text.starts_with("%pm")) {
        return constant(0, bytes);
      }
      return address_in(operand, integer_bytes(wanted));
    }
    default:
      fail("an operand of a kind that is not taken here");
  }
}

Row Decoder::result(const ptx::Operand& operand, std::size_t bytes, bool is_signed) {
  const std::size_t given = bytes == predicate_bytes ? bytes : lane_bytes(bytes);
  if (operand.kind == ptx::Operand::Kind::none) return reserve(given);
  if (operand.kind != ptx::Operand::Kind::variable || !operand.selector.empty()) {
    fail("the result is no register");
  }
  const auto index = static_cast<std::size_t>(operand.index);
  const ptx::Variable& variable = source_.variables[index];
  if (variable.space != ptx::Space::reg) fail("the result is no register");
  const std::size_t has = bytes_of_register(variable);
  const Row row = row_of(operand);
  if (has == given) return row;
  if (has < given || given == predicate_bytes || has > 8) fail("a result of the wrong size");
  const Row narrow_row = reserve(given);
  extensions_.push_back({extending(has, given, is_signed), row, narrow_row});
  return narrow_row;
}

Row Decoder::address(const ptx::Operand& base, bool& wide) {
  using Kind = ptx::Operand::Kind;
  wide = true;
  if (base.kind == Kind::integer) return constant(base.bits, 8);
  if (base.kind == Kind::variable) {
    const auto index = static_cast<std::size_t>(base.index);
    const ptx::Variable& variable = source_.variables[index];
    const auto offset = static_cast<std::uint64_t>(base.offset);
    switch (variable.space) {
      case ptx::Space::reg: {
        const std::size_t has = bytes_of_register(variable);
        if (has != 4 && has != 8) fail("an address in a register of neither 32 nor 64 bits");
        wide = has == 8;
        return rows_[index];
      }
      case ptx::Space::local: {
        const Row row = temporary(8);
        Instruction& made = emit(
            [](Warp& warp, const Instruction& instruction, Mask mask) {
              std::uint64_t values[lanes];
              for (unsigned lane = 0; lane < lanes; ++lane) {
                values[lane] = warp.frame().local_base[lane] +
                               static_cast<std::uint64_t>(instruction.immediate);
              }
              put(warp, instruction.rows[0], values, mask);
            },
            {row});
        made.immediate = static_cast<std::int64_t>(slots_[index].offset + offset);
        return row;
      }
      default:
        return constant(slots_[index].offset + offset, 8);
    }
  }
  if (base.kind != Kind::symbol) fail("an address is a register, a variable or a number");
  const Symbol* known = symbol(base.text);
  if (known == nullptr) fail("unknown name " + std::string(base.text));
  if (known->is_dynamic_shared) {
    const Row row = temporary(8);
    emit(read_dynamic_shared, {row}).immediate = base.offset;
    return row;
  }
  return constant(known->address + static_cast<std::uint64_t>(base.offset), 8);
}

}  // namespace cudademo::emulator
