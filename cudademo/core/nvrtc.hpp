// NVRTC's functions, as a table filled from one library file.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dynlib.hpp"

namespace cudademo {

namespace nvrtc {

using Result = int;
using Program = struct ProgramHandle*;

inline constexpr Result success = 0;
inline constexpr Result error_compilation = 6;

// X(member, symbol, parameters)
#define CUDADEMO_NVRTC_FUNCTIONS(X)                                                                \
  X(version, nvrtcVersion, (int* major, int* minor))                                               \
  X(architecture_count, nvrtcGetNumSupportedArchs, (int* count))                                   \
  X(architectures, nvrtcGetSupportedArchs, (int* architectures))                                   \
  X(create, nvrtcCreateProgram,                                                                    \
    (Program * program, const char* source, const char* name, int header_count,                    \
     const char* const* headers, const char* const* include_names))                                \
  X(destroy, nvrtcDestroyProgram, (Program * program))                                             \
  X(add_name, nvrtcAddNameExpression, (Program program, const char* expression))                   \
  X(compile, nvrtcCompileProgram, (Program program, int option_count, const char* const* options)) \
  X(lowered_name, nvrtcGetLoweredName,                                                             \
    (Program program, const char* expression, const char** lowered))                               \
  X(log_size, nvrtcGetProgramLogSize, (Program program, std::size_t* size))                        \
  X(log, nvrtcGetProgramLog, (Program program, char* text))                                        \
  X(ptx_size, nvrtcGetPTXSize, (Program program, std::size_t* size))                               \
  X(ptx, nvrtcGetPTX, (Program program, char* text))                                               \
  X(cubin_size, nvrtcGetCUBINSize, (Program program, std::size_t* size))                           \
  X(cubin, nvrtcGetCUBIN, (Program program, char* image))

// Later than 12.0; null where the library lacks it.
#define CUDADEMO_NVRTC_OPTIONAL(X)           \
  X(set_flow_callback, nvrtcSetFlowCallback, \
    (Program program, int (*callback)(void* payload, void* reserved), void* payload))

struct Functions {
#define CUDADEMO_DECLARE(member, symbol, parameters) Result(*member) parameters = nullptr;
  CUDADEMO_NVRTC_FUNCTIONS(CUDADEMO_DECLARE)
  CUDADEMO_NVRTC_OPTIONAL(CUDADEMO_DECLARE)
#undef CUDADEMO_DECLARE
  const char* (*error_string)(Result result) = nullptr;
};

}  // namespace nvrtc

// An opened NVRTC library.
class Nvrtc {
 public:
  // Throws ToolchainError where `path` does not open or lacks a function.
  explicit Nvrtc(std::string path);

  const std::string& path() const noexcept { return path_; }
  std::pair<int, int> version() const noexcept { return version_; }
  // Compute capabilities that it compiles for, ascending: 75, 80, ...
  const std::vector<int>& architectures() const noexcept { return architectures_; }
  const nvrtc::Functions& functions() const noexcept { return functions_; }

  // Throws ToolchainError naming `call`, unless `result` is success.
  void check(nvrtc::Result result, const char* call) const;

 private:
  std::string path_;
  SharedLibrary library_;
  std::optional<SharedLibrary> builtins_;  // NVRTC opens it by name, and finds the one loaded
  nvrtc::Functions functions_;
  std::pair<int, int> version_;
  std::vector<int> architectures_;
};

}  // namespace cudademo
