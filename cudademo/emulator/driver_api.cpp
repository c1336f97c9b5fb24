// The CUDA driver's functions, on the CPU. Signatures and results as in NVIDIA's cuda.h; work is
// done when the call returns, so streams and events have nothing to wait for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "driver_state.hpp"

namespace cudademo::emulator {

namespace {

int function_attribute(const KernelHandle& kernel, int attribute) {
  const Function& function = *kernel.function;
  switch (attribute) {
    case 0:
      return static_cast<int>(std::min<std::uint32_t>(function.max_threads, max_block_threads));
    case 1:
      return static_cast<int>(function.static_shared_bytes);
    case 3:
      return static_cast<int>(function.local_bytes);
    case 4:
      return static_cast<int>(function.registers);
    case 8:
      return kernel.dynamic_limit;
    default:
      return 0;
  }
}

}  // namespace

}  // namespace cudademo::emulator

using namespace cudademo::emulator;

EXPORTED Result cuInit(unsigned) { return success; }

EXPORTED Result cuDriverGetVersion(int* version) {
  if (version == nullptr) return invalid_value;
  *version = 13000;
  return success;
}

EXPORTED Result cuDeviceGetCount(int* count) {
  if (count == nullptr) return invalid_value;
  *count = 1;
  return success;
}

EXPORTED Result cuDeviceGet(int* device, int ordinal) {
  if (device == nullptr) return invalid_value;
  if (ordinal != 0) return invalid_device;
  *device = 0;
  return success;
}

EXPORTED Result cuDeviceGetName(char* name, int length, int device) {
  if (name == nullptr || length <= 0) return invalid_value;
  if (device != 0) return invalid_device;
  constexpr char text[] = "cudademo emulator";
  std::strncpy(name, text, static_cast<std::size_t>(length) - 1);
  name[length - 1] = 0;
  return success;
}

EXPORTED Result cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (value == nullptr) return invalid_value;
  if (device != 0) return invalid_device;
  const CudademoEmulatorOptions options = [] {
    const std::lock_guard lock(state().guard);
    return state().options;
  }();
  switch (attribute) {
    case 1:  // threads of a block, and its extents
    case 2:
    case 3:
      *value = max_block_threads;
      break;
    case 4:
      *value = 64;
      break;
    case 5:
      *value = 0x7fffffff;
      break;
    case 6:
    case 7:
      *value = 65535;
      break;
    case 8:
      *value = shared_default_bytes;
      break;
    case 9:
      *value = 65536;
      break;
    case 10:
      *value = static_cast<int>(lanes);
      break;
    case 16:
      *value = multiprocessors();
      break;
    case 39:
      *value = 2048;
      break;
    case 75:
      *value = options.capability_major;
      break;
    case 76:
      *value = options.capability_minor;
      break;
    case 81:
    case 97:
      *value = shared_opt_in_bytes;
      break;
    case 95:
      *value = 1;
      break;
    default:
      *value = 0;
  }
  return success;
}

EXPORTED Result cuDevicePrimaryCtxRetain(void** context, int device) {
  if (context == nullptr) return invalid_value;
  if (device != 0) return invalid_device;
  *context = &state().context;
  return success;
}

EXPORTED Result cuDevicePrimaryCtxRelease_v2(int device) {
  return device == 0 ? success : invalid_device;
}

EXPORTED Result cuCtxGetCurrent(void** context) {
  if (context == nullptr) return invalid_value;
  *context = contexts.empty() ? nullptr : contexts.back();
  return success;
}

EXPORTED Result cuCtxSetCurrent(void* context) {
  if (!contexts.empty()) contexts.pop_back();
  if (context != nullptr) contexts.push_back(context);
  return success;
}

EXPORTED Result cuCtxGetDevice(int* device) {
  if (device == nullptr) return invalid_value;
  if (contexts.empty()) return invalid_context;
  *device = 0;
  return success;
}

EXPORTED Result cuCtxPushCurrent_v2(void* context) {
  contexts.push_back(context);
  return success;
}

EXPORTED Result cuCtxPopCurrent_v2(void** context) {
  if (contexts.empty()) return invalid_context;
  if (context != nullptr) *context = contexts.back();
  contexts.pop_back();
  return success;
}

EXPORTED Result cuCtxSynchronize() { return success; }

EXPORTED Result cuLibraryLoadData(void** library, const void* image, int*, void**, unsigned, int*,
                                  void**, unsigned) {
  if (library == nullptr || image == nullptr) return invalid_value;
  const char* text = static_cast<const char*>(image);
  if (std::strncmp(text, "\177ELF", 4) == 0) return invalid_image;
  auto made = std::make_unique<LibraryHandle>();
  try {
    made->program = decode(text);
  } catch (const ptx::ParseError& error) {
    Report report;
    report.kind = kind::unsupported;
    report.what = std::string("the PTX cannot be read: ") + error.what();
    remember(std::move(report));
    return invalid_ptx;
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  }
  for (const auto& function : made->program->functions) {
    if (!function->is_entry) continue;
    const int left = shared_default_bytes - static_cast<int>(function->static_shared_bytes);
    made->kernels[function->name] = std::make_unique<KernelHandle>(
        KernelHandle{made->program, function.get(), std::max(left, 0)});
  }
  *library = made.get();
  const std::lock_guard lock(state().guard);
  for (const auto& [name, kernel] : made->kernels) state().kernels[kernel.get()] = kernel.get();
  const LibraryHandle* key = made.get();
  state().libraries[key] = std::move(made);
  return success;
}

EXPORTED Result cuLibraryUnload(void* library) {
  const std::lock_guard lock(state().guard);
  const auto found = state().libraries.find(library);
  if (found == state().libraries.end()) return invalid_handle;
  for (const auto& [name, kernel] : found->second->kernels) state().kernels.erase(kernel.get());
  state().libraries.erase(found);
  return success;
}

EXPORTED Result cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  if (kernel == nullptr || name == nullptr) return invalid_value;
  const std::lock_guard lock(state().guard);
  const auto owner = state().libraries.find(library);
  if (owner == state().libraries.end()) return invalid_handle;
  const auto found = owner->second->kernels.find(std::string_view(name));
  if (found == owner->second->kernels.end()) return not_found;
  *kernel = found->second.get();
  return success;
}

EXPORTED Result cuKernelGetFunction(void** function, void* kernel) {
  if (function == nullptr) return invalid_value;
  if (!kernel_of(kernel)) return invalid_handle;
  *function = kernel;
  return success;
}

EXPORTED Result cuKernelGetAttribute(int* value, int attribute, void* kernel, int) {
  if (value == nullptr) return invalid_value;
  const std::optional<KernelHandle> known = kernel_of(kernel);
  if (!known) return invalid_handle;
  *value = function_attribute(*known, attribute);
  return success;
}

EXPORTED Result cuFuncGetAttribute(int* value, int attribute, void* function) {
  return cuKernelGetAttribute(value, attribute, function, 0);
}

EXPORTED Result cuKernelSetAttribute(int attribute, int value, void* kernel, int) {
  const std::lock_guard lock(state().guard);
  const auto found = state().kernels.find(kernel);
  if (found == state().kernels.end()) return invalid_handle;
  if (attribute != 8) return success;
  KernelHandle& handle = *found->second;
  const int most = shared_opt_in_bytes - static_cast<int>(handle.function->static_shared_bytes);
  if (value < 0 || value > most) return invalid_value;
  handle.dynamic_limit = value;
  return success;
}

EXPORTED Result cuFuncSetAttribute(void* function, int attribute, int value) {
  return cuKernelSetAttribute(attribute, value, function, 0);
}

EXPORTED Result cuKernelGetParamInfo(void* kernel, std::size_t index, std::size_t* offset,
                                     std::size_t* size) {
  const std::optional<KernelHandle> known = kernel_of(kernel);
  if (!known) return invalid_handle;
  const auto& parameters = known->function->parameters;
  if (offset == nullptr || index >= parameters.size()) return invalid_value;
  *offset = parameters[index].offset;
  if (size != nullptr) *size = parameters[index].bytes;
  return success;
}

EXPORTED Result cuPointerGetAttribute(void* value, int attribute, const void*) {
  if (value == nullptr || attribute != 9) return invalid_value;
  *static_cast<int*>(value) = 0;
  return success;
}

EXPORTED Result cuStreamCreate(void** stream, unsigned) {
  if (stream == nullptr) return invalid_value;
  *stream = &state().context;
  return success;
}
EXPORTED Result cuStreamDestroy_v2(void*) { return success; }
EXPORTED Result cuStreamSynchronize(void*) { return success; }
EXPORTED Result cuStreamQuery(void*) { return success; }
EXPORTED Result cuStreamWaitEvent(void*, void*, unsigned) { return success; }

EXPORTED Result cuStreamIsCapturing(void*, int* status) {
  *status = 0;
  return success;
}

EXPORTED Result cuStreamGetCaptureInfo_v2(void*, int* status, std::uint64_t* id, void*, void*,
                                          std::size_t*) {
  *status = 0;
  if (id != nullptr) *id = 0;
  return success;
}

EXPORTED Result cuEventCreate(void** event, unsigned) {
  if (event == nullptr) return invalid_value;
  *event = &state().context;
  return success;
}
EXPORTED Result cuEventRecord(void*, void*) { return success; }
EXPORTED Result cuEventSynchronize(void*) { return success; }
EXPORTED Result cuEventQuery(void*) { return success; }
EXPORTED Result cuEventDestroy_v2(void*) { return success; }

EXPORTED Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function,
                                                            int threads, std::size_t shared_bytes) {
  if (blocks == nullptr || threads <= 0 || threads > max_block_threads) return invalid_value;
  const std::optional<KernelHandle> kernel = kernel_of(function);
  if (!kernel) return invalid_handle;
  *blocks = active_blocks(*kernel, static_cast<std::uint64_t>(threads), shared_bytes);
  return success;
}

EXPORTED Result cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z,
                               unsigned shared_bytes, void*, void** parameters, void**) {
  return launch(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes,
                parameters, false);
}

EXPORTED Result cuLaunchCooperativeKernel(void* function, unsigned grid_x, unsigned grid_y,
                                          unsigned grid_z, unsigned block_x, unsigned block_y,
                                          unsigned block_z, unsigned shared_bytes, void*,
                                          void** parameters) {
  return launch(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes,
                parameters, true);
}

// ---- the emulator's own ----

EXPORTED void cudademoEmulatorSetArrays(const char* kernel, const CudademoEmulatorArray* given,
                                        std::size_t count) {
  arrays.clear();
  arrays.reserve(count);
  kernel_name = kernel;
  for (std::size_t i = 0; i < count; ++i) {
    arrays.push_back({reinterpret_cast<std::uint64_t>(given[i].begin),
                      reinterpret_cast<std::uint64_t>(given[i].end), given[i].label,
                      given[i].writable != 0, false, given[i].owner});
  }
}

EXPORTED void cudademoEmulatorEndOwner(std::uint64_t owner) { state().history.end(owner); }

EXPORTED void cudademoEmulatorConfigure(const CudademoEmulatorOptions* options) {
  const std::lock_guard lock(state().guard);
  state().options = *options;
}

EXPORTED void cudademoEmulatorGetOptions(CudademoEmulatorOptions* options) {
  const std::lock_guard lock(state().guard);
  *options = state().options;
}

EXPORTED int cudademoEmulatorTakeReport(CudademoEmulatorReport* report) {
  if (!has_report) return 0;
  has_report = false;
  *report = {latest.kind,
             latest.what.c_str(),
             latest.kernel.c_str(),
             latest.array.c_str(),
             latest.file.c_str(),
             latest.line,
             latest.has_thread ? 1 : 0,
             {latest.block[0], latest.block[1], latest.block[2]},
             {latest.thread[0], latest.thread[1], latest.thread[2]},
             latest.address,
             latest.bytes};
  return 1;
}

EXPORTED std::uint64_t cudademoEmulatorExecuted() { return state().executed; }
