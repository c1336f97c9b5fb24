// The rules of floating point that share an opcode with the integers'.
#pragma once

#include <string_view>

#include "decoder.hpp"

namespace cudademo::emulator {

// f32, f64, f16, f16x2, bf16, bf16x2
bool is_float(std::string_view type) noexcept;

void float_add(Decoder& decoder, const ptx::Instruction& written);
void float_sub(Decoder& decoder, const ptx::Instruction& written);
void float_mul(Decoder& decoder, const ptx::Instruction& written);
void float_fma(Decoder& decoder, const ptx::Instruction& written);
void float_div(Decoder& decoder, const ptx::Instruction& written);
void float_abs(Decoder& decoder, const ptx::Instruction& written);
void float_neg(Decoder& decoder, const ptx::Instruction& written);
void float_min(Decoder& decoder, const ptx::Instruction& written);
void float_max(Decoder& decoder, const ptx::Instruction& written);

}  // namespace cudademo::emulator
