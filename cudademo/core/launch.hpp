// A kernel ready to be launched on one device, and the launch itself. No Python here.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "module.hpp"
#include "signature.hpp"

namespace cudademo {

struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;

  std::uint64_t count() const noexcept { return std::uint64_t{x} * y * z; }
  bool operator==(const Dim3&) const = default;
};

struct LaunchConfig {
  Dim3 grid;
  Dim3 block;
  std::uint32_t shared_bytes = 0;  // dynamic shared memory, a block
  bool cooperative = false;        // all blocks run at once, and may wait for one another
};

// One kernel on one device. Made once, used by any thread, never freed while its kernel lives.
class Plan {
 public:
  // Loads the kernel on the device. `name` is what errors call it; `parameter_names` are the
  // source's, or none. Throws LaunchError.
  Plan(std::shared_ptr<const Module> module, const KernelEntry& entry, std::string name,
       int ordinal, const std::vector<std::string>& parameter_names = {});

  const std::string& name() const noexcept { return name_; }
  const Signature& signature() const noexcept { return signature_; }
  int ordinal() const noexcept { return ordinal_; }
  const Resources& resources() const noexcept { return resources_; }
  bool is_emulated() const noexcept { return ordinal_ == driver::emulator_ordinal; }

  // Enqueues the kernel on `stream`; an empty grid enqueues nothing. Makes the device's primary
  // context current meanwhile where it is not. Opts in to more than 48 KB of shared memory by
  // itself. Throws LaunchError with the configuration and the limit that it passed, and
  // EmulatorError where the emulator found a fault.
  void launch(const LaunchConfig& config, void** parameters, driver::Stream stream);

  // The blocks of this size that the device runs at once: the most of a cooperative launch. Throws
  // LaunchError.
  std::uint64_t max_active_blocks(std::uint32_t block_threads, std::uint32_t shared_bytes);

 private:
  void allow_shared(std::uint32_t shared_bytes);
  [[noreturn]] void explain(driver::Result result, const LaunchConfig& config);

  std::shared_ptr<const Module> module_;
  driver::Kernel kernel_;
  driver::Function function_;
  driver::Context context_;
  int ordinal_;
  std::atomic<std::uint32_t>
      shared_allowed_;  // bytes of dynamic shared memory that need no further opt-in
  Resources resources_;
  Signature signature_;
  std::string name_;
};

// "grid (1, 1, 1), block (256, 1, 1), 0 bytes of dynamic shared memory"
std::string describe(const LaunchConfig& config);

}  // namespace cudademo
