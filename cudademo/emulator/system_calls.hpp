// The functions that a kernel calls and its module does not have.
#pragma once

#include <string_view>

#include "program.hpp"

namespace cudademo::emulator {

// printf, assert, malloc and free; one that raises a Fault for others.
SystemCall system_call(std::string_view name);

}  // namespace cudademo::emulator
