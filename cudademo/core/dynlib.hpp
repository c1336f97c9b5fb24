// A shared library opened at run time, and the libraries that the process already holds.
#pragma once

#include <optional>
#include <string>

namespace cudademo {

// Owns a dlopen handle. The library stays mapped until the last owner goes.
class SharedLibrary {
 public:
  // Opens `name`, a path or a bare soname. Throws ToolchainError with the loader's words.
  explicit SharedLibrary(const std::string& name);
  ~SharedLibrary();
  SharedLibrary(SharedLibrary&& other) noexcept;
  SharedLibrary& operator=(SharedLibrary&& other) noexcept;
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  // The address of a symbol, or null.
  void* symbol(const char* name) const noexcept;

 private:
  void* handle_;
};

// The path of a library in this process whose file name starts with `stem`; nothing is opened.
std::optional<std::string> loaded_library(const std::string& stem);

}  // namespace cudademo
