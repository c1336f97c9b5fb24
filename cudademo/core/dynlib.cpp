#include "dynlib.hpp"

#include <dlfcn.h>
#include <link.h>

#include <string_view>
#include <utility>

#include "errors.hpp"

namespace cudademo {

SharedLibrary::SharedLibrary(const std::string& name)
    : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const char* reason = dlerror();
  throw ToolchainError("cannot open " + name + ": " + (reason ? reason : "no reason given"));
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

SharedLibrary::SharedLibrary(SharedLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)) {}

SharedLibrary& SharedLibrary::operator=(SharedLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void* SharedLibrary::symbol(const char* name) const noexcept { return dlsym(handle_, name); }

namespace {

struct Search {
  std::string_view stem;
  std::optional<std::string> found;
};

int visit(dl_phdr_info* info, std::size_t, void* payload) {
  auto& search = *static_cast<Search*>(payload);
  const std::string_view path = info->dlpi_name ? info->dlpi_name : "";
  if (!path.substr(path.rfind('/') + 1).starts_with(search.stem)) return 0;
  search.found = path;
  return 1;
}

}  // namespace

std::optional<std::string> loaded_library(const std::string& stem) {
  Search search{stem, std::nullopt};
  dl_iterate_phdr(visit, &search);
  return std::move(search.found);
}

}  // namespace cudademo
