// What the rules of integers share: widths, and rules of one and of two sources.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lanes.hpp"

namespace cudademo::emulator {

using i64 = std::int64_t;

template <typename T>
using Bits = std::make_unsigned_t<T>;

// The double width.
template <typename T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, u32>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, i64, u64>,
                       std::conditional_t<std::is_signed_v<T>, i128, u128>>>;

template <typename T>
T low(T a, T b) {
  return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b));
}

template <typename T>
T high(T a, T b) {
  return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (sizeof(T) * 8));
}

template <typename T>
T plus(T a, T b) {
  return static_cast<T>(static_cast<Bits<T>>(a) + static_cast<Bits<T>>(b));
}

template <typename T>
T saturate(i64 value) {
  return static_cast<T>(
      std::clamp<i64>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

inline void two(Decoder& d, const ptx::Instruction& w, Handler handler, std::size_t bytes) {
  d.require(2);
  const bool is_signed = is_signed_type(last_type(w));
  const Row a = d.source(w.operands[1], bytes);
  d.emit(handler, {d.result(w.operands[0], bytes, is_signed), a});
}

inline void three(Decoder& d, const ptx::Instruction& w, Handler handler, std::size_t bytes) {
  d.require(3);
  const Row a = d.source(w.operands[1], bytes);
  const Row b = d.source(w.operands[2], bytes);
  d.emit(handler, {d.result(w.operands[0], bytes, is_signed_type(last_type(w))), a, b});
}

// Emits what `choose`, given the type's tag, hands back, for two sources of that type.
template <typename F>
void two_of_type(Decoder& d, const ptx::Instruction& w, F choose) {
  if (!with_integer(last_type(w), [&](auto tag) {
        three(d, w, choose(tag), sizeof(typename decltype(tag)::Type));
      })) {
    d.fail("not for this type");
  }
}

template <typename F>
void one_of_type(Decoder& d, const ptx::Instruction& w, F choose) {
  if (!with_integer(last_type(w), [&](auto tag) {
        two(d, w, choose(tag), sizeof(typename decltype(tag)::Type));
      })) {
    d.fail("not for this type");
  }
}

// Two 16-bit integers side by side: `lane` works on each.
template <typename T, typename F>
u32 halves(u32 a, u32 b, F lane) {
  const auto low_half = static_cast<u16>(lane(static_cast<T>(a), static_cast<T>(b)));
  const auto high_half = static_cast<u16>(lane(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
  return low_half | static_cast<u32>(high_half) << 16;
}

}  // namespace cudademo::emulator
