// Doubles rounded to the narrow floating-point formats of a GPU, to nearest and ties to even.
#pragma once

#include <cstdint>
#include <optional>

#include "dtype.hpp"

namespace cudademo {

// The bits of `value` in a format of at most 16 bits: float16, bfloat16 or one of the fp8 types.
// Nothing where the format has no such number: a finite value beyond its range, or an infinity, a
// sign or a zero that it lacks.
std::optional<std::uint16_t> narrow(double value, Dtype dtype);

}  // namespace cudademo
