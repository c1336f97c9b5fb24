// The CUDA driver's functions, on the CPU. Signatures and results as in NVIDIA's cuda.h; work is
// done when the call returns, so streams and events have nothing to wait for.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "block.hpp"
#include "fault.hpp"
#include "heap.hpp"
#include "interface.hpp"
#include "memory.hpp"
#include "program.hpp"

namespace cudademo::emulator {

namespace {

using Result = int;

constexpr Result success = 0;
constexpr Result invalid_value = 1;
constexpr Result out_of_memory = 2;
constexpr Result invalid_device = 101;
constexpr Result invalid_image = 200;
constexpr Result invalid_context = 201;
constexpr Result invalid_ptx = 218;
constexpr Result invalid_handle = 400;
constexpr Result not_found = 500;
constexpr Result illegal_address = 700;
constexpr Result out_of_resources = 701;
constexpr Result launch_timeout = 702;
constexpr Result assert_failed = 710;
constexpr Result misaligned_address = 716;
constexpr Result invalid_address_space = 717;
constexpr Result launch_failed = 719;
constexpr Result not_supported = 801;

struct ResultName {
  Result result;
  const char* name;
  const char* text;
};

constexpr ResultName names[] = {
    {success, "CUDA_SUCCESS", "no error"},
    {invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {invalid_ptx, "CUDA_ERROR_INVALID_PTX", "the PTX cannot be read"},
    {invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {out_of_resources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {launch_timeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {assert_failed, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {misaligned_address, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {invalid_address_space, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
     "operation not supported on this address space"},
    {launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

constexpr int max_block_threads = 1024;
constexpr int shared_opt_in_bytes = 227 * 1024;  // as the larger chips have
constexpr int shared_default_bytes = 48 * 1024;

struct KernelHandle {
  const Program* program;
  const Function* function;
  int dynamic_limit;  // bytes of dynamic shared memory that a launch may ask for
};

struct LibraryHandle {
  std::unique_ptr<Program> program;
  std::map<std::string, std::unique_ptr<KernelHandle>, std::less<>> kernels;
};

// All that the process shares. Made at first use and never destroyed: launches may come late.
struct State {
  std::mutex guard;
  std::map<std::uint64_t, std::pair<std::size_t, std::unique_ptr<std::byte[]>>> allocations;
  std::map<const LibraryHandle*, std::unique_ptr<LibraryHandle>> libraries;
  CudademoEmulatorOptions options{1, 0, std::uint64_t{1} << 28, 0, 8, 0};
  Heap heap;
  std::atomic<std::uint64_t> launches{0};
  std::atomic<std::uint64_t> executed{0};
  int context = 0;  // its address is the one context's
};

State& state() {
  static State* all = new State();
  return *all;
}

thread_local std::vector<void*> contexts;
thread_local std::vector<Range> arrays;
thread_local Report latest;
thread_local bool has_report = false;

void remember(Report report) {
  latest = std::move(report);
  has_report = true;
}

Result result_of(const Report& report) {
  const std::string kind = report.kind;
  if (kind == kind::out_of_bounds || kind == kind::uninitialised) return illegal_address;
  if (kind == kind::misaligned) return misaligned_address;
  if (kind == kind::budget) return launch_timeout;
  if (kind == kind::assertion) return assert_failed;
  if (kind == kind::unsupported) return not_supported;
  return launch_failed;
}

std::vector<std::byte> pack(const Function& entry, void** parameters) {
  std::vector<std::byte> bytes(entry.parameter_bytes);
  for (std::size_t i = 0; i < entry.parameters.size(); ++i) {
    const Slot& slot = entry.parameters[i];
    if (slot.bytes != 0) std::memcpy(bytes.data() + slot.offset, parameters[i], slot.bytes);
  }
  return bytes;
}

Memory memory_of(const Program& program) {
  Memory memory;
  for (Range& range : arrays) memory.add(std::move(range));
  arrays.clear();
  for (const StaticMemory& item : program.statics) {
    const auto begin = reinterpret_cast<std::uint64_t>(item.data);
    memory.add({begin, begin + item.bytes, "the variable " + item.name, !item.is_constant,
                item.is_constant});
  }
  {
    const std::lock_guard lock(state().guard);
    for (const auto& [begin, allocation] : state().allocations) {
      memory.add({begin, begin + allocation.first,
                  std::to_string(allocation.first) + " bytes of cuMemAlloc", true, false});
    }
  }
  memory.finish();
  return memory;
}

Result launch(const KernelHandle& kernel, const Extent& grid, const Extent& block,
              std::uint32_t shared_bytes, void** parameters, bool is_cooperative) {
  const Function& entry = *kernel.function;
  if (grid.count() == 0 || block.count() == 0 || block.count() > max_block_threads ||
      block.z > 64 || block.count() > entry.max_threads || grid.y > 65535 || grid.z > 65535 ||
      grid.x > 0x7fffffff) {
    arrays.clear();
    return invalid_value;
  }
  if (static_cast<std::int64_t>(shared_bytes) > kernel.dynamic_limit) {
    arrays.clear();
    return invalid_value;
  }
  const Memory memory = memory_of(*kernel.program);
  Launch work;
  work.program = kernel.program;
  work.entry = &entry;
  work.grid = grid;
  work.block = block;
  work.dynamic_shared_bytes = shared_bytes;
  work.parameters = pack(entry, parameters);
  work.memory = &memory;
  work.heap = &state().heap;
  work.number = ++state().launches;
  {
    const std::lock_guard lock(state().guard);
    const CudademoEmulatorOptions& options = state().options;
    work.options = {options.checks != 0, options.seed, options.budget, options.threads};
  }
  work.is_cooperative = is_cooperative;
  try {
    run(work);
  } catch (const Fault& fault) {
    state().executed += work.executed;
    remember(fault.report);
    return result_of(fault.report);
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  }
  state().executed += work.executed;
  return success;
}

const KernelHandle* as_kernel(const void* handle) {
  return static_cast<const KernelHandle*>(handle);
}

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

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED Result cuInit(unsigned) { return success; }

EXPORTED Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}

EXPORTED Result cuGetErrorName(Result result, const char** text) {
  for (const ResultName& known : names) {
    if (known.result != result) continue;
    *text = known.name;
    return success;
  }
  *text = nullptr;
  return invalid_value;
}

EXPORTED Result cuGetErrorString(Result result, const char** text) {
  for (const ResultName& known : names) {
    if (known.result != result) continue;
    *text = known.text;
    return success;
  }
  *text = nullptr;
  return invalid_value;
}

EXPORTED Result cuDeviceGetCount(int* count) {
  *count = 1;
  return success;
}

EXPORTED Result cuDeviceGet(int* device, int ordinal) {
  if (ordinal != 0) return invalid_device;
  *device = 0;
  return success;
}

EXPORTED Result cuDeviceGetName(char* name, int length, int device) {
  if (device != 0 || length <= 0) return invalid_device;
  constexpr char text[] = "cudademo emulator";
  std::strncpy(name, text, static_cast<std::size_t>(length) - 1);
  name[length - 1] = 0;
  return success;
}

EXPORTED Result cuDeviceGetAttribute(int* value, int attribute, int device) {
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
      *value = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
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
  if (device != 0) return invalid_device;
  *context = &state().context;
  return success;
}

EXPORTED Result cuDevicePrimaryCtxRelease_v2(int device) {
  return device == 0 ? success : invalid_device;
}

EXPORTED Result cuCtxGetCurrent(void** context) {
  *context = contexts.empty() ? nullptr : contexts.back();
  return success;
}

EXPORTED Result cuCtxSetCurrent(void* context) {
  if (!contexts.empty()) contexts.pop_back();
  if (context != nullptr) contexts.push_back(context);
  return success;
}

EXPORTED Result cuCtxGetDevice(int* device) {
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
  const char* text = static_cast<const char*>(image);
  if (std::memcmp(text, "\177ELF", 4) == 0) return invalid_image;
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
        KernelHandle{made->program.get(), function.get(), std::max(left, 0)});
  }
  *library = made.get();
  const std::lock_guard lock(state().guard);
  const LibraryHandle* key = made.get();
  state().libraries[key] = std::move(made);
  return success;
}

EXPORTED Result cuLibraryUnload(void* library) {
  const std::lock_guard lock(state().guard);
  return state().libraries.erase(static_cast<LibraryHandle*>(library)) == 1 ? success
                                                                            : invalid_handle;
}

EXPORTED Result cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  const auto& kernels = static_cast<LibraryHandle*>(library)->kernels;
  const auto found = kernels.find(std::string_view(name));
  if (found == kernels.end()) return not_found;
  *kernel = found->second.get();
  return success;
}

EXPORTED Result cuKernelGetFunction(void** function, void* kernel) {
  *function = kernel;
  return success;
}

EXPORTED Result cuKernelGetAttribute(int* value, int attribute, void* kernel, int) {
  *value = function_attribute(*as_kernel(kernel), attribute);
  return success;
}

EXPORTED Result cuFuncGetAttribute(int* value, int attribute, void* function) {
  *value = function_attribute(*as_kernel(function), attribute);
  return success;
}

EXPORTED Result cuKernelSetAttribute(int attribute, int value, void* kernel, int) {
  if (attribute != 8) return success;
  auto& handle = *static_cast<KernelHandle*>(kernel);
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
  const auto& parameters = as_kernel(kernel)->function->parameters;
  if (index >= parameters.size()) return invalid_value;
  *offset = parameters[index].offset;
  if (size != nullptr) *size = parameters[index].bytes;
  return success;
}

EXPORTED Result cuPointerGetAttribute(void* value, int attribute, const void*) {
  if (attribute != 9) return invalid_value;
  *static_cast<int*>(value) = 0;
  return success;
}

EXPORTED Result cuStreamCreate(void** stream, unsigned) {
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
  *event = &state().context;
  return success;
}
EXPORTED Result cuEventRecord(void*, void*) { return success; }
EXPORTED Result cuEventSynchronize(void*) { return success; }
EXPORTED Result cuEventQuery(void*) { return success; }
EXPORTED Result cuEventDestroy_v2(void*) { return success; }

EXPORTED Result cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  if (bytes == 0) return invalid_value;
  constexpr std::size_t alignment = 256;
  std::unique_ptr<std::byte[]> storage(new (std::nothrow) std::byte[bytes + alignment]());
  if (!storage) return out_of_memory;
  const auto raw = reinterpret_cast<std::uint64_t>(storage.get());
  *address = (raw + alignment - 1) / alignment * alignment;
  const std::lock_guard lock(state().guard);
  state().allocations[*address] = {bytes, std::move(storage)};
  return success;
}

EXPORTED Result cuMemFree_v2(std::uint64_t address) {
  const std::lock_guard lock(state().guard);
  return state().allocations.erase(address) == 1 ? success : invalid_value;
}

EXPORTED Result cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return success;
}

EXPORTED Result cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return success;
}

EXPORTED Result cuMemcpyDtoD_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return success;
}

EXPORTED Result cuMemsetD8_v2(std::uint64_t address, unsigned char value, std::size_t bytes) {
  std::memset(reinterpret_cast<void*>(address), value, bytes);
  return success;
}

EXPORTED Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function,
                                                            int threads, std::size_t) {
  if (threads <= 0 || threads > max_block_threads || function == nullptr) return invalid_value;
  *blocks = std::max(1, 2048 / threads);
  return success;
}

EXPORTED Result cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z,
                               unsigned shared_bytes, void*, void** parameters, void**) {
  return launch(*as_kernel(function), {grid_x, grid_y, grid_z}, {block_x, block_y, block_z},
                shared_bytes, parameters, false);
}

EXPORTED Result cuLaunchCooperativeKernel(void* function, unsigned grid_x, unsigned grid_y,
                                          unsigned grid_z, unsigned block_x, unsigned block_y,
                                          unsigned block_z, unsigned shared_bytes, void*,
                                          void** parameters) {
  return launch(*as_kernel(function), {grid_x, grid_y, grid_z}, {block_x, block_y, block_z},
                shared_bytes, parameters, true);
}

// ---- the emulator's own ----

EXPORTED void cudademoEmulatorSetArrays(const CudademoEmulatorArray* given, std::size_t count) {
  arrays.clear();
  for (std::size_t i = 0; i < count; ++i) {
    arrays.push_back({reinterpret_cast<std::uint64_t>(given[i].begin),
                      reinterpret_cast<std::uint64_t>(given[i].end), given[i].label,
                      given[i].writable != 0, false});
  }
}

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
