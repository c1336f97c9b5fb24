#include "nvrtc.hpp"

#include <filesystem>
#include <system_error>

#include "errors.hpp"
#include "handlers.hpp"

namespace cudademo {

namespace {

template <typename FunctionPointer>
void resolve(const SharedLibrary& library, const std::string& path, FunctionPointer& member,
             const char* symbol, bool required) {
  member = reinterpret_cast<FunctionPointer>(library.symbol(symbol));
  if (member == nullptr && required) {
    throw ToolchainError(path + " has no " + symbol +
                         "; cudademo needs NVRTC 12.0 or later: pip install 'cudademo[cu13]'");
  }
}

nvrtc::Functions load(const SharedLibrary& library, const std::string& path) {
  nvrtc::Functions table;
#define CUDADEMO_REQUIRED(member, symbol, parameters) \
  resolve(library, path, table.member, #symbol, true);
#define CUDADEMO_OPTIONAL(member, symbol, parameters) \
  resolve(library, path, table.member, #symbol, false);
  CUDADEMO_NVRTC_FUNCTIONS(CUDADEMO_REQUIRED)
  CUDADEMO_NVRTC_OPTIONAL(CUDADEMO_OPTIONAL)
#undef CUDADEMO_REQUIRED
#undef CUDADEMO_OPTIONAL
  resolve(library, path, table.error_string, "nvrtcGetErrorString", true);
  return table;
}

// The builtins library of NVRTC's own folder, where it is there. NVRTC itself looks on the loader's
// path, and only some builds beside themselves.
std::optional<SharedLibrary> open_builtins(const std::filesystem::path& nvrtc,
                                           std::pair<int, int> version) {
  const std::string name = "libnvrtc-builtins.so." + std::to_string(version.first) + "." +
                           std::to_string(version.second);
  const std::filesystem::path beside = nvrtc.parent_path() / name;
  std::error_code ignored;
  if (!nvrtc.has_parent_path() || !std::filesystem::exists(beside, ignored)) return std::nullopt;
  return SharedLibrary(beside.string());
}

}  // namespace

Nvrtc::Nvrtc(std::string path)
    : path_(std::move(path)), library_(path_), functions_(load(library_, path_)) {
  check(functions_.version(&version_.first, &version_.second), "nvrtcVersion");
  builtins_ = open_builtins(path_, version_);
  // Up to 13.0 its front end installs handlers for SIGINT and SIGTERM that end the process with
  // status 4 (seen with 12.8, 12.9 and 13.0; not with 13.1 to 13.5).
  if (version_ < std::pair(13, 1)) keep_signals_from(reinterpret_cast<void*>(functions_.compile));
  int count = 0;
  check(functions_.architecture_count(&count), "nvrtcGetNumSupportedArchs");
  architectures_.resize(static_cast<std::size_t>(count));
  check(functions_.architectures(architectures_.data()), "nvrtcGetSupportedArchs");
}

void Nvrtc::check(nvrtc::Result result, const char* call) const {
  if (result == nvrtc::success) return;
  throw ToolchainError(std::string(call) + " failed: " + functions_.error_string(result) + " (" +
                       std::to_string(result) + ", " + path_ + ")");
}

}  // namespace cudademo
