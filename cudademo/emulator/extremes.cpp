// Floating-point minimum and maximum.
#include <cmath>

#include "extreme.hpp"
#include "float_rules.hpp"

namespace cudademo::emulator {

namespace {

template <bool largest, bool with_nan, bool exclusive>
void extreme_rule(Decoder& d, const ptx::Instruction& w) {
  arithmetic<2>(
      d, w,
      [](auto a, auto b, Rounding) {
        return extreme<decltype(a), largest, with_nan, exclusive>(a, b);
      },
      [](auto format, u16 a, u16 b, u16) {
        return extreme16<decltype(format)::value, largest, with_nan, exclusive>(a, b);
      });
}

template <bool largest, bool with_nan, bool absolute>
Handler extreme_of_three() {
  return three_sources<float>([](float a, float b, float c, Rounding) {
    if (absolute) {
      a = std::abs(a);
      b = std::abs(b);
      c = std::abs(c);
    }
    constexpr auto of_two = extreme<float, largest, with_nan, false>;
    return of_two(of_two(a, b), c);
  });
}

template <bool largest>
void extreme_of_three(Decoder& d, const ptx::Instruction& w) {
  if (last_type(w) != "f32") d.fail("with three sources");
  const bool absolute = w.has("abs");
  const Handler handler = w.has("NaN") ? (absolute ? extreme_of_three<largest, true, true>()
                                                   : extreme_of_three<largest, true, false>())
                                       : (absolute ? extreme_of_three<largest, false, true>()
                                                   : extreme_of_three<largest, false, false>());
  emit(d, w, handler, 4, 3);
}

template <bool largest>
void extreme_rules(Decoder& d, const ptx::Instruction& w) {
  if (w.operands.size() > 3) return extreme_of_three<largest>(d, w);
  const bool exclusive = w.has("xorsign");
  if (w.has("NaN")) {
    return exclusive ? extreme_rule<largest, true, true>(d, w)
                     : extreme_rule<largest, true, false>(d, w);
  }
  if (exclusive)
    extreme_rule<largest, false, true>(d, w);
  else
    extreme_rule<largest, false, false>(d, w);
}

}  // namespace

void float_min(Decoder& d, const ptx::Instruction& w) { extreme_rules<false>(d, w); }
void float_max(Decoder& d, const ptx::Instruction& w) { extreme_rules<true>(d, w); }

}  // namespace cudademo::emulator
