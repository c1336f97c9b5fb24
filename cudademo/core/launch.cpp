#include "launch.hpp"

#include <algorithm>

#include "errors.hpp"

namespace cudademo {

namespace {

constexpr std::uint32_t default_shared_limit = 48 * 1024;

std::string describe(const Dim3& dim) {
  return "(" + std::to_string(dim.x) + ", " + std::to_string(dim.y) + ", " + std::to_string(dim.z) +
         ")";
}

// Results that tell of an earlier kernel's fault, which the driver reports at the next call.
bool is_sticky(driver::Result result) {
  return result == 700 || (result >= 702 && result <= 703) || (result >= 710 && result <= 719);
}

// The second opinion on the signature: the driver's own idea of each parameter's size. A context
// must be current.
void verify_sizes(driver::Kernel kernel, const Signature& signature, const std::string& name,
                  const driver::Functions& driver) {
  const auto param_info = driver.kernel_get_param_info;
  if (param_info == nullptr) return;
  for (std::size_t i = 0; i < signature.parameters.size(); ++i) {
    std::size_t offset = 0;
    std::size_t size = 0;
    driver::check(param_info(kernel, i, &offset, &size), "cuKernelGetParamInfo");
    if (size == signature.parameters[i].size) continue;
    throw Error(name + ": parameter " + std::to_string(i) + " has " + std::to_string(size) +
                " bytes for the driver and " + std::to_string(signature.parameters[i].size) +
                " for the compiler");
  }
}

std::string triple(const std::uint32_t (&numbers)[3]) {
  return describe(Dim3{numbers[0], numbers[1], numbers[2]});
}

// Throws what the emulator found, if it did.
void raise_report(const std::string& kernel) {
  CudademoEmulatorReport report{};
  if (driver::emulator().take_report(&report) == 0) return;
  std::string message = kernel + ": " + report.kind + ": " + report.what;
  if (report.has_thread != 0) {
    message += "; block " + triple(report.block) + ", thread " + triple(report.thread);
  }
  throw EmulatorError(message, {report.kind,
                                kernel,
                                report.array,
                                report.file,
                                report.line,
                                {report.block[0], report.block[1], report.block[2]},
                                {report.thread[0], report.thread[1], report.thread[2]},
                                report.address,
                                report.bytes});
}

}  // namespace

std::string describe(const LaunchConfig& config) {
  return "grid " + describe(config.grid) + ", block " + describe(config.block) + ", " +
         std::to_string(config.shared_bytes) + " bytes of dynamic shared memory" +
         (config.cooperative ? ", cooperative" : "");
}

Plan::Plan(std::shared_ptr<const Module> module, const KernelEntry& entry, std::string name,
           int ordinal, const std::vector<std::string>& parameter_names)
    : module_(std::move(module)),
      kernel_(module_->kernel(entry.lowered_name)),
      function_(load_function(kernel_, ordinal)),
      context_(driver::primary_context(ordinal)),
      ordinal_(ordinal),
      shared_allowed_(0),
      resources_(resources_of(kernel_, ordinal)),
      signature_(entry.signature),
      name_(std::move(name)) {
  const auto used = static_cast<std::uint32_t>(resources_.shared_bytes);
  shared_allowed_ = used < default_shared_limit ? default_shared_limit - used : 0;
  const driver::ContextGuard guard(context_);
  verify_sizes(kernel_, signature_, name_, driver::functions(ordinal));
  if (parameter_names.size() != signature_.parameters.size()) return;
  for (std::size_t i = 0; i < parameter_names.size(); ++i) {
    signature_.parameters[i].name = parameter_names[i];
  }
}

void Plan::launch(const LaunchConfig& config, void** parameters, driver::Stream stream) {
  if (config.grid.count() == 0) return;
  if (config.shared_bytes > shared_allowed_.load(std::memory_order_relaxed)) {
    allow_shared(config.shared_bytes);
  }
  const driver::ContextGuard guard(context_);
  const driver::Functions& driver = driver::functions(ordinal_);
  const auto& [grid, block, shared_bytes, cooperative] = config;
  const driver::Result result =
      cooperative
          ? driver.launch_cooperative_kernel(function_, grid.x, grid.y, grid.z, block.x, block.y,
                                             block.z, shared_bytes, stream, parameters)
          : driver.launch_kernel(function_, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                 shared_bytes, stream, parameters, nullptr);
  if (result != driver::success) [[unlikely]]
    explain(result, config);
}

std::uint64_t Plan::max_active_blocks(std::uint32_t block_threads, std::uint32_t shared_bytes) {
  if (shared_bytes > shared_allowed_.load(std::memory_order_relaxed)) allow_shared(shared_bytes);
  const driver::ContextGuard guard(context_);
  const driver::Functions& driver = driver::functions(ordinal_);
  int blocks = 0;  // of a multiprocessor
  driver::check(driver,
                driver.occupancy_max_active_blocks(&blocks, function_,
                                                   static_cast<int>(block_threads), shared_bytes),
                "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  const int processors = driver::device_attribute(ordinal_, driver::device_multiprocessor_count);
  return static_cast<std::uint64_t>(blocks) * static_cast<std::uint64_t>(processors);
}

void Plan::allow_shared(std::uint32_t shared_bytes) {
  const int limit = driver::device_attribute(ordinal_, driver::device_max_shared_bytes_optin);
  const int available = limit - resources_.shared_bytes;
  if (static_cast<std::int64_t>(shared_bytes) > available) {
    throw LaunchError(name_ + ": " + std::to_string(shared_bytes) +
                          " bytes of dynamic shared memory asked for; a block on device " +
                          std::to_string(ordinal_) + " has " + std::to_string(limit) +
                          " bytes, of which the kernel's static arrays take " +
                          std::to_string(resources_.shared_bytes),
                      "cuLaunchKernel", driver::error_invalid_value, "CUDA_ERROR_INVALID_VALUE");
  }
  // The whole of what the device has, so that no later launch asks again.
  driver::check(driver::functions(ordinal_).kernel_set_attribute(
                    driver::function_max_dynamic_shared_bytes, available, kernel_,
                    driver::device_of(ordinal_)),
                "cuKernelSetAttribute");
  shared_allowed_.store(static_cast<std::uint32_t>(available), std::memory_order_relaxed);
}

void Plan::explain(driver::Result result, const LaunchConfig& config) {
  if (is_emulated()) raise_report(name_);
  std::string what = name_ + " with " + describe(config);
  const auto limit = static_cast<std::uint64_t>(resources_.max_threads_per_block);
  if (is_sticky(result) && !is_emulated()) {
    what +=
        ". An earlier kernel or copy failed and the driver reports it only now; the CUDA "
        "context is lost. Run with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer, to "
        "find the one at fault";
  } else if (config.block.count() > limit) {
    what += "; a block has " + std::to_string(config.block.count()) +
            " threads, this kernel takes at most " + std::to_string(limit) + " (it needs " +
            std::to_string(resources_.registers) +
            " registers a thread; __launch_bounds__ lowers that)";
  } else if (result == driver::error_cooperative_launch_too_large) {
    const auto threads = static_cast<std::uint32_t>(config.block.count());
    what += "; all blocks of a cooperative launch run at once, and this device runs at most " +
            std::to_string(max_active_blocks(threads, config.shared_bytes)) + " of this kernel";
  }
  driver::fail(driver::functions(ordinal_), result,
               config.cooperative ? "cuLaunchCooperativeKernel" : "cuLaunchKernel", what);
}

}  // namespace cudademo
