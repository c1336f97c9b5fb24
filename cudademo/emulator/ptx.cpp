#include "ptx.hpp"

#include <algorithm>
#include <utility>

#include "parser.hpp"

namespace cudademo::emulator::ptx {

bool Instruction::has(std::string_view modifier) const noexcept {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

std::size_t size_of(std::string_view type) noexcept {
  constexpr std::pair<std::string_view, std::size_t> sizes[] = {
      {"b8", 1},    {"u8", 1},     {"s8", 1},    {"b16", 2},    {"u16", 2},        {"s16", 2},
      {"f16", 2},   {"bf16", 2},   {"b32", 4},   {"u32", 4},    {"s32", 4},        {"f32", 4},
      {"f16x2", 4}, {"bf16x2", 4}, {"tf32", 4},  {"b64", 8},    {"u64", 8},        {"s64", 8},
      {"f64", 8},   {"f32x2", 8},  {"b128", 16}, {"texref", 8}, {"samplerref", 8}, {"surfref", 8},
  };
  for (const auto& [name, size] : sizes) {
    if (name == type) return size;
  }
  return 0;
}

bool is_type(std::string_view modifier) noexcept {
  const std::size_t width = modifier.find_first_not_of("usbfet");
  return modifier == "pred" ||
         (width != 0 && width != std::string_view::npos && modifier[width] >= '1' &&
          modifier[width] <= '9' &&
          modifier.find_first_not_of("0123456789mx", width) == std::string_view::npos);
}

Module parse(std::string text) {
  // Views survive the move only where the text is on the heap.
  if (text.size() < 64) text.resize(64, ' ');
  return Parser(std::move(text)).run();
}

}  // namespace cudademo::emulator::ptx
