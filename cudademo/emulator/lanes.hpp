// Handlers from functions of one lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "decoder.hpp"
#include "program.hpp"
#include "warp.hpp"

namespace cudademo::emulator {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
__extension__ using i128 = __int128;
__extension__ using u128 = unsigned __int128;

// Rows hold bits: the emulator is built without strict aliasing.
template <typename T>
T* row(Warp& warp, Row at) noexcept {
  return reinterpret_cast<T*>(warp.rows() + at);
}

inline Mask& predicate(Warp& warp, Row at) noexcept { return *row<Mask>(warp, at); }

template <typename T>
void put(Warp& warp, Row at, const T* values, Mask mask) noexcept {
  T* to = row<T>(warp, at);
  if (mask == all_lanes) {
    std::memcpy(to, values, sizeof(T) * lanes);
    return;
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (is_set(mask, lane)) to[lane] = values[lane];
  }
}

inline void put_mask(Warp& warp, Row at, Mask values, Mask mask) noexcept {
  Mask& to = predicate(warp, at);
  to = (to & ~mask) | (values & mask);
}

// d = f(a), f(a, b), f(a, b, c): F is a lambda without captures.
template <typename D, typename A, typename F>
Handler unary(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const A* a = row<A>(warp, instruction.rows[1]);
    D d[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) d[lane] = F{}(a[lane]);
    put(warp, instruction.rows[0], d, mask);
  };
}

template <typename D, typename A, typename B, typename F>
Handler binary(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const A* a = row<A>(warp, instruction.rows[1]);
    const B* b = row<B>(warp, instruction.rows[2]);
    D d[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) d[lane] = F{}(a[lane], b[lane]);
    put(warp, instruction.rows[0], d, mask);
  };
}

template <typename D, typename A, typename B, typename C, typename F>
Handler ternary(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const A* a = row<A>(warp, instruction.rows[1]);
    const B* b = row<B>(warp, instruction.rows[2]);
    const C* c = row<C>(warp, instruction.rows[3]);
    D d[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) d[lane] = F{}(a[lane], b[lane], c[lane]);
    put(warp, instruction.rows[0], d, mask);
  };
}

template <typename T>
struct Tag {
  using Type = T;
};

// Calls `use` with the tag of an integer type's name; false where it is none.
template <typename F>
bool with_integer(std::string_view type, F use) {
  if (type == "u32" || type == "b32")
    use(Tag<std::uint32_t>());
  else if (type == "s32")
    use(Tag<std::int32_t>());
  else if (type == "u64" || type == "b64")
    use(Tag<std::uint64_t>());
  else if (type == "s64")
    use(Tag<std::int64_t>());
  else if (type == "u16" || type == "b16")
    use(Tag<std::uint16_t>());
  else if (type == "s16")
    use(Tag<std::int16_t>());
  else
    return false;
  return true;
}

// The last of an instruction's types, or the one that so many others follow. Modifiers may stand
// behind it: CUDA's own headers write min.s16x2.relu.
inline std::string_view last_type(const ptx::Instruction& written, std::size_t followed_by = 0) {
  for (std::size_t i = written.modifiers.size(); i-- > 0;) {
    if (!ptx::is_type(written.modifiers[i])) continue;
    if (followed_by-- == 0) return written.modifiers[i];
  }
  return {};
}

inline bool is_signed_type(std::string_view type) { return !type.empty() && type.front() == 's'; }

}  // namespace cudademo::emulator
