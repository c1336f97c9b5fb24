#include "module.hpp"

#include <mutex>
#include <utility>

#include "errors.hpp"

namespace cudademo {

namespace {

driver::Device device_of(int ordinal) {
  driver::Device device = 0;
  driver::check(driver::functions().device_get(&device, ordinal), "cuDeviceGet");
  return device;
}

}  // namespace

Module::Module(const Binary& binary) {
  driver::check(driver::functions().library_load_data(&library_, binary.image().data(), nullptr,
                                                      nullptr, 0, nullptr, nullptr, 0),
                "cuLibraryLoadData", "the image was compiled for " + binary.architecture);
}

Module::~Module() {
  // Refused once the driver is down at exit: nothing to do about it then.
  if (library_ != nullptr) driver::functions().library_unload(library_);
}

driver::Kernel Module::kernel(const std::string& lowered_name) const {
  driver::Kernel kernel = nullptr;
  driver::check(driver::functions().library_get_kernel(&kernel, library_, lowered_name.c_str()),
                "cuLibraryGetKernel", "the kernel asked for is " + lowered_name);
  return kernel;
}

std::shared_ptr<const Module> resident_module(const std::string& digest, const Binary& binary) {
  static auto* modules = new std::map<std::string, std::shared_ptr<const Module>>();
  static std::mutex guard;
  {
    const std::lock_guard lock(guard);
    if (const auto found = modules->find(digest); found != modules->end()) return found->second;
  }
  auto module = std::make_shared<const Module>(binary);  // outside the lock: it takes a while
  const std::lock_guard lock(guard);
  return modules->emplace(digest, std::move(module)).first->second;
}

driver::Function load_function(driver::Kernel kernel, int ordinal) {
  const driver::ContextGuard guard(driver::primary_context(ordinal));
  driver::Function function = nullptr;
  driver::check(driver::functions().kernel_get_function(&function, kernel), "cuKernelGetFunction");
  return function;
}

Resources resources_of(driver::Kernel kernel, int ordinal) {
  const driver::Device device = device_of(ordinal);
  const auto attribute = [kernel, device](int which) {
    int value = 0;
    driver::check(driver::functions().kernel_get_attribute(&value, which, kernel, device),
                  "cuKernelGetAttribute");
    return value;
  };
  return {attribute(driver::function_registers), attribute(driver::function_shared_bytes),
          attribute(driver::function_const_bytes), attribute(driver::function_local_bytes),
          attribute(driver::function_max_threads_per_block)};
}

}  // namespace cudademo
