// The errors of the core. Each carries the facts known where it is thrown; python/raise.cpp alone
// knows how each reaches Python.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace cudademo {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The source was refused by the compiler. `log` is NVRTC's own text.
class CompileError : public Error {
 public:
  CompileError(const std::string& message, std::string log)
      : Error(message), log_(std::move(log)) {}

  const std::string& log() const noexcept { return log_; }

 private:
  std::string log_;
};

// An argument of a launch does not fit the kernel's parameter. `position` counts from 0; -1 means
// the list as a whole.
class ArgumentError : public Error {
 public:
  ArgumentError(std::string kernel, int position, std::string expected, std::string got);

  const std::string& kernel() const noexcept { return kernel_; }
  int position() const noexcept { return position_; }
  const std::string& expected() const noexcept { return expected_; }
  const std::string& got() const noexcept { return got_; }

 private:
  std::string kernel_;
  int position_;
  std::string expected_;
  std::string got_;
};

// A call of the driver failed. `call` is its name, `code` the driver's number, `name` the driver's
// word for it.
class LaunchError : public Error {
 public:
  LaunchError(const std::string& message, std::string call, int code, std::string name)
      : Error(message), call_(std::move(call)), code_(code), name_(std::move(name)) {}

  const std::string& call() const noexcept { return call_; }
  int code() const noexcept { return code_; }
  const std::string& name() const noexcept { return name_; }

 private:
  std::string call_;
  int code_;
  std::string name_;
};

// The emulator found a fault in a kernel. Positions are the kernel's own; `file` and `line` the
// user's.
class EmulatorError : public Error {
 public:
  struct Facts {
    std::string kind;  // "out of bounds", "race": emulator/fault.hpp lists them
    std::string kernel;
    std::string array;
    std::string file;
    int line;
    std::array<std::uint32_t, 3> block;
    std::array<std::uint32_t, 3> thread;
    std::uint64_t address;
    std::uint64_t bytes;
  };
  EmulatorError(const std::string& message, Facts facts)
      : Error(message), facts_(std::move(facts)) {}

  const Facts& facts() const noexcept { return facts_; }

 private:
  Facts facts_;
};

// NVRTC, its headers or the driver are not there, or do not fit together.
class ToolchainError : public Error {
 public:
  using Error::Error;
};

}  // namespace cudademo
