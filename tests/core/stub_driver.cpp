// A CUDA driver that does nothing and remembers everything: what the core asks of a driver can be
// tested without a GPU.
//
// Two devices of compute capability 9.0. An address belongs to device 1 where bit 40 is set. The
// functions named stub_* read what was recorded and say how the next calls go.
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Launch {
  void* function = nullptr;
  std::array<unsigned, 6> dims{};
  unsigned shared_bytes = 0;
  void* stream = nullptr;
  int device = -1;  // whose context was current
  std::vector<std::array<unsigned char, 16>> parameters;
};

struct State {
  std::mutex guard;
  std::vector<Launch> launches;
  std::map<std::string, int> failures;  // call -> the result of its next use
  std::map<std::string, int> counts;
  std::size_t parameter_count = 0;
  int capturing = 0;
  int static_shared_bytes = 0;
  int opted_in_bytes = 0;
};

State& state() {
  static auto* instance = new State();
  return *instance;
}

std::array<char, 2> contexts{};  // their addresses stand for the devices' primary contexts
thread_local std::vector<void*> context_stack;

constexpr int no_context = 201;  // CUDA_ERROR_INVALID_CONTEXT, where the real driver says so

int record(const char* call) {
  State& s = state();
  const std::lock_guard lock(s.guard);
  ++s.counts[call];
  const auto failure = s.failures.find(call);
  if (failure == s.failures.end()) return 0;
  const int result = failure->second;
  s.failures.erase(failure);
  return result;
}

void* handle(std::uintptr_t value) { return reinterpret_cast<void*>(value); }

int context_device(void* context) { return context == &contexts[1] ? 1 : 0; }

}  // namespace

#define STUB extern "C" __attribute__((visibility("default")))

STUB void stub_reset() {
  State& s = state();
  const std::lock_guard lock(s.guard);
  s.launches.clear();
  s.failures.clear();
  s.counts.clear();
  s.parameter_count = 0;
  s.capturing = 0;
  s.static_shared_bytes = 0;
  s.opted_in_bytes = 0;
}
STUB void stub_fail_next(const char* call, int result) {
  const std::lock_guard lock(state().guard);
  state().failures[call] = result;
}
STUB int stub_count(const char* call) {
  const std::lock_guard lock(state().guard);
  return state().counts[call];
}
// How many parameters of later launches are recorded, 16 bytes of each: a driver would know from
// the cubin.
STUB void stub_record_parameters(std::size_t count) { state().parameter_count = count; }
STUB void stub_set_capturing(int capturing) { state().capturing = capturing; }
STUB void stub_set_static_shared(int bytes) { state().static_shared_bytes = bytes; }
STUB int stub_opted_in() { return state().opted_in_bytes; }
STUB std::size_t stub_launches() { return state().launches.size(); }
// Of the latest launch.
STUB void stub_dims(unsigned* six) {
  std::memcpy(six, state().launches.back().dims.data(), 6 * sizeof(unsigned));
}
STUB unsigned stub_shared_bytes() { return state().launches.back().shared_bytes; }
STUB std::uintptr_t stub_stream() {
  return reinterpret_cast<std::uintptr_t>(state().launches.back().stream);
}
STUB int stub_device() { return state().launches.back().device; }
STUB void stub_parameter(std::size_t index, unsigned char* sixteen) {
  std::memcpy(sixteen, state().launches.back().parameters.at(index).data(), 16);
}
// The device whose context is current on this thread; -1 for none.
STUB int stub_current_device() {
  return context_stack.empty() ? -1 : context_device(context_stack.back());
}

STUB int cuInit(unsigned) { return record("cuInit"); }
STUB int cuDriverGetVersion(int* version) {
  *version = 13000;
  return record("cuDriverGetVersion");
}
STUB int cuGetErrorName(int result, const char** text) {
  *text = result == 1     ? "CUDA_ERROR_INVALID_VALUE"
          : result == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                          : "CUDA_ERROR_STUB";
  return 0;
}
STUB int cuGetErrorString(int, const char** text) {
  *text = "the stub was told to fail";
  return 0;
}
STUB int cuDeviceGetCount(int* count) {
  *count = 2;
  return record("cuDeviceGetCount");
}
STUB int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < 2 ? record("cuDeviceGet") : 101;
}
STUB int cuDeviceGetName(char* name, int length, int device) {
  std::strncpy(name, device == 0 ? "Stub 0" : "Stub 1", static_cast<std::size_t>(length));
  return record("cuDeviceGetName");
}
STUB int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 97 ? 232448 : 1024;
  return record("cuDeviceGetAttribute");
}
STUB int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &contexts[static_cast<std::size_t>(device)];
  return record("cuDevicePrimaryCtxRetain");
}
STUB int cuCtxGetCurrent(void** context) {
  *context = context_stack.empty() ? nullptr : context_stack.back();
  return record("cuCtxGetCurrent");
}
STUB int cuCtxGetDevice(int* device) {
  *device = stub_current_device();
  return context_stack.empty() ? no_context : record("cuCtxGetDevice");
}
STUB int cuCtxPushCurrent_v2(void* context) {
  context_stack.push_back(context);
  return record("cuCtxPushCurrent");
}
STUB int cuCtxPopCurrent_v2(void** context) {
  *context = context_stack.back();
  context_stack.pop_back();
  return record("cuCtxPopCurrent");
}
STUB int cuLibraryLoadData(void** library, const void*, int*, void**, unsigned, int*, void**,
                           unsigned) {
  *library = handle(0x1000);
  return record("cuLibraryLoadData");
}
STUB int cuLibraryUnload(void*) { return record("cuLibraryUnload"); }
STUB int cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = handle(0x2000);
  return record("cuLibraryGetKernel");
}
STUB int cuKernelGetFunction(void** function, void*) {
  if (context_stack.empty()) return no_context;
  *function = handle(0x3000);
  return record("cuKernelGetFunction");
}
#ifdef STUB_PARAMETER_SIZES  // where all kernels have the same parameters
STUB int cuKernelGetParamInfo(void*, std::size_t index, std::size_t* offset, std::size_t* size) {
  constexpr std::size_t sizes[] = {STUB_PARAMETER_SIZES};
  if (context_stack.empty()) return no_context;
  *offset = 0;
  *size = sizes[index];
  return record("cuKernelGetParamInfo");
}
#endif
STUB int cuKernelGetAttribute(int* value, int attribute, void*, int) {
  *value = attribute == 0 ? 1024 : attribute == 1 ? state().static_shared_bytes : 32;
  return record("cuKernelGetAttribute");
}
STUB int cuKernelSetAttribute(int, int value, void*, int) {
  state().opted_in_bytes = value;
  return record("cuKernelSetAttribute");
}
STUB int cuPointerGetAttribute(void* value, int, const void* pointer) {
  const int device = (reinterpret_cast<std::uintptr_t>(pointer) >> 40) & 1 ? 1 : 0;
  std::memcpy(value, &device, sizeof(device));
  return record("cuPointerGetAttribute");
}
STUB int cuStreamIsCapturing(void*, int* status) {
  if (context_stack.empty()) return no_context;
  *status = state().capturing;
  return record("cuStreamIsCapturing");
}
STUB int cuStreamGetCaptureInfo_v2(void*, int* status, std::uint64_t* id, void*, void*,
                                   std::size_t*) {
  if (context_stack.empty()) return no_context;
  *status = state().capturing;
  *id = 7;
  return record("cuStreamGetCaptureInfo");
}
STUB int cuStreamWaitEvent(void*, void*, unsigned) { return record("cuStreamWaitEvent"); }
STUB int cuEventCreate(void** event, unsigned) {
  if (context_stack.empty()) return no_context;
  *event = handle(0x4000);
  return record("cuEventCreate");
}
STUB int cuEventRecord(void*, void*) { return record("cuEventRecord"); }
STUB int cuEventDestroy_v2(void*) { return record("cuEventDestroy"); }
namespace {

int launch(const char* call, void* function, std::array<unsigned, 6> dims, unsigned shared_bytes,
           void* stream, void** parameters) {
  if (context_stack.empty()) return no_context;
  const int result = record(call);
  if (result != 0) return result;
  Launch launch;
  launch.function = function;
  launch.dims = dims;
  launch.shared_bytes = shared_bytes;
  launch.stream = stream;
  launch.device = stub_current_device();
  State& s = state();
  const std::lock_guard lock(s.guard);
  for (std::size_t i = 0; i < s.parameter_count; ++i) {
    std::memcpy(launch.parameters.emplace_back().data(), parameters[i], 16);
  }
  s.launches.push_back(std::move(launch));
  return 0;
}

}  // namespace

STUB int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        void* stream, void** parameters, void**) {
  return launch("cuLaunchKernel", function, {grid_x, grid_y, grid_z, block_x, block_y, block_z},
                shared_bytes, stream, parameters);
}
STUB int cuLaunchCooperativeKernel(void* function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, void* stream,
                                   void** parameters) {
  return launch("cuLaunchCooperativeKernel", function,
                {grid_x, grid_y, grid_z, block_x, block_y, block_z}, shared_bytes, stream,
                parameters);
}
STUB int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int threads, std::size_t) {
  *blocks = 2048 / threads;
  return 0;
}
