// What the asynchronous copies share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "decoder.hpp"

namespace cudademo::emulator {

class Warp;

// The host's address of what a copy reads or writes, at a generic address; null for no bytes.
// Throws Fault as a load or a store of that many bytes would.
const std::byte* source_of(Warp& warp, const Instruction& instruction, unsigned lane,
                           std::uint64_t address, std::uint32_t bytes, std::uint32_t alignment);
std::byte* target_of(Warp& warp, const Instruction& instruction, unsigned lane,
                     std::uint64_t address, std::uint32_t bytes, std::uint32_t alignment);

// cp.async.bulk, which shares its opcode with cp.async.
void bulk_copy(Decoder& decoder, const ptx::Instruction& written);

}  // namespace cudademo::emulator
