// A binary loaded by the driver, for all devices at once.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "binary.hpp"
#include "driver.hpp"

namespace cudademo {

// What one kernel takes of a device.
struct Resources {
  int registers = 0;     // a thread
  int shared_bytes = 0;  // static, a block
  int constant_bytes = 0;
  int local_bytes = 0;  // a thread: spills and arrays
  int max_threads_per_block = 0;
};

class Module {
 public:
  // Loads the image for the driver of this device; no context is needed. The emulator takes the
  // PTX. Throws LaunchError with the driver's words.
  Module(const Binary& binary, int ordinal);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // The kernel with this symbol. Throws LaunchError where there is none.
  driver::Kernel kernel(const std::string& lowered_name) const;

 private:
  const driver::Functions& driver_;
  driver::Library library_ = nullptr;
};

// The process's one module of this digest for the driver of this device, loaded at the first call
// and never unloaded: the driver may be gone when static objects are.
std::shared_ptr<const Module> resident_module(const std::string& digest, const Binary& binary,
                                              int ordinal);

// Loads `kernel` on a device, whose primary context becomes current meanwhile, and returns its
// function there.
driver::Function load_function(driver::Kernel kernel, int ordinal);

Resources resources_of(driver::Kernel kernel, int ordinal);

}  // namespace cudademo
