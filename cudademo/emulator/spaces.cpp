// Where an address lies: between the spaces and the generic one, and within a cluster of one block.
#include <cstdint>

#include "block.hpp"
#include "lanes.hpp"

namespace cudademo::emulator {

namespace {

std::uint64_t window_of(const ptx::Instruction& w) {
  if (w.has("shared") || w.has("shared::cta") || w.has("shared::cluster")) return shared_window;
  if (w.has("local")) return local_window;
  if (w.has("param") || w.has("param::entry")) return param_window;
  return 0;  // global and const: the generic address is the address
}

void cvta(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  const std::size_t bytes = ptx::size_of(last_type(w));
  if (bytes != 8) d.fail("only 64-bit addresses");
  const Row a = d.source(w.operands[1], 8);
  const std::uint64_t window = window_of(w);
  const Handler handler =
      w.has("to") ? [](Warp& warp, const Instruction& i, Mask mask) {
        const u64* from = row<u64>(warp, i.rows[1]);
        u64 values[lanes];
        for (unsigned lane = 0; lane < lanes; ++lane) {
          values[lane] = from[lane] - static_cast<u64>(i.immediate);
        }
        put(warp, i.rows[0], values, mask);
      }
                  : [](Warp& warp, const Instruction& i, Mask mask) {
        const u64* from = row<u64>(warp, i.rows[1]);
        u64 values[lanes];
        for (unsigned lane = 0; lane < lanes; ++lane) {
          values[lane] = from[lane] + static_cast<u64>(i.immediate);
        }
        put(warp, i.rows[0], values, mask);
      };
  d.emit(handler, {d.result(w.operands[0], 8), a}).immediate = static_cast<std::int64_t>(window);
}

bool is_constant(Warp& warp, u64 address) {
  const Range* range = warp.block().launch().memory->find(address, 1);
  return range != nullptr && range->is_constant;
}

void isspacep(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  const Row a = d.source(w.operands[1], 8);
  Instruction& made = d.emit(
      [](Warp& warp, const Instruction& i, Mask mask) {
        const u64* from = row<u64>(warp, i.rows[1]);
        const auto window = static_cast<u64>(i.immediate);
        Mask in = 0;
        for (unsigned lane = 0; lane < lanes; ++lane) {
          const bool is = window != 0 ? from[lane] >= window && from[lane] < window + window_bytes
                                      : from[lane] < shared_window &&
                                            is_constant(warp, from[lane]) == (i.detail != 0);
          in |= Mask{is} << lane;
        }
        put_mask(warp, i.rows[0], in, mask);
      },
      {d.result(w.operands[0], 0), a});
  made.immediate = static_cast<std::int64_t>(window_of(w));
  made.detail = w.has("const") ? 1 : 0;
}

// A cluster has one block here: its own shared memory is all that there is.
template <typename T>
void map_to_block(Warp& warp, const Instruction& instruction, Mask mask) {
  const u32* ranks = row<u32>(warp, instruction.rows[2]);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane) || ranks[lane] == 0) continue;
    warp.fail(kind::invalid, lane,
              "block " + std::to_string(ranks[lane]) + " of a cluster that has one block");
  }
  put(warp, instruction.rows[0], row<T>(warp, instruction.rows[1]), mask);
}

void mapa(Decoder& d, const ptx::Instruction& w) {
  d.require(3);
  const std::size_t bytes = ptx::size_of(last_type(w));
  const Row a = d.source(w.operands[1], bytes);
  const Row rank = d.source(w.operands[2], 4);
  d.emit(bytes == 8 ? map_to_block<u64> : map_to_block<u32>,
         {d.result(w.operands[0], bytes), a, rank});
}

void getctarank(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  d.emit(unary<u32, u32>([](u32 rank) { return rank; }),
         {d.result(w.operands[0], 4), d.constant(0, 4)});
}

}  // namespace

void add_space_rules(Rules& rules) {
  rules["cvta"] = cvta;
  rules["isspacep"] = isspacep;
  rules["mapa"] = mapa;
  rules["getctarank"] = getctarank;
}

}  // namespace cudademo::emulator
