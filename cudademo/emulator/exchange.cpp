// What the lanes of a warp do together: shuffles, votes, matches and reductions.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "block.hpp"
#include "extreme.hpp"
#include "lanes.hpp"

namespace cudademo::emulator {

namespace {

// Calls `use(mask, members)` for each group of lanes that name the same members, once all of those
// are here. Groups of one warp may be at the same instruction, each for itself.
template <typename F>
void for_each_group(Warp& warp, Row members, Mask mask, F use) {
  const u32* given = row<u32>(warp, members);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane) || is_set(given[lane], lane)) continue;
    warp.fail(kind::invalid, lane,
              "lane " + std::to_string(lane) + " is not in the mask of lanes that it gives");
  }
  std::array<Mask, lanes> incomplete;
  std::size_t count = 0;
  for (Mask left = mask; left != 0;) {
    const Mask wanted = given[first_lane(left)];
    Mask group = 0;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (is_set(left, lane) && given[lane] == wanted) group |= Mask{1} << lane;
    }
    left &= ~group;
    if ((wanted & warp.live() & ~group) == 0)
      use(group, wanted);
    else
      incomplete[count++] = group;
  }
  for (std::size_t i = 0; i < count; ++i) {
    Mask group = incomplete[i];
    const Mask wanted = given[first_lane(group)];
    const bool is_alone = group == mask || group == warp.active();
    if (!is_alone) {
      warp.postpone(group);
    } else if (warp.gather(wanted, group)) {
      use(group, wanted);
    }
  }
}

// A handler from what one group does; `members` is the place of their row.
template <auto group, std::size_t members>
void grouped(Warp& warp, const Instruction& instruction, Mask mask) {
  for_each_group(warp, instruction.rows[members], mask, [&](Mask here, Mask wanted) {
    if (Races* races = warp.block().races()) races->meet(warp.index(), here);
    group(warp, instruction, here, wanted);
  });
}

enum class Shuffle : std::uint8_t { up, down, bfly, idx };

template <Shuffle mode>
void shuffle_group(Warp& warp, const Instruction& instruction, Mask mask, Mask) {
  const u32* a = row<u32>(warp, instruction.rows[2]);
  const u32* b = row<u32>(warp, instruction.rows[3]);
  const u32* c = row<u32>(warp, instruction.rows[4]);
  u32 values[lanes];
  Mask inside = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const u32 by = b[lane] & 31;
    const u32 clamp = c[lane] & 31;
    const u32 segment = c[lane] >> 8 & 31;
    const u32 last = (lane & segment) | (clamp & ~segment);
    const u32 first = lane & segment;
    u32 from = lane;
    bool is_inside = false;
    if (mode == Shuffle::up) {
      from = lane - by;
      is_inside = static_cast<std::int32_t>(from) >= static_cast<std::int32_t>(last);
    } else if (mode == Shuffle::down) {
      from = lane + by;
      is_inside = from <= last;
    } else if (mode == Shuffle::bfly) {
      from = lane ^ by;
      is_inside = from <= last;
    } else {
      from = first | (by & ~segment);
      is_inside = from <= last;
    }
    if (!is_inside) from = lane;
    values[lane] = a[from & 31];
    inside |= Mask{is_inside} << lane;
  }
  put(warp, instruction.rows[0], values, mask);
  if (instruction.rows[1] != no_row) put_mask(warp, instruction.rows[1], inside, mask);
}

void shfl(Decoder& d, const ptx::Instruction& w) {
  if (!w.has("sync")) d.fail("without .sync");
  d.require(5);
  const ptx::Operand& to = w.operands[0];
  const bool pair = to.kind == ptx::Operand::Kind::pair;
  const Row a = d.source(w.operands[1], 4);
  const Row b = d.source(w.operands[2], 4);
  const Row c = d.source(w.operands[3], 4);
  const Row members = d.source(w.operands[4], 4);
  const Row value = d.result(pair ? to.items[0] : to, 4);
  const Row inside = pair ? d.result(to.items[1], 0) : no_row;
  const Handler handler = w.has("up")     ? grouped<shuffle_group<Shuffle::up>, 5>
                          : w.has("down") ? grouped<shuffle_group<Shuffle::down>, 5>
                          : w.has("bfly") ? grouped<shuffle_group<Shuffle::bfly>, 5>
                                          : grouped<shuffle_group<Shuffle::idx>, 5>;
  d.emit(handler, {value, inside, a, b, c, members});
}

enum class Vote : std::uint8_t { all, any, uni, ballot };

void vote_group(Warp& warp, const Instruction& instruction, Mask mask, Mask members) {
  const Mask among = members & warp.live();
  const Mask values = predicate(warp, instruction.rows[1]) & among;
  switch (static_cast<Vote>(instruction.detail)) {
    case Vote::all:
      return put_mask(warp, instruction.rows[0], values == among ? all_lanes : 0, mask);
    case Vote::any:
      return put_mask(warp, instruction.rows[0], values != 0 ? all_lanes : 0, mask);
    case Vote::uni:
      return put_mask(warp, instruction.rows[0], values == among || values == 0 ? all_lanes : 0,
                      mask);
    case Vote::ballot: {
      u32 made[lanes];
      std::fill(made, made + lanes, values);
      return put(warp, instruction.rows[0], made, mask);
    }
  }
}

void vote(Decoder& d, const ptx::Instruction& w) {
  if (!w.has("sync")) d.fail("without .sync");
  d.require(3);
  const Row a = d.source(w.operands[1], 0);
  const Row members = d.source(w.operands[2], 4);
  const Vote which = w.has("all")   ? Vote::all
                     : w.has("any") ? Vote::any
                     : w.has("uni") ? Vote::uni
                                    : Vote::ballot;
  const Row result = d.result(w.operands[0], which == Vote::ballot ? 4 : 0);
  d.emit(grouped<vote_group, 2>, {result, a, members}).detail = static_cast<std::uint8_t>(which);
}

template <typename T, bool all>
void match_group(Warp& warp, const Instruction& instruction, Mask mask, Mask members) {
  const T* a = row<T>(warp, instruction.rows[2]);
  const Mask among = members & warp.live();
  u32 values[lanes];
  Mask same = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    Mask equal = 0;
    for (unsigned other = 0; other < lanes; ++other) {
      if (is_set(among, other) && a[other] == a[lane]) equal |= Mask{1} << other;
    }
    const bool is_all = equal == among;
    values[lane] = all ? (is_all ? among : 0) : equal;
    same |= Mask{is_all} << lane;
  }
  put(warp, instruction.rows[0], values, mask);
  if (instruction.rows[1] != no_row) put_mask(warp, instruction.rows[1], same, mask);
}

void match(Decoder& d, const ptx::Instruction& w) {
  d.require(3);
  const ptx::Operand& to = w.operands[0];
  const bool pair = to.kind == ptx::Operand::Kind::pair;
  const std::size_t bytes = d.bytes_of(last_type(w), {4, 8});
  const Row a = d.source(w.operands[1], bytes);
  const Row members = d.source(w.operands[2], 4);
  const Row value = d.result(pair ? to.items[0] : to, 4);
  const Row same = pair ? d.result(to.items[1], 0) : no_row;
  const Handler handler =
      w.has("all")
          ? (bytes == 8 ? grouped<match_group<u64, true>, 3> : grouped<match_group<u32, true>, 3>)
          : (bytes == 8 ? grouped<match_group<u64, false>, 3>
                        : grouped<match_group<u32, false>, 3>);
  d.emit(handler, {value, same, a, members});
}

void activemask(Decoder& d, const ptx::Instruction& w) {
  d.require(1);
  d.emit(
      [](Warp& warp, const Instruction& instruction, Mask mask) {
        u32 values[lanes];
        std::fill(values, values + lanes, mask);
        put(warp, instruction.rows[0], values, mask);
      },
      {d.result(w.operands[0], 4)});
}

// `absolute` is for floats, whose result for one lane alone is not its value either.
template <bool largest, bool with_nan, bool absolute>
float extreme_of_floats(float a, float b) {
  return absolute ? extreme<float, largest, with_nan, false>(std::abs(a), std::abs(b))
                  : extreme<float, largest, with_nan, false>(a, b);
}

template <typename T, typename F>
Handler reducing(F) {
  return grouped<[](Warp& warp, const Instruction& instruction, Mask mask, Mask members) {
    const T* a = row<T>(warp, instruction.rows[1]);
    const Mask among = members & warp.live();
    T value = a[first_lane(among)];
    if constexpr (std::is_same_v<T, float>) value = F{}(value, value);
    for (unsigned lane = first_lane(among) + 1; lane < lanes; ++lane) {
      if (is_set(among, lane)) value = F{}(value, a[lane]);
    }
    T values[lanes];
    std::fill(values, values + lanes, value);
    put(warp, instruction.rows[0], values, mask);
  },
                 2>;
}

template <bool largest, bool with_nan>
Handler reducing_floats(bool absolute) {
  return absolute ? reducing<float>([](float a, float b) {
    return extreme_of_floats<largest, with_nan, true>(a, b);
  })
                  : reducing<float>([](float a, float b) {
                      return extreme_of_floats<largest, with_nan, false>(a, b);
                    });
}

Handler reducing_floats(const ptx::Instruction& w) {
  const bool absolute = w.has("abs");
  if (w.has("min")) {
    return w.has("NaN") ? reducing_floats<false, true>(absolute)
                        : reducing_floats<false, false>(absolute);
  }
  if (w.has("max")) {
    return w.has("NaN") ? reducing_floats<true, true>(absolute)
                        : reducing_floats<true, false>(absolute);
  }
  return nullptr;
}

void redux(Decoder& d, const ptx::Instruction& w) {
  d.require(3);
  const bool is_signed = is_signed_type(last_type(w));
  using i32 = std::int32_t;
  Handler handler = nullptr;
  if (w.has("add")) handler = reducing<u32>([](u32 a, u32 b) { return a + b; });
  if (w.has("and")) handler = reducing<u32>([](u32 a, u32 b) { return a & b; });
  if (w.has("or")) handler = reducing<u32>([](u32 a, u32 b) { return a | b; });
  if (w.has("xor")) handler = reducing<u32>([](u32 a, u32 b) { return a ^ b; });
  if (w.has("min")) {
    handler = is_signed ? reducing<i32>([](i32 a, i32 b) { return std::min(a, b); })
                        : reducing<u32>([](u32 a, u32 b) { return std::min(a, b); });
  }
  if (w.has("max")) {
    handler = is_signed ? reducing<i32>([](i32 a, i32 b) { return std::max(a, b); })
                        : reducing<u32>([](u32 a, u32 b) { return std::max(a, b); });
  }
  const bool real = last_type(w) == "f32";
  if (real) handler = reducing_floats(w);
  if (handler == nullptr) d.fail("no such operation");
  const Row a = d.source(w.operands[1], 4, real);
  const Row members = d.source(w.operands[2], 4);
  d.emit(handler, {d.result(w.operands[0], 4), a, members});
}

// The lowest of the members is the one.
void elect(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  const ptx::Operand& to = w.operands[0];
  if (to.kind != ptx::Operand::Kind::pair) d.fail("a result and a predicate are needed");
  const Row members = d.source(w.operands[1], 4);
  const Row lane = d.result(to.items[0], 4);
  const Row chosen = d.result(to.items[1], 0);
  d.emit(grouped<[](Warp& warp, const Instruction& instruction, Mask mask, Mask wanted) {
           const u32 first = first_lane(wanted & warp.live());
           u32 values[lanes];
           std::fill(values, values + lanes, first);
           put(warp, instruction.rows[0], values, mask);
           put_mask(warp, instruction.rows[1], Mask{1} << first, mask);
         },
                 2>,
         {lane, chosen, members});
}

void bar_warp(Warp&, const Instruction&, Mask, Mask) {}

}  // namespace

void barrier_of_warp(Decoder& d, const ptx::Instruction& w) {
  d.require(1);
  d.emit(grouped<bar_warp, 0>, {d.source(w.operands[0], 4)});
}

void add_warp_rules(Rules& rules) {
  rules["shfl"] = shfl;
  rules["vote"] = vote;
  rules["match"] = match;
  rules["activemask"] = activemask;
  rules["redux"] = redux;
  rules["elect"] = elect;
}

}  // namespace cudademo::emulator
