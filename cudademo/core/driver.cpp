#include "driver.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "dynlib.hpp"
#include "errors.hpp"

namespace cudademo::driver {

namespace {

constexpr int max_devices = 64;

struct Loaded {
  SharedLibrary library;
  Functions table;
};

std::string library_name() {
  const char* override_path = std::getenv("CUDADEMO_DRIVER");
  return override_path && *override_path ? override_path : "libcuda.so.1";
}

template <typename FunctionPointer>
void resolve(const SharedLibrary& library, FunctionPointer& member, const char* symbol,
             bool required) {
  member = reinterpret_cast<FunctionPointer>(library.symbol(symbol));
  if (member == nullptr && required) {
    throw ToolchainError("the CUDA driver (" + library_name() + ") has no " + symbol +
                         "; cudademo needs a driver of CUDA 12.0 or later (R525): update the "
                         "NVIDIA driver");
  }
}

#define CUDADEMO_RESOLVE_REQUIRED(member, symbol, parameters) \
  resolve(library, table.member, #symbol, true);
#define CUDADEMO_RESOLVE_OPTIONAL(member, symbol, parameters) \
  resolve(library, table.member, #symbol, false);

void resolve_all(const SharedLibrary& library,
                 Functions& table){CUDADEMO_DRIVER_FUNCTIONS(CUDADEMO_RESOLVE_REQUIRED)
                                       CUDADEMO_DRIVER_OPTIONAL(CUDADEMO_RESOLVE_OPTIONAL)}
#undef CUDADEMO_RESOLVE_REQUIRED
#undef CUDADEMO_RESOLVE_OPTIONAL

// In the folder of the library that this code is in.
std::string emulator_library() {
  Dl_info here{};
  dladdr(reinterpret_cast<const void*>(&emulator), &here);
  const std::filesystem::path own = here.dli_fname ? here.dli_fname : "";
  return (own.parent_path() / "libcudademo_emulator.so").string();
}

struct LoadedEmulator {
  SharedLibrary library;
  Emulator table;
};

LoadedEmulator open_emulator() {
  LoadedEmulator loaded{SharedLibrary(emulator_library()), {}};
  Emulator& table = loaded.table;
  resolve_all(loaded.library, table.driver);
  resolve(loaded.library, table.set_arrays, "cudademoEmulatorSetArrays", true);
  resolve(loaded.library, table.end_owner, "cudademoEmulatorEndOwner", true);
  resolve(loaded.library, table.configure, "cudademoEmulatorConfigure", true);
  resolve(loaded.library, table.get_options, "cudademoEmulatorGetOptions", true);
  resolve(loaded.library, table.take_report, "cudademoEmulatorTakeReport", true);
  resolve(loaded.library, table.executed, "cudademoEmulatorExecuted", true);
  return loaded;
}

Loaded open_driver() {
  const std::string name = library_name();
  auto open = [&name]() -> SharedLibrary {
    try {
      return SharedLibrary(name);
    } catch (const ToolchainError& error) {
      throw ToolchainError("no CUDA driver: " + std::string(error.what()) +
                           "; install the NVIDIA driver, or, in a container, start it with "
                           "the GPUs passed through");
    }
  };
  Loaded loaded{open(), {}};
  resolve_all(loaded.library, loaded.table);
  // resolve throws where a required one is missing.
  // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage)
  const Result result = loaded.table.init(0);
  if (result != success) {
    const char* text = nullptr;
    loaded.table.get_error_string(result, &text);
    throw ToolchainError(
        "the CUDA driver does not initialise: " + std::string(text ? text : "unknown error") +
        " (" + std::to_string(result) + ", from cuInit)");
  }
  return loaded;
}

// The one loaded driver. Never destroyed: launches may come from threads that outlive main.
std::atomic<const Functions*> current{nullptr};
std::atomic<bool> lost_in_fork{false};
std::mutex loading;

// CUDA does not survive a fork: the child finds no table, and the slow path says why.
void forget_in_child() {
  current.store(nullptr, std::memory_order_relaxed);
  lost_in_fork.store(true, std::memory_order_relaxed);
}

}  // namespace

const Functions& functions() {
  if (const Functions* table = current.load(std::memory_order_acquire)) return *table;
  const std::lock_guard lock(loading);
  if (const Functions* table = current.load(std::memory_order_relaxed)) return *table;
  if (lost_in_fork.load(std::memory_order_relaxed)) {
    throw ToolchainError(
        "this process was forked from one that had used CUDA already, and CUDA does not survive "
        "a fork: start it with the 'spawn' method (multiprocessing.set_start_method('spawn'))");
  }
  static const Loaded* loaded = new Loaded(open_driver());  // a throw leaves it unset: tried again
  static const int registered = pthread_atfork(nullptr, nullptr, forget_in_child);
  static_cast<void>(registered);
  current.store(&loaded->table, std::memory_order_release);
  return loaded->table;
}

const Emulator& emulator() {
  static const LoadedEmulator* loaded = new LoadedEmulator(open_emulator());
  return loaded->table;
}

void fail(Result result, const char* call, const std::string& what) {
  fail(functions(), result, call, what);
}

void fail(const Functions& driver, Result result, const char* call, const std::string& what) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver.get_error_name(result, &name);
  driver.get_error_string(result, &text);
  const std::string error_name = name ? name : "CUDA_ERROR_" + std::to_string(result);
  std::string message = std::string(call) + " failed: " + error_name + " (" +
                        std::to_string(result) + "): " + (text ? text : "unknown error");
  if (!what.empty()) message += "; " + what;
  throw LaunchError(message, call, result, error_name);
}

std::pair<int, int> version() {
  int number = 0;
  check(functions().driver_get_version(&number), "cuDriverGetVersion");
  return {number / 1000, number % 1000 / 10};
}

std::vector<DeviceInfo> devices() {
  const Functions& driver = functions();
  int count = 0;
  check(driver.device_get_count(&count), "cuDeviceGetCount");
  std::vector<DeviceInfo> all;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Device device = 0;
    check(driver.device_get(&device, ordinal), "cuDeviceGet");
    std::array<char, 256> name{};
    check(driver.device_get_name(name.data(), static_cast<int>(name.size()) - 1, device),
          "cuDeviceGetName");
    all.push_back({name.data(), device_attribute(ordinal, device_capability_major),
                   device_attribute(ordinal, device_capability_minor)});
  }
  return all;
}

Device device_of(int ordinal) {
  Device device = 0;
  const int number = ordinal == emulator_ordinal ? 0 : ordinal;
  check(functions(ordinal).device_get(&device, number), "cuDeviceGet");
  return device;
}

int device_attribute(int ordinal, int attribute) {
  const Functions& driver = functions(ordinal);
  const Device device = device_of(ordinal);
  int value = 0;
  check(driver.device_get_attribute(&value, attribute, device), "cuDeviceGetAttribute");
  return value;
}

int device_of_pointer(const void* pointer) {
  constexpr int attribute_device_ordinal = 9;
  int ordinal = 0;
  check(functions().pointer_get_attribute(&ordinal, attribute_device_ordinal, pointer),
        "cuPointerGetAttribute");
  return ordinal;
}

Context primary_context(int ordinal) {
  if (ordinal == emulator_ordinal) return nullptr;
  static std::array<std::atomic<Context>, max_devices> contexts{};
  if (ordinal < 0 || ordinal >= max_devices) {
    throw ToolchainError("no CUDA device " + std::to_string(ordinal));
  }
  auto& slot = contexts[static_cast<std::size_t>(ordinal)];
  if (Context known = slot.load(std::memory_order_acquire)) return known;
  const Functions& driver = functions();
  Device device = 0;
  check(driver.device_get(&device, ordinal), "cuDeviceGet");
  Context context = nullptr;
  check(driver.primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain");
  slot.store(context, std::memory_order_release);
  return context;
}

int current_device() {
  Device device = 0;  // a CUdevice is an ordinal
  return functions().context_get_device(&device) == success ? device : 0;
}

ContextGuard::ContextGuard(Context context) {
  if (context == nullptr) return;
  const Functions& driver = functions();
  Context active = nullptr;
  check(driver.context_get_current(&active), "cuCtxGetCurrent");
  if (active == context) return;
  check(driver.context_push(context), "cuCtxPushCurrent");
  pushed_by_ = &driver;
}

ContextGuard::~ContextGuard() {
  Context former = nullptr;
  if (pushed_by_ != nullptr) pushed_by_->context_pop(&former);
}

bool is_capturing(Stream stream) {
  int status = 0;
  // Under another thread's global-mode capture the legacy stream answers with an error: that counts
  // as capturing.
  return functions().stream_is_capturing(stream, &status) != success || status != 0;
}

std::uint64_t capture_id(Stream stream) {
  int status = 0;
  std::uint64_t id = 0;
  check(functions().stream_get_capture_info(stream, &status, &id, nullptr, nullptr, nullptr),
        "cuStreamGetCaptureInfo");
  return status == 0 ? 0 : id;
}

void wait_for(Stream stream, Stream producer) {
  constexpr unsigned disable_timing = 2;
  const Functions& driver = functions();
  Event event = nullptr;
  check(driver.event_create(&event, disable_timing), "cuEventCreate");
  const Result recorded = driver.event_record(event, producer);
  const Result waited = recorded == success ? driver.stream_wait_event(stream, event, 0) : recorded;
  driver.event_destroy(event);  // freed by the driver once the event has completed
  check(recorded, "cuEventRecord");
  check(waited, "cuStreamWaitEvent");
}

}  // namespace cudademo::driver
