// From an address in a PTX space to the host's memory, or to a Fault.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "block.hpp"
#include "decoder.hpp"
#include "lanes.hpp"
#include "memory.hpp"
#include "program.hpp"
#include "ptx.hpp"
#include "warp.hpp"

namespace cudademo::emulator {

enum class Use : std::uint8_t { read, write, atomic };

// The host's address of most accesses: aligned, in the bounds of shared, global or constant memory,
// and with checks only of shared bytes that are written and at rest. Null for all others.
inline std::byte* plain_place(Block& block, const Access& access, std::uint64_t address,
                              std::size_t bytes, Use use) noexcept {
  using ptx::Space;
  if ((address & (bytes - 1)) != 0) return nullptr;
  const bool in_window = access.space == Space::generic && address - shared_window < window_bytes;
  if (access.space == Space::shared || in_window) {
    const std::uint64_t offset = in_window ? address - shared_window : address;
    const std::uint64_t end = block.shared_bytes();
    if (offset < reserved_shared_bytes || offset >= end || bytes > end - offset) return nullptr;
    if (block.races() != nullptr) {
      const std::byte* state = block.shared_state(offset);
      if (!std::all_of(state, state + bytes, [](std::byte is) { return is == byte_written; })) {
        return nullptr;
      }
    }
    return block.shared(offset);
  }
  if (access.space == Space::local || access.space == Space::param) return nullptr;
  if (address >= shared_window) return nullptr;  // of the generic windows, or nowhere
  const Range* range = block.launch().memory->find(address, bytes);
  if (range == nullptr || (use != Use::read && !range->writable)) return nullptr;
  return reinterpret_cast<std::byte*>(address);
}

// The same of accesses that have no plain place.
std::byte* other_place(Warp& warp, const Instruction& instruction, unsigned lane,
                       std::uint64_t address, std::size_t bytes, Use use);

// The host's address of a lane's access. Throws Fault for one that is out of bounds or misaligned,
// or reads what nobody wrote.
inline std::byte* locate(Warp& warp, const Instruction& instruction, unsigned lane,
                         std::uint64_t address, std::size_t bytes, Use use) {
  std::byte* place = plain_place(warp.block(), instruction.access, address, bytes, use);
  return place != nullptr ? place : other_place(warp, instruction, lane, address, bytes, use);
}

// Tells the race check, which is there, of an access. True where it has written the values too,
// which are null for what is no write of known values.
bool watch(Warp& warp, const Instruction& instruction, unsigned lane, const std::byte* place,
           std::size_t bytes, Use use, const void* values);

// Notes an access, at the host's address that locate() gave. Throws Fault where it races with one
// before.
inline void note(Warp& warp, const Instruction& instruction, unsigned lane, const std::byte* place,
                 std::size_t bytes, Use use) {
  if (warp.block().races() != nullptr) watch(warp, instruction, lane, place, bytes, use, nullptr);
}

// Notes a write and does it, as one step: several threads may write the same value to one place.
inline void write(Warp& warp, const Instruction& instruction, unsigned lane, std::byte* place,
                  const void* values, std::size_t bytes) {
  if (warp.block().races() != nullptr &&
      watch(warp, instruction, lane, place, bytes, Use::write, values)) {
    return;
  }
  std::memcpy(place, values, bytes);
}

// Throws the Fault of an access: "read of 4 bytes at 0x480, " and where that is.
[[noreturn]] void refuse(Warp& warp, unsigned lane, const char* kind, std::uint64_t address,
                         std::size_t bytes, Use use, const std::string& where,
                         const std::string& array);

// Where an access of before was: " at line 7"; empty where that is not known.
std::string at_line(const Launch& launch, std::uint32_t site);

// The space, order and width of a load, a store or an atomic.
Access access_of(Decoder& decoder, const ptx::Instruction& written);

// A lane's address: the base's row is rows[base].
inline std::uint64_t address_of(Warp& warp, const Instruction& instruction, std::size_t base,
                                unsigned lane) noexcept {
  const Row at = instruction.rows[base];
  if (instruction.access.wide_base) {
    return row<u64>(warp, at)[lane] + static_cast<std::uint64_t>(instruction.immediate);
  }
  // 32-bit addresses wrap at 32 bits.
  return static_cast<u32>(row<u32>(warp, at)[lane] + static_cast<u32>(instruction.immediate));
}

// What an address is counted from. Throws ptx::ParseError for an operand without brackets.
const ptx::Operand& base_of(Decoder& decoder, const ptx::Operand& operand);

// A row of 64-bit generic addresses, of an operand in brackets in this space.
Row generic_address(Decoder& decoder, const ptx::Operand& operand, ptx::Space space);

// The place in shared memory of a generic address. Throws Fault for an address elsewhere.
std::uint64_t shared_place(const Warp& warp, unsigned lane, std::uint64_t address);

// The items of a vector, or a single operand.
std::vector<ptx::Operand> items_of(const ptx::Operand& operand);

// The space that the modifiers name; generic where they name none.
ptx::Space space_of(const ptx::Instruction& written);

}  // namespace cudademo::emulator
