// The CUDA driver's functions, as a table filled at first use. Nothing else calls cu*.
//
// The declarations follow the driver API's ABI (CUDA 12.0 and later), so that building needs no
// toolkit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../emulator/interface.hpp"

namespace cudademo::driver {

using Result = int;
using Device = int;
using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;
using Library = struct LibraryHandle*;
using Kernel = struct KernelHandle*;
using Function = struct FunctionHandle*;

inline constexpr Result success = 0;
inline constexpr Result error_deinitialized = 4;
inline constexpr Result error_invalid_value = 1;
inline constexpr Result error_not_found = 500;
inline constexpr Result error_launch_out_of_resources = 701;
inline constexpr Result error_cooperative_launch_too_large = 720;

// CUdevice_attribute
inline constexpr int device_max_threads_per_block = 1;
inline constexpr int device_max_grid_dim_x = 5;
inline constexpr int device_multiprocessor_count = 16;
inline constexpr int device_capability_major = 75;
inline constexpr int device_capability_minor = 76;
inline constexpr int device_max_shared_bytes_optin = 97;

// CUfunction_attribute
inline constexpr int function_max_threads_per_block = 0;
inline constexpr int function_shared_bytes = 1;
inline constexpr int function_const_bytes = 2;
inline constexpr int function_local_bytes = 3;
inline constexpr int function_registers = 4;
inline constexpr int function_max_dynamic_shared_bytes = 8;

// One list: declaration, loading and clearing follow from it. X(member, symbol, parameters).
#define CUDADEMO_DRIVER_FUNCTIONS(X)                                                               \
  X(init, cuInit, (unsigned flags))                                                                \
  X(driver_get_version, cuDriverGetVersion, (int* version))                                        \
  X(get_error_name, cuGetErrorName, (Result result, const char** text))                            \
  X(get_error_string, cuGetErrorString, (Result result, const char** text))                        \
  X(device_get_count, cuDeviceGetCount, (int* count))                                              \
  X(device_get, cuDeviceGet, (Device * device, int ordinal))                                       \
  X(device_get_name, cuDeviceGetName, (char* name, int length, Device device))                     \
  X(device_get_attribute, cuDeviceGetAttribute, (int* value, int attribute, Device device))        \
  X(primary_context_retain, cuDevicePrimaryCtxRetain, (Context * context, Device device))          \
  X(context_get_current, cuCtxGetCurrent, (Context * context))                                     \
  X(context_get_device, cuCtxGetDevice, (Device * device))                                         \
  X(context_push, cuCtxPushCurrent_v2, (Context context))                                          \
  X(context_pop, cuCtxPopCurrent_v2, (Context * context))                                          \
  X(library_load_data, cuLibraryLoadData,                                                          \
    (Library * library, const void* image, int* jit_options, void** jit_values,                    \
     unsigned jit_count, int* library_options, void** library_values, unsigned library_count))     \
  X(library_unload, cuLibraryUnload, (Library library))                                            \
  X(library_get_kernel, cuLibraryGetKernel, (Kernel * kernel, Library library, const char* name))  \
  X(kernel_get_function, cuKernelGetFunction, (Function * function, Kernel kernel))                \
  X(kernel_get_attribute, cuKernelGetAttribute,                                                    \
    (int* value, int attribute, Kernel kernel, Device device))                                     \
  X(kernel_set_attribute, cuKernelSetAttribute,                                                    \
    (int attribute, int value, Kernel kernel, Device device))                                      \
  X(pointer_get_attribute, cuPointerGetAttribute,                                                  \
    (void* value, int attribute, const void* pointer))                                             \
  X(stream_is_capturing, cuStreamIsCapturing, (Stream stream, int* status))                        \
  X(stream_get_capture_info, cuStreamGetCaptureInfo_v2,                                            \
    (Stream stream, int* status, std::uint64_t* id, void* graph, void* dependencies,               \
     std::size_t* dependency_count))                                                               \
  X(stream_wait_event, cuStreamWaitEvent, (Stream stream, Event event, unsigned flags))            \
  X(event_create, cuEventCreate, (Event * event, unsigned flags))                                  \
  X(event_record, cuEventRecord, (Event event, Stream stream))                                     \
  X(event_destroy, cuEventDestroy_v2, (Event event))                                               \
  X(launch_kernel, cuLaunchKernel,                                                                 \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,       \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters,  \
     void** extra))                                                                                \
  X(launch_cooperative_kernel, cuLaunchCooperativeKernel,                                          \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,       \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters)) \
  X(occupancy_max_active_blocks, cuOccupancyMaxActiveBlocksPerMultiprocessor,                      \
    (int* blocks, Function function, int block_threads, std::size_t shared_bytes))

// Functions that older drivers lack; null there.
#define CUDADEMO_DRIVER_OPTIONAL(X)              \
  X(kernel_get_param_info, cuKernelGetParamInfo, \
    (Kernel kernel, std::size_t index, std::size_t* offset, std::size_t* size))

struct Functions {
#define CUDADEMO_DECLARE(member, symbol, parameters) Result(*member) parameters = nullptr;
  CUDADEMO_DRIVER_FUNCTIONS(CUDADEMO_DECLARE)
  CUDADEMO_DRIVER_OPTIONAL(CUDADEMO_DECLARE)
#undef CUDADEMO_DECLARE
};

// The initialised driver. Opened at the first call from `CUDADEMO_DRIVER`, else libcuda.so.1.
// Throws ToolchainError where there is none, or where it does not initialise; a later call tries
// again.
const Functions& functions();

// Stands for the emulator where a device's ordinal is asked for: the CPU is no GPU's number.
inline constexpr int emulator_ordinal = -2;

// The emulator's own functions, beside the driver's.
struct Emulator {
  Functions driver;
  decltype(&cudademoEmulatorSetArrays) set_arrays = nullptr;
  decltype(&cudademoEmulatorEndOwner) end_owner = nullptr;
  decltype(&cudademoEmulatorConfigure) configure = nullptr;
  decltype(&cudademoEmulatorGetOptions) get_options = nullptr;
  decltype(&cudademoEmulatorTakeReport) take_report = nullptr;
  decltype(&cudademoEmulatorExecuted) executed = nullptr;
};

// The emulator, opened at the first call: libcudademo_emulator.so beside this library. Throws
// ToolchainError where it is missing.
const Emulator& emulator();

// The driver that this device belongs to. Throws as functions() and emulator().
inline const Functions& functions(int ordinal) {
  return ordinal == emulator_ordinal ? emulator().driver : functions();
}

// Throws LaunchError naming `call` and the driver's words for `result`, then `what` the caller has
// to say.
[[noreturn]] void fail(Result result, const char* call, const std::string& what);
[[noreturn]] void fail(const Functions& driver, Result result, const char* call,
                       const std::string& what);

// Throws as fail, unless `result` is success.
inline void check(Result result, const char* call) {
  if (result != success) [[unlikely]]
    fail(result, call, "");
}

// As check, with a sentence of the caller's about what was asked for.
inline void check(Result result, const char* call, const std::string& what) {
  if (result != success) [[unlikely]]
    fail(result, call, what);
}

// The same, for a driver of which the caller has the table.
inline void check(const Functions& driver, Result result, const char* call,
                  const std::string& what = "") {
  if (result != success) [[unlikely]]
    fail(driver, result, call, what);
}

// The version of the CUDA driver API, as {major, minor}. Throws as functions().
std::pair<int, int> version();

struct DeviceInfo {
  std::string name;
  int capability_major;
  int capability_minor;
};

// The devices in the driver's order. Throws as functions().
std::vector<DeviceInfo> devices();

// The driver's handle of the device with this ordinal.
Device device_of(int ordinal);

// An attribute of the device with this ordinal.
int device_attribute(int ordinal, int attribute);

// The ordinal of the device whose memory this address is in. Throws LaunchError for one that CUDA
// does not know.
int device_of_pointer(const void* pointer);

// The primary context of the device with this ordinal, which torch and the CUDA runtime use as
// well. Retained once and kept for the process's life. The emulator needs none: null.
Context primary_context(int ordinal);

// The ordinal of the device whose context is current; 0 where none is.
int current_device();

// Makes a context current for a scope, unless it is already. Puts the former one back. Null does
// nothing.
class ContextGuard {
 public:
  explicit ContextGuard(Context context);
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  const Functions* pushed_by_ = nullptr;  // where it was pushed
};

// True while work on this stream is recorded into a CUDA graph.
bool is_capturing(Stream stream);

// The number of the capture that this stream takes part in, unique in the process; 0 where there is
// none. A context must be current.
std::uint64_t capture_id(Stream stream);

// Makes `stream` wait for all that was enqueued on `producer` so far. A context must be current.
void wait_for(Stream stream, Stream producer);

}  // namespace cudademo::driver
