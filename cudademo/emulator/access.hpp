// From an address in a PTX space to the host's memory, or to a Fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "program.hpp"
#include "ptx.hpp"

namespace cudademo::emulator {

class Decoder;
class Warp;

enum class Use : std::uint8_t { read, write, atomic };

// Notes an access, at the host's address that locate() gave. Throws Fault where it races with one
// before.
void note(Warp& warp, const Instruction& instruction, unsigned lane, const std::byte* place,
          std::size_t bytes, Use use);

// Notes a write and does it, as one step: several threads may write the same value to one place.
void write(Warp& warp, const Instruction& instruction, unsigned lane, std::byte* place,
           const void* values, std::size_t bytes);

// The host's address of a lane's access. Throws Fault for one that is out of bounds or misaligned,
// or reads what nobody wrote.
std::byte* locate(Warp& warp, const Instruction& instruction, unsigned lane, std::uint64_t address,
                  std::size_t bytes, Use use);

// Throws the Fault of an access: "read of 4 bytes at 0x480, " and where that is.
[[noreturn]] void refuse(Warp& warp, unsigned lane, const char* kind, std::uint64_t address,
                         std::size_t bytes, Use use, const std::string& where,
                         const std::string& array);

// The space, order and width of a load, a store or an atomic.
Access access_of(Decoder& decoder, const ptx::Instruction& written);

// A lane's address: the base's row is rows[base].
std::uint64_t address_of(Warp& warp, const Instruction& instruction, std::size_t base,
                         unsigned lane) noexcept;

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
