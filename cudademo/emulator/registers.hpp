// How registers lie in a frame, and how one of another width is read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lanes.hpp"
#include "ptx.hpp"

namespace cudademo::emulator {

inline constexpr std::size_t predicate_bytes = 0;
inline constexpr std::size_t row_alignment = 64;

// Rows from here on are constants' numbers: no register is as far into a frame.
inline constexpr Row first_constant = 0x80000000;

// The bytes of a lane in a row; 8-bit registers are kept as 16-bit ones.
inline std::size_t lane_bytes(std::size_t bytes) { return bytes == 1 ? 2 : bytes; }

inline std::size_t bytes_of_register(const ptx::Variable& variable) {
  return variable.type == "pred" ? predicate_bytes : lane_bytes(ptx::size_of(variable.type));
}

template <typename To, typename From>
Handler convert_bits() {
  return unary<To, From>([](From from) { return static_cast<To>(from); });
}

inline Handler narrowing(std::size_t to, std::size_t from) {
  if (from == 4) return convert_bits<std::uint16_t, std::uint32_t>();
  if (to == 2) return convert_bits<std::uint16_t, std::uint64_t>();
  return convert_bits<std::uint32_t, std::uint64_t>();
}

inline Handler extending(std::size_t to, std::size_t from, bool is_signed) {
  if (from == 2 && to == 4) {
    return is_signed ? convert_bits<std::int32_t, std::int16_t>()
                     : convert_bits<std::uint32_t, std::uint16_t>();
  }
  if (from == 2) {
    return is_signed ? convert_bits<std::int64_t, std::int16_t>()
                     : convert_bits<std::uint64_t, std::uint16_t>();
  }
  return is_signed ? convert_bits<std::int64_t, std::int32_t>()
                   : convert_bits<std::uint64_t, std::uint32_t>();
}

}  // namespace cudademo::emulator
