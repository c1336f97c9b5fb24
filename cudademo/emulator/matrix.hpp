// Matrices whose elements lie in the registers of a whole warp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "block.hpp"
#include "decoder.hpp"
#include "lanes.hpp"

namespace cudademo::emulator {

enum class Element : std::uint8_t {
  f16,
  bf16,
  tf32,
  f32,
  f64,
  e4m3,
  e5m2,
  signed8,
  unsigned8,
  signed4,
  unsigned4,
  signed32
};

// Throws ptx::ParseError for a type that no matrix has.
Element element_named(Decoder& decoder, std::string_view type);
bool is_element(std::string_view type) noexcept;
unsigned bits_of(Element element) noexcept;

// m16n8k16
struct MatrixShape {
  unsigned m = 0;
  unsigned n = 0;
  unsigned k = 0;
};
MatrixShape shape_of(Decoder& decoder, const ptx::Instruction& written);

struct Place {
  unsigned row = 0;
  unsigned column = 0;
};

// Where element `index` of a lane's fragment of `count` lies, for wmma. PTX leaves that open; here
// they lie in order, and again from the first where there are more than the matrix has.
inline Place place_in_wmma(unsigned lane, unsigned index, unsigned count, unsigned rows,
                           unsigned columns) noexcept {
  const unsigned at = (lane * count + index) % (rows * columns);
  return {at / columns, at % columns};
}

// Calls `use()` for all of a warp, once all of it is at the instruction.
template <typename F>
void for_whole_warp(Warp& warp, Mask mask, F use) {
  if (!warp.gather(all_lanes, mask)) return;
  if (mask != all_lanes) {
    warp.fail(kind::invalid, first_lane(mask),
              "a matrix instruction is of all 32 threads of a warp, and here are " +
                  std::to_string(std::popcount(mask)));
  }
  if (Races* races = warp.block().races()) races->meet(warp.index(), all_lanes);
  use();
}

// wmma.mma, which shares its opcode with the loads and stores.
void wmma_mma(Decoder& decoder, const ptx::Instruction& written);
void mma(Decoder& decoder, const ptx::Instruction& written);

}  // namespace cudademo::emulator
