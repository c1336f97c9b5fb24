#include "module.hpp"

#include <mutex>
#include <utility>

#include "errors.hpp"

namespace cudademo {

Module::Module(const Binary& binary, int ordinal) : driver_(driver::functions(ordinal)) {
  const std::string& image = ordinal == driver::emulator_ordinal ? binary.ptx : binary.image();
  driver::check(
      driver_,
      driver_.library_load_data(&library_, image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      "cuLibraryLoadData", "the image was compiled for " + binary.architecture);
}

Module::~Module() {
  // Refused once the driver is down at exit: nothing to do about it then.
  if (library_ != nullptr) driver_.library_unload(library_);
}

driver::Kernel Module::kernel(const std::string& lowered_name) const {
  driver::Kernel kernel = nullptr;
  driver::check(driver_, driver_.library_get_kernel(&kernel, library_, lowered_name.c_str()),
                "cuLibraryGetKernel", "the kernel asked for is " + lowered_name);
  return kernel;
}

std::shared_ptr<const Module> resident_module(const std::string& digest, const Binary& binary,
                                              int ordinal) {
  using Key = std::pair<std::string, bool>;
  static auto* modules = new std::map<Key, std::shared_ptr<const Module>>();
  const Key key{digest, ordinal == driver::emulator_ordinal};
  static std::mutex guard;
  {
    const std::lock_guard lock(guard);
    if (const auto found = modules->find(key); found != modules->end()) return found->second;
  }
  auto module =
      std::make_shared<const Module>(binary, ordinal);  // outside the lock: it takes a while
  const std::lock_guard lock(guard);
  return modules->emplace(key, std::move(module)).first->second;
}

driver::Function load_function(driver::Kernel kernel, int ordinal) {
  const driver::ContextGuard guard(driver::primary_context(ordinal));
  driver::Function function = nullptr;
  driver::check(driver::functions(ordinal).kernel_get_function(&function, kernel),
                "cuKernelGetFunction");
  return function;
}

Resources resources_of(driver::Kernel kernel, int ordinal) {
  const driver::Device device = driver::device_of(ordinal);
  const driver::Functions& driver = driver::functions(ordinal);
  const auto attribute = [kernel, device, &driver](int which) {
    int value = 0;
    driver::check(driver.kernel_get_attribute(&value, which, kernel, device),
                  "cuKernelGetAttribute");
    return value;
  };
  return {attribute(driver::function_registers), attribute(driver::function_shared_bytes),
          attribute(driver::function_const_bytes), attribute(driver::function_local_bytes),
          attribute(driver::function_max_threads_per_block)};
}

}  // namespace cudademo
