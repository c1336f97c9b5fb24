// A kernel given as PTX, loaded and launched through the driver's functions that the emulator has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "interface.hpp"

// As the core's driver.hpp declares them.
extern "C" {
int cuInit(unsigned flags);
int cuDriverGetVersion(int* version);
int cuGetErrorName(int result, const char** text);
int cuDeviceGetCount(int* count);
int cuDeviceGet(int* device, int ordinal);
int cuDeviceGetName(char* name, int length, int device);
int cuDeviceGetAttribute(int* value, int attribute, int device);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxGetCurrent(void** context);
int cuCtxGetDevice(int* device);
int cuCtxPushCurrent_v2(void* context);
int cuCtxPopCurrent_v2(void** context);
int cuLibraryLoadData(void** library, const void* image, int*, void**, unsigned, int*, void**,
                      unsigned);
int cuLibraryUnload(void* library);
int cuLibraryGetKernel(void** kernel, void* library, const char* name);
int cuKernelGetFunction(void** function, void* kernel);
int cuKernelGetAttribute(int* value, int attribute, void* kernel, int device);
int cuKernelSetAttribute(int attribute, int value, void* kernel, int device);
int cuKernelGetParamInfo(void* kernel, std::size_t index, std::size_t* offset, std::size_t* size);
int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes);
int cuMemFree_v2(std::uint64_t address);
int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes);
int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads,
                                                std::size_t shared_bytes);
int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void* stream, void** parameters, void** extra);
}

namespace cudademo::emulator {

inline int failures = 0;

inline void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what.c_str());
  ++failures;
}

inline std::string text_of(const std::vector<std::uint32_t>& values) {
  std::string text;
  for (const std::uint32_t value : values) text += " " + std::to_string(value);
  return text;
}

inline void expect_equal(const std::vector<std::uint32_t>& found,
                         const std::vector<std::uint32_t>& right, const std::string& what) {
  expect(found == right, what + ":" + text_of(found) + ", not" + text_of(right));
}

inline const std::string heading = ".version 8.3\n.target sm_90\n.address_size 64\n";

// A kernel k(out) of these instructions: what they leave in %r0 is stored in the thread's word of
// out. %r1 is the thread's index, %rd1 out's address, and %rd2 that of its own word.
inline std::string kernel_of(const std::string& instructions, const std::string& before = "") {
  return heading + before +
         ".visible .entry k(.param .u64 out) {\n"
         ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>;\n"
         ".reg .f32 %f<8>; .reg .f64 %d<8>;\n"
         "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n"
         "add.u64 %rd2, %rd2, %rd1;\nmov.u32 %r0, 0;\n" +
         instructions + "\nst.global.u32 [%rd2], %r0;\nret;\n}\n";
}

// What became of a launch, or of loading.
struct Outcome {
  int result = 0;
  std::string kind;
  std::string what;
  int line = 0;
  std::uint32_t thread = 0;
};

inline Outcome outcome_of(int result) {
  Outcome made{result, "", "", 0, 0};
  CudademoEmulatorReport report{};
  if (cudademoEmulatorTakeReport(&report) == 0) return made;
  made.kind = report.kind;
  made.what = report.what;
  made.line = report.line;
  made.thread = report.thread[0];
  return made;
}

struct Shape {
  unsigned grid = 1;
  unsigned block = 32;
  unsigned shared_bytes = 0;
};

// A module and its kernel k.
class Emulated {
 public:
  explicit Emulated(const std::string& ptx) {
    loaded_ = outcome_of(
        cuLibraryLoadData(&library_, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    if (loaded_.result != 0) return;
    if (cuLibraryGetKernel(&kernel_, library_, "k") != 0) expect(false, "a kernel k");
  }
  ~Emulated() {
    if (library_ != nullptr) cuLibraryUnload(library_);
  }
  Emulated(const Emulated&) = delete;
  Emulated& operator=(const Emulated&) = delete;

  const Outcome& loaded() const noexcept { return loaded_; }
  void* kernel() const noexcept { return kernel_; }

  // Launches k(out).
  Outcome launch(std::vector<std::uint32_t>& out, Shape shape = {}) const {
    const CudademoEmulatorArray array{out.data(), out.data() + out.size(), "out", 1};
    cudademoEmulatorSetArrays("k", &array, 1);
    void* pointer = out.data();
    void* parameters[] = {&pointer};
    return outcome_of(cuLaunchKernel(kernel_, shape.grid, 1, 1, shape.block, 1, 1,
                                     shape.shared_bytes, nullptr, parameters, nullptr));
  }

 private:
  void* library_ = nullptr;
  void* kernel_ = nullptr;
  Outcome loaded_;
};

// The words that a kernel leaves: of `given`, or zeros, one a thread.
inline std::vector<std::uint32_t> answers(const std::string& ptx, Shape shape = {},
                                          std::vector<std::uint32_t> given = {}) {
  if (given.empty()) given.resize(std::size_t{shape.grid} * shape.block);
  const Emulated emulated(ptx);
  expect(emulated.loaded().result == 0, "loaded: " + emulated.loaded().what);
  const Outcome done = emulated.launch(given, shape);
  expect(done.result == 0, "launched: " + done.kind + ": " + done.what);
  return given;
}

void faults();    // fault_test.cpp
void launches();  // launch_test.cpp

}  // namespace cudademo::emulator
