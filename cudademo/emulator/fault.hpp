// What a kernel did wrong, with all that its author needs to find it.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace cudademo::emulator {

// The kinds of faults, as EmulatorError.kind gives them.
namespace kind {
inline constexpr const char* out_of_bounds = "out of bounds";
inline constexpr const char* freed = "use after free";
inline constexpr const char* misaligned = "misaligned";
inline constexpr const char* uninitialised = "uninitialised read";
inline constexpr const char* race = "race";
inline constexpr const char* barrier = "barrier";
inline constexpr const char* deadlock = "deadlock";
inline constexpr const char* budget = "endless loop";
inline constexpr const char* trap = "trap";
inline constexpr const char* assertion = "assertion";
inline constexpr const char* unsupported = "unsupported";
inline constexpr const char* invalid = "invalid operation";
}  // namespace kind

struct Report {
  const char* kind = "";
  std::string what;    // a sentence without the place
  std::string kernel;  // its lowered name
  bool has_thread = false;
  std::array<std::uint32_t, 3> block{};
  std::array<std::uint32_t, 3> thread{};
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // of the access; 0 where there was none
  std::string array;        // what it was nearest to: "argument 1, f32 of shape (10,)"
  std::string file;         // the user's
  int line = 0;
};

// Ends a launch. Never leaves the emulator.
class Fault : public std::exception {
 public:
  explicit Fault(Report made) : report(std::move(made)) {}
  const char* what() const noexcept override { return report.what.c_str(); }

  Report report;
};

}  // namespace cudademo::emulator
