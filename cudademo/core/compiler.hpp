// Source and options in, Binary out.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "binary.hpp"
#include "nvrtc.hpp"

namespace cudademo {

struct CompileRequest {
  std::string source;
  std::string name;          // the file that diagnostics and line information refer to
  std::string architecture;  // "sm_90", or "compute_90" for PTX alone
  std::map<std::string, std::string> headers;  // include name -> contents
  std::vector<std::string> options;            // besides the architecture
  std::vector<std::string> kernels;            // name expressions
};

// Thrown by compile when `cancelled` asked for it.
class Cancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "the compile was cancelled"; }
};

// Compiles. `cancelled` is asked now and then, from this thread, where NVRTC can stop (12.8 and
// later). Throws CompileError with the log, ToolchainError where NVRTC itself fails, or Cancelled.
Binary compile(const Nvrtc& nvrtc, const CompileRequest& request,
               const std::function<bool()>& cancelled = {});

}  // namespace cudademo
