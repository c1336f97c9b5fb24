// What the rules of floating point share: rounding, flushing and saturation around a function of
// f32, f64, two f32, and one or two of 16 bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "extreme.hpp"
#include "float.hpp"
#include "lanes.hpp"
#include "numeric.hpp"

namespace cudademo::emulator {

// What Instruction::detail holds here.
inline constexpr unsigned rounding_bits = 7;
inline constexpr unsigned flushes = 8;
inline constexpr unsigned saturates = 16;
inline constexpr unsigned clips = 32;  // .relu

inline Rounding rounding_of(unsigned detail) {
  return static_cast<Rounding>(detail & rounding_bits);
}

inline unsigned detail_of(const ptx::Instruction& w) {
  Rounding rounding = Rounding::nearest_even;
  if (w.has("rz")) rounding = Rounding::zero;
  if (w.has("rm")) rounding = Rounding::down;
  if (w.has("rp")) rounding = Rounding::up;
  return static_cast<unsigned>(rounding) | (w.has("ftz") ? flushes : 0) |
         (w.has("sat") ? saturates : 0) | (w.has("relu") ? clips : 0);
}

inline float flush(float value, unsigned detail) {
  return (detail & flushes) != 0 ? flush_subnormal(value) : value;
}
inline double flush(double value, unsigned) { return value; }

template <typename T>
T finish(T value, unsigned detail) {
  value = flush(value, detail);
  if ((detail & saturates) != 0) value = value > T{0} ? std::min(value, T{1}) : T{0};
  return value;
}

template <typename T, typename F>
Handler one_source(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const T* a = row<T>(warp, instruction.rows[1]);
    const unsigned detail = instruction.detail;
    T values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      values[lane] = finish(F{}(flush(a[lane], detail), rounding_of(detail)), detail);
    }
    put(warp, instruction.rows[0], values, mask);
  };
}

template <typename T, typename F>
Handler two_sources(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const T* a = row<T>(warp, instruction.rows[1]);
    const T* b = row<T>(warp, instruction.rows[2]);
    const unsigned detail = instruction.detail;
    T values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      values[lane] =
          finish(F{}(flush(a[lane], detail), flush(b[lane], detail), rounding_of(detail)), detail);
    }
    put(warp, instruction.rows[0], values, mask);
  };
}

template <typename T, typename F>
Handler three_sources(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const T* a = row<T>(warp, instruction.rows[1]);
    const T* b = row<T>(warp, instruction.rows[2]);
    const T* c = row<T>(warp, instruction.rows[3]);
    const unsigned detail = instruction.detail;
    T values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      values[lane] = finish(F{}(flush(a[lane], detail), flush(b[lane], detail),
                                flush(c[lane], detail), rounding_of(detail)),
                            detail);
    }
    put(warp, instruction.rows[0], values, mask);
  };
}

// Two f32 side by side in 64 bits.
template <unsigned sources, typename F>
Handler pairs_of_singles(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const float* a = row<float>(warp, instruction.rows[1]);
    const float* b = row<float>(warp, instruction.rows[2]);
    const float* c = sources > 2 ? row<float>(warp, instruction.rows[3]) : a;
    const unsigned detail = instruction.detail;
    u64 values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      u32 halves[2];
      for (unsigned i = 0; i < 2; ++i) {
        const float x = flush(a[2 * lane + i], detail);
        const float y = flush(b[2 * lane + i], detail);
        float made;
        if constexpr (sources == 2)
          made = F{}(x, y, rounding_of(detail));
        else
          made = F{}(x, y, flush(c[2 * lane + i], detail), rounding_of(detail));
        halves[i] = std::bit_cast<u32>(finish(made, detail));
      }
      values[lane] = halves[0] | u64{halves[1]} << 32;
    }
    put(warp, instruction.rows[0], values, mask);
  };
}

// ---- 16 bits ----

inline constexpr SmallFloat f16 = SmallFloat::f16;
inline constexpr SmallFloat bf16 = SmallFloat::bf16;

constexpr u16 one_of(SmallFloat format) { return format == f16 ? 0x3c00 : 0x3f80; }

inline u16 flush16(SmallFloat format, u16 bits, unsigned detail) {
  return (detail & flushes) != 0 && format == f16 ? flush_subnormal_f16(bits) : bits;
}

inline u16 finish16(SmallFloat format, u16 bits, unsigned detail) {
  bits = flush16(format, bits, detail);
  if ((detail & saturates) != 0) {
    if (is_nan(format, bits) || (bits & 0x8000) != 0)
      bits = 0;
    else if (bits > one_of(format))
      bits = one_of(format);
  }
  if ((detail & clips) != 0) {
    if (is_nan(format, bits))
      bits = 0x7fff;
    else if ((bits & 0x8000) != 0)
      bits = 0;
  }
  return bits;
}

// F works on the bits of up to three halves; T is one or two of them.
template <typename T, SmallFloat format, unsigned sources, typename F>
Handler sixteen(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    const T* a = row<T>(warp, instruction.rows[1]);
    const T* b = sources > 1 ? row<T>(warp, instruction.rows[2]) : a;
    const T* c = sources > 2 ? row<T>(warp, instruction.rows[3]) : a;
    const unsigned detail = instruction.detail;
    const auto half = [detail](T x, T y, T z) {
      return finish16(format,
                      F{}(flush16(format, static_cast<u16>(x), detail),
                          flush16(format, static_cast<u16>(y), detail),
                          flush16(format, static_cast<u16>(z), detail)),
                      detail);
    };
    T values[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      T made = half(a[lane], b[lane], c[lane]);
      if constexpr (sizeof(T) == 4) {
        made |= static_cast<T>(half(a[lane] >> 16, b[lane] >> 16, c[lane] >> 16)) << 16;
      }
      values[lane] = made;
    }
    put(warp, instruction.rows[0], values, mask);
  };
}

template <SmallFloat format, unsigned sources, typename F>
Handler sixteen_of(bool packed, F f) {
  return packed ? sixteen<u32, format, sources>(f) : sixteen<u16, format, sources>(f);
}

inline void emit(Decoder& d, const ptx::Instruction& w, Handler handler, std::size_t bytes,
                 std::size_t sources) {
  d.require(sources + 1);
  std::vector<Row> rows{no_row};
  for (std::size_t i = 1; i <= sources; ++i) rows.push_back(d.source(w.operands[i], bytes, true));
  rows[0] = d.result(w.operands[0], bytes);
  d.emit(handler, rows).detail = static_cast<std::uint8_t>(detail_of(w));
}

// One lambda for f32 and f64, generic, with a rounding; and one for the 16-bit ones, given a
// format's tag and bits.
template <SmallFloat format>
struct Format {
  static constexpr SmallFloat value = format;
};

template <unsigned sources, typename F, typename H>
inline void arithmetic(Decoder& d, const ptx::Instruction& w, F full, H half) {
  const std::string_view type = last_type(w);
  if (type == "f32" || type == "f64") {
    const auto choose = [&]<typename T>(Tag<T>) {
      if constexpr (sources == 1)
        return one_source<T>(full);
      else if constexpr (sources == 2)
        return two_sources<T>(full);
      else
        return three_sources<T>(full);
    };
    if (type == "f32")
      emit(d, w, choose(Tag<float>()), 4, sources);
    else
      emit(d, w, choose(Tag<double>()), 8, sources);
    return;
  }
  if (type == "f32x2") {
    if constexpr (sources == 1) {
      d.fail("not for this type");
    } else {
      return emit(d, w, pairs_of_singles<sources>(full), 8, sources);
    }
  }
  const bool packed = type.ends_with("x2");
  const auto choose = [&]<SmallFloat format>(Format<format>) {
    return sixteen_of<format, sources>(
        packed, [](u16 a, u16 b, u16 c) { return H{}(Format<format>(), a, b, c); });
  };
  static_cast<void>(half);
  emit(d, w, type.starts_with('b') ? choose(Format<bf16>()) : choose(Format<f16>()), packed ? 4 : 2,
       sources);
}

inline constexpr u32 nan_bits = 0x7fffffff;

template <typename T>
T canonical(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::isnan(value) ? std::bit_cast<float>(nan_bits) : value;
  } else {
    return value;
  }
}

}  // namespace cudademo::emulator
