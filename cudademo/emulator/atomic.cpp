// Atomics and reductions on memory. Blocks that use them on global memory take turns on one thread
// of the host (Function::talks_across_blocks), so plain reads and writes are enough here.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "access.hpp"
#include "block.hpp"
#include "extreme.hpp"
#include "float.hpp"
#include "lanes.hpp"
#include "numeric.hpp"

namespace cudademo::emulator {

namespace {

// rows: the result or none, the base, the operand, and cas's second.
template <typename T, typename F>
Handler updating(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const T* operand = row<T>(warp, instruction.rows[2]);
    const T* other = instruction.count > 3 ? row<T>(warp, instruction.rows[3]) : operand;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (!is_set(mask, lane)) continue;
      const std::uint64_t address = address_of(warp, instruction, 1, lane);
      std::byte* place = locate(warp, instruction, lane, address, sizeof(T), Use::atomic);
      note(warp, instruction, lane, place, sizeof(T), Use::atomic);
      T old;
      std::memcpy(&old, place, sizeof(T));
      const T made = F{}(old, operand[lane], other[lane]);
      std::memcpy(place, &made, sizeof(T));
      if (instruction.rows[0] != no_row) row<T>(warp, instruction.rows[0])[lane] = old;
    }
  };
}

template <SmallFloat format>
u32 add_halves(u32 a, u32 b) {
  const u32 low = add(format, static_cast<u16>(a), static_cast<u16>(b));
  const u32 high = add(format, static_cast<u16>(a >> 16), static_cast<u16>(b >> 16));
  return low | high << 16;
}

Handler adding(std::string_view type, bool shared) {
  if (type == "f32") {
    // In global memory subnormal numbers are flushed, in shared memory they are not.
    if (shared)
      return updating<float>(
          [](float a, float b, float) { return add(a, b, Rounding::nearest_even); });
    return updating<float>([](float a, float b, float) {
      return flush_subnormal(add(flush_subnormal(a), flush_subnormal(b), Rounding::nearest_even));
    });
  }
  if (type == "f64")
    return updating<double>(
        [](double a, double b, double) { return add(a, b, Rounding::nearest_even); });
  if (type == "f16")
    return updating<u16>([](u16 a, u16 b, u16) { return add(SmallFloat::f16, a, b); });
  if (type == "bf16")
    return updating<u16>([](u16 a, u16 b, u16) { return add(SmallFloat::bf16, a, b); });
  if (type == "f16x2")
    return updating<u32>([](u32 a, u32 b, u32) { return add_halves<SmallFloat::f16>(a, b); });
  if (type == "bf16x2")
    return updating<u32>([](u32 a, u32 b, u32) { return add_halves<SmallFloat::bf16>(a, b); });
  if (ptx::size_of(type) == 8) return updating<u64>([](u64 a, u64 b, u64) { return a + b; });
  return updating<u32>([](u32 a, u32 b, u32) { return a + b; });
}

// Of 16-bit floats, one or two in a T.
template <SmallFloat format, bool largest, typename T>
Handler extreme_of_halves() {
  return updating<T>([](T a, T b, T) {
    constexpr auto of_two = extreme16<format, largest, false, false>;
    T made = of_two(static_cast<u16>(a), static_cast<u16>(b));
    if constexpr (sizeof(T) == 4) {
      made |= static_cast<T>(of_two(static_cast<u16>(a >> 16), static_cast<u16>(b >> 16))) << 16;
    }
    return made;
  });
}

template <bool largest>
Handler extreme_of_halves(std::string_view type) {
  if (type == "f16") return extreme_of_halves<SmallFloat::f16, largest, u16>();
  if (type == "bf16") return extreme_of_halves<SmallFloat::bf16, largest, u16>();
  if (type == "f16x2") return extreme_of_halves<SmallFloat::f16, largest, u32>();
  if (type == "bf16x2") return extreme_of_halves<SmallFloat::bf16, largest, u32>();
  return nullptr;
}

template <typename F>
Handler on_integer(std::string_view type, F) {
  Handler handler = nullptr;
  with_integer(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    handler = updating<T>([](T a, T b, T c) { return static_cast<T>(F{}(a, b, c)); });
  });
  return handler;
}

Handler exchanging(std::size_t bytes) {
  if (bytes == 16) return updating<u128>([](u128, u128 b, u128) { return b; });
  if (bytes == 8) return updating<u64>([](u64, u64 b, u64) { return b; });
  return updating<u32>([](u32, u32 b, u32) { return b; });
}

Handler comparing(std::size_t bytes) {
  if (bytes == 16) return updating<u128>([](u128 a, u128 b, u128 c) { return a == b ? c : a; });
  if (bytes == 8) return updating<u64>([](u64 a, u64 b, u64 c) { return a == b ? c : a; });
  if (bytes == 2) return updating<u16>([](u16 a, u16 b, u16 c) { return a == b ? c : a; });
  return updating<u32>([](u32 a, u32 b, u32 c) { return a == b ? c : a; });
}

Handler operation_of(Decoder& d, const ptx::Instruction& w, bool shared) {
  const std::string_view type = last_type(w);
  if (w.has("cas")) return comparing(d.bytes_of(type, {2, 4, 8, 16}));
  if (w.has("exch")) return exchanging(d.bytes_of(type, {4, 8, 16}));
  if (w.has("add")) {
    if (!is_float(type)) d.bytes_of(type, {4, 8});
    return adding(type, shared);
  }
  Handler handler = nullptr;
  if (w.has("min")) handler = extreme_of_halves<false>(type);
  if (w.has("max")) handler = extreme_of_halves<true>(type);
  if (handler != nullptr) return handler;
  if (w.has("min")) handler = on_integer(type, [](auto a, auto b, auto) { return std::min(a, b); });
  if (w.has("max")) handler = on_integer(type, [](auto a, auto b, auto) { return std::max(a, b); });
  if (w.has("and")) handler = on_integer(type, [](auto a, auto b, auto) { return a & b; });
  if (w.has("or")) handler = on_integer(type, [](auto a, auto b, auto) { return a | b; });
  if (w.has("xor")) handler = on_integer(type, [](auto a, auto b, auto) { return a ^ b; });
  if (w.has("inc") || w.has("dec")) d.bytes_of(type, {4});
  if (w.has("inc")) {
    handler = updating<u32>([](u32 a, u32 b, u32) { return a >= b ? 0 : a + 1; });
  }
  if (w.has("dec")) {
    handler = updating<u32>([](u32 a, u32 b, u32) { return a == 0 || a > b ? b : a - 1; });
  }
  if (handler == nullptr) d.fail("no such operation");
  return handler;
}

// A vector is an atomic for each element, behind a look at the whole of it. A result may be another
// element's operand, so results wait until all are done.
void update_each(Decoder& d, const ptx::Instruction& w, const Access& whole, Row base,
                 std::size_t first) {
  const bool is_known = w.has("add") || w.has("min") || w.has("max");
  if (!is_known || !is_float(last_type(w)) || whole.bytes > 4) d.fail("not on a vector");
  const ptx::Operand& operands = w.operands[first + 1];
  if (operands.items.size() != whole.elements) d.fail("a vector is needed");
  const Handler handler = operation_of(d, w, false);
  const std::int64_t offset = w.operands[first].offset;
  Instruction& look = d.emit(
      [](Warp& warp, const Instruction& instruction, Mask mask) {
        const std::size_t bytes =
            std::size_t{instruction.access.bytes} * instruction.access.elements;
        for (unsigned lane = 0; lane < lanes; ++lane) {
          if (!is_set(mask, lane)) continue;
          locate(warp, instruction, lane, address_of(warp, instruction, 1, lane), bytes,
                 Use::atomic);
        }
      },
      {no_row, base});
  look.access = whole;
  look.immediate = offset;
  std::vector<Row> old(whole.elements, no_row);
  for (unsigned i = 0; i < whole.elements; ++i) {
    if (first != 0) old[i] = d.temporary(whole.bytes);
    const Row operand = d.source(operands.items[i], whole.bytes, true);
    Instruction& made = d.emit(handler, {old[i], base, operand});
    made.access = whole;
    made.immediate = offset + std::int64_t{i} * whole.bytes;
  }
  if (first == 0) return;
  const ptx::Operand& results = w.operands[0];
  if (results.items.size() != whole.elements) d.fail("a vector is needed");
  for (unsigned i = 0; i < whole.elements; ++i) {
    const Row to = d.result(results.items[i], whole.bytes);
    d.emit(whole.bytes == 2 ? unary<u16, u16>([](u16 value) { return value; })
                            : unary<u32, u32>([](u32 value) { return value; }),
           {to, old[i]});
  }
}

void update(Decoder& d, const ptx::Instruction& w, bool with_result) {
  const std::size_t first = with_result ? 1 : 0;
  const bool compares = w.has("cas");
  d.require(first + 2 + (compares ? 1 : 0));
  if (w.has("async")) d.fail("this instruction is not emulated");
  Access access = access_of(d, w);
  if (access.order == Order::weak) access.order = Order::relaxed;
  if (access.space != ptx::Space::shared) d.mark_communication();
  const ptx::Operand& place = w.operands[first];
  const bool real = is_float(last_type(w));
  const Row base = d.address(base_of(d, place), access.wide_base);
  if (access.elements != 1) return update_each(d, w, access, base, first);
  std::vector<Row> rows{no_row, base, d.source(w.operands[first + 1], access.bytes, real)};
  if (compares) rows.push_back(d.source(w.operands[first + 2], access.bytes, real));
  if (with_result && w.operands[0].kind != ptx::Operand::Kind::none) {
    rows[0] = d.result(w.operands[0], access.bytes, access.is_signed);
  }
  Instruction& made = d.emit(operation_of(d, w, access.space == ptx::Space::shared), rows);
  made.access = access;
  made.immediate = place.offset;
}

void atom(Decoder& d, const ptx::Instruction& w) { update(d, w, true); }
void red(Decoder& d, const ptx::Instruction& w) { update(d, w, false); }

// Memory is sequentially consistent here; only the race check wants to know.
template <bool across>
void fence_all(Warp& warp, const Instruction&, Mask) {
  if (Races* races = warp.block().races()) races->fence(warp.index(), across);
}

void fence(Decoder& d, const ptx::Instruction& w) {
  const bool across = !w.has("cta");
  if (across) d.mark_communication();
  d.emit(across ? fence_all<true> : fence_all<false>, {});
}

}  // namespace

void add_atomic_rules(Rules& rules) {
  rules["atom"] = atom;
  rules["red"] = red;
  rules["fence"] = fence;
  rules["membar"] = fence;
}

}  // namespace cudademo::emulator
