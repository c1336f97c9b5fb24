// The registers that the hardware sets: %tid, %laneid, %clock and their kin.
#pragma once

#include <cstddef>
#include <string_view>

#include "program.hpp"

namespace cudademo::emulator {

// What reads it into a row of this many bytes a lane; null for another name. The axis is the
// instruction's detail.
Handler special_register(std::string_view name, std::size_t bytes);

// The address of dynamic shared memory, and the immediate behind it.
void read_dynamic_shared(Warp& warp, const Instruction& instruction, Mask mask);

}  // namespace cudademo::emulator
