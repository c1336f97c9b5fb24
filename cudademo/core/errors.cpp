#include "errors.hpp"

namespace cudademo {

namespace {

std::string describe(const std::string& kernel, int position, const std::string& expected,
                     const std::string& got) {
  std::string text = kernel;
  if (position >= 0) text += ", argument " + std::to_string(position);
  text += ": expected " + expected + ", got " + got;
  return text;
}

}  // namespace

ArgumentError::ArgumentError(std::string kernel, int position, std::string expected,
                             std::string got)
    : Error(describe(kernel, position, expected, got)),
      kernel_(std::move(kernel)),
      position_(position),
      expected_(std::move(expected)),
      got_(std::move(got)) {}

}  // namespace cudademo
