// The driver's functions themselves: handles, values that are none, threads of the host.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "emulated.hpp"
#include "heap.hpp"
#include "history.hpp"

namespace cudademo::emulator {

namespace {

using Words = std::vector<std::uint32_t>;

// CUresults, from cuda.h.
constexpr int invalid_value = 1;
constexpr int out_of_memory = 2;
constexpr int invalid_device = 101;
constexpr int invalid_image = 200;
constexpr int invalid_context = 201;
constexpr int invalid_handle = 400;
constexpr int not_found = 500;

int load(void** library, const char* image) {
  return cuLibraryLoadData(library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

void the_device_is_there() {
  int value = -1;
  expect(cuInit(0) == 0 && cuDeviceGetCount(&value) == 0 && value == 1, "one device");
  expect(cuDeviceGet(&value, 0) == 0 && value == 0, "of number 0");
  expect(cuDeviceGet(&value, 1) == invalid_device, "and no other");
  expect(cuDeviceGet(nullptr, 0) == invalid_value, "nowhere to put it");
  expect(cuDeviceGetAttribute(&value, 10, 0) == 0 && value == 32, "warps of 32");
  expect(cuDeviceGetAttribute(&value, 10, 3) == invalid_device, "of that device");
  expect(cuDeviceGetAttribute(nullptr, 10, 0) == invalid_value, "nowhere to put it");
  char name[5] = {'?', '?', '?', '?', '?'};
  expect(cuDeviceGetName(name, 5, 0) == 0 && std::string(name) == "cuda", "a name cut to 4");
  expect(cuDeviceGetName(name, 0, 0) == invalid_value, "no room for a name");
  const char* text = nullptr;
  expect(cuGetErrorName(716, &text) == 0 && std::string(text) == "CUDA_ERROR_MISALIGNED_ADDRESS",
         "a result's name");
  expect(cuGetErrorName(9999, &text) == invalid_value && text == nullptr, "no such result");
}

void contexts_are_a_stack_of_each_thread() {
  void* context = nullptr;
  void* current = nullptr;
  int device = -1;
  expect(cuDevicePrimaryCtxRetain(&context, 0) == 0 && context != nullptr, "a context");
  expect(cuCtxGetDevice(&device) == invalid_context, "none is current at first");
  expect(cuCtxPopCurrent_v2(&current) == invalid_context, "nor is there one to pop");
  cuCtxPushCurrent_v2(context);
  expect(cuCtxGetCurrent(&current) == 0 && current == context, "the one pushed is current");
  std::thread([] {
    void* other = nullptr;
    expect(cuCtxGetCurrent(&other) == 0 && other == nullptr, "but not in another thread");
  }).join();
  expect(cuCtxPopCurrent_v2(&current) == 0 && current == context, "and comes back");
}

void handles_that_are_none_are_refused() {
  void* library = nullptr;
  expect(load(&library, nullptr) == invalid_value, "no image");
  expect(load(nullptr, "") == invalid_value, "nowhere to put it");
  expect(load(&library, "\177ELF and so on") == invalid_image, "a cubin");
  expect(cuLibraryUnload(nullptr) == invalid_handle, "no library to unload");
  void* kernel = nullptr;
  int somewhere = 0;
  std::size_t offset = 0;
  for (void* none : {static_cast<void*>(nullptr), static_cast<void*>(&somewhere)}) {
    expect(cuLibraryGetKernel(&kernel, none, "k") == invalid_handle, "a kernel of no library");
    expect(cuKernelGetFunction(&kernel, none) == invalid_handle, "a function of no kernel");
    expect(cuKernelGetAttribute(&somewhere, 0, none, 0) == invalid_handle, "its attribute");
    expect(cuKernelSetAttribute(8, 100, none, 0) == invalid_handle, "the same, set");
    expect(cuKernelGetParamInfo(none, 0, &offset, nullptr) == invalid_handle, "its parameter");
    expect(cuLaunchKernel(none, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == invalid_handle,
           "a launch of no kernel");
    expect(cuOccupancyMaxActiveBlocksPerMultiprocessor(&somewhere, none, 32, 0) == invalid_handle,
           "blocks of no kernel");
  }
  expect(load(&library, kernel_of("").c_str()) == 0, "a library");
  expect(cuLibraryGetKernel(&kernel, library, "other") == not_found, "a kernel not in it");
  expect(cuLibraryGetKernel(&kernel, library, nullptr) == invalid_value, "a kernel without a name");
  expect(cuLibraryGetKernel(&kernel, library, "k") == 0, "a kernel");
  expect(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr) == invalid_value,
         "a launch without parameters");
  void* parameters[] = {nullptr};
  expect(
      cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr) == invalid_value,
      "a launch with a parameter that is nowhere");
  expect(cuLibraryUnload(library) == 0 && cuLibraryUnload(library) == invalid_handle,
         "unloaded once");
  expect(
      cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr) == invalid_handle,
      "a launch of a kernel that was unloaded");
}

void shapes_that_cannot_be_are_refused() {
  const Emulated emulated(kernel_of(""));
  Words out(32);
  void* pointer = out.data();
  void* parameters[] = {&pointer};
  const auto launch = [&](unsigned grid, unsigned y, unsigned block, unsigned shared) {
    return cuLaunchKernel(emulated.kernel(), grid, y, 1, block, 1, 1, shared, nullptr, parameters,
                          nullptr);
  };
  expect(launch(0, 1, 32, 0) == invalid_value, "an empty grid");
  expect(launch(1, 1, 0, 0) == invalid_value, "an empty block");
  expect(launch(1, 1, 1025, 0) == invalid_value, "too large a block");
  expect(launch(1, 65536, 32, 0) == invalid_value, "too high a grid");
  expect(launch(1, 1, 32, 49153) == invalid_value, "too much shared memory");
  expect(cuKernelSetAttribute(8, 300000, emulated.kernel(), 0) == invalid_value, "more than is");
  expect(cuKernelSetAttribute(8, 60000, emulated.kernel(), 0) == 0, "more than is usual");
  expect(emulated.launch(out, {1, 32, 60000}).result == 0, "then it is launched");
  // So many blocks cannot be numbered in memory; the first one ends the launch.
  expect(launch(0x7fffffff, 65535, 32, 0) == 700, "a fault in the first of 2^47 blocks");
}

void memory_is_given_and_taken() {
  std::uint64_t address = 0;
  expect(cuMemAlloc_v2(&address, 0) == invalid_value, "no bytes");
  expect(cuMemAlloc_v2(&address, ~std::size_t{0}) == out_of_memory, "too many");
  expect(cuMemAlloc_v2(&address, 128) == 0 && address % 256 == 0, "some");
  const Words given(32, 7);
  expect(cuMemcpyHtoD_v2(address, given.data(), 128) == 0, "filled");
  const Emulated emulated(kernel_of("ld.global.u32 %r0, [%rd2]; add.u32 %r0, %r0, %r1;"));
  void* parameters[] = {&address};
  expect(cuLaunchKernel(emulated.kernel(), 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr) == 0,
         "a launch that was told of no arrays");
  Words out(32);
  expect(cuMemcpyDtoH_v2(out.data(), address, 128) == 0, "read");
  expect(out[0] == 7 && out[31] == 38, "what the kernel made of it");
  expect(cuMemcpyHtoD_v2(0, given.data(), 4) == invalid_value, "to nowhere");
  expect(cuMemFree_v2(address) == 0 && cuMemFree_v2(address) == invalid_value, "freed once");
  const Outcome late = outcome_of(
      cuLaunchKernel(emulated.kernel(), 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
  expect(late.kind == "use after free" &&
             late.what.find("in 128 bytes of cuMemAlloc, which was freed") != std::string::npos,
         "and used after that: " + late.what);
}

// A launch is told of its arrays' owners; k reads the word at an address that it is given.
void arrays_of_earlier_launches_are_known() {
  const Emulated emulated(heading +
                          ".visible .entry k(.param .u64 at) { .reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
                          "ld.param.u64 %rd1, [at]; ld.global.u32 %r1, [%rd1]; ret; }\n");
  std::vector<Words> memory(4, Words(64));
  const auto launch = [&](const Words& given, std::uint64_t owner, const std::uint32_t* at) {
    const CudademoEmulatorArray array{given.data(), given.data() + given.size(), "array", 1, owner};
    cudademoEmulatorSetArrays("first", &array, 1);
    void* parameters[] = {&at};
    return outcome_of(
        cuLaunchKernel(emulated.kernel(), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  };
  const auto expect_kind = [&](const std::uint32_t* at, const std::string& kind,
                               const std::string& text, const std::string& what) {
    const Outcome done = launch(memory[3], 0, at);
    expect(done.kind == kind && done.what.find(text) != std::string::npos, what + ": " + done.what);
  };
  const std::uint32_t* at = memory[0].data();
  expect(launch(memory[0], 1001, at).result == 0, "a launch");
  expect_kind(at, "out of bounds", "in array, of an earlier launch of first; ", "owned");
  cudademoEmulatorEndOwner(1002);
  expect_kind(at, "out of bounds", "in array, of an earlier launch of first; ", "another's end");
  cudademoEmulatorEndOwner(1001);
  expect_kind(at, "use after free", "of first, which is gone", "its owner's end");
  expect(launch(memory[0], 1003, at).result == 0, "a launch with another's array there");
  expect_kind(at, "out of bounds", "in array, of an earlier launch of first; ", "the new owner's");
  expect(launch(memory[1], 0, memory[1].data()).result == 0, "a launch with nobody's array");
  expect_kind(memory[1].data(), "out of bounds", "of first; ", "nobody's");
}

void the_oldest_arrays_are_forgotten() {
  History history;
  for (std::uint64_t i = 1; i <= History::limit + 1; ++i) {
    history.remember({{i << 8, (i << 8) + 16, "array " + std::to_string(i)}}, "k");
  }
  expect(!history.find(1 << 8, 16), "the oldest");
  expect(history.find((History::limit + 1) << 8, 16).has_value(), "the latest");
  expect(history.find((History::limit / 2 + 2) << 8, 16).has_value(), "and the later half");
  expect(!history.find((History::limit + 1) << 8, 17), "which holds no more bytes than it has");
}

// Some share a module, others load and unload their own, others get a fault that must be theirs.
void threads_of_the_host_launch_at_once() {
  const Emulated shared(kernel_of("mov.u32 %r2, %ctaid.x; mad.lo.u32 %r0, %r1, 3, %r2;"));
  std::atomic<int> wrong{0};
  const auto work = [&](unsigned number) {
    for (unsigned round = 0; round < 8; ++round) {
      Words out(32);
      if (number % 3 == 0) {
        const Outcome done = shared.launch(out, {1, 32});
        if (done.result != 0 || out[31] != 93) ++wrong;
      } else if (number % 3 == 1) {
        const std::string value = std::to_string(number * 100 + round);
        const Emulated own(kernel_of("add.u32 %r0, %r1, " + value + ";"));
        if (own.launch(out).result != 0 || out[1] != number * 100 + round + 1) ++wrong;
      } else {
        out.resize(number);
        const Outcome done = shared.launch(out);
        if (done.kind != "out of bounds" || done.thread != number) ++wrong;
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 6; ++number) threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
  expect(wrong == 0, "each thread's own results and faults");
}

// Blocks on threads of the host: of many faults the first block's is told, each time.
void blocks_run_at_once() {
  CudademoEmulatorOptions options{};
  cudademoEmulatorGetOptions(&options);
  const CudademoEmulatorOptions before = options;
  options.threads = 4;
  cudademoEmulatorConfigure(&options);
  const std::string by_block =
      "mov.u32 %r2, %ctaid.x; mad.lo.u32 %r2, %r2, 32, %r1; mul.wide.u32 %rd3, %r2, 4;\n"
      "add.u64 %rd2, %rd1, %rd3; mul.lo.u32 %r0, %r2, %r2;";
  const Words found = answers(kernel_of(by_block), {20, 32});
  bool right = true;
  for (std::uint32_t i = 0; i < found.size(); ++i) right = right && found[i] == i * i;
  expect(right, "20 blocks on 4 threads");
  const Emulated emulated(kernel_of(by_block));
  for (int round = 0; round < 5; ++round) {
    Words few(200);
    const Outcome done = emulated.launch(few, {20, 32});
    expect(done.kind == "out of bounds" && done.thread == 8, "the first fault: " + done.what);
  }
  cudademoEmulatorConfigure(&before);
}

// Blocks on other threads free, and so many that the oldest are dropped.
void a_freed_block_may_be_looked_at_meanwhile() {
  Heap heap;
  constexpr std::size_t bytes = Heap::limit_bytes / 4;
  const std::uint64_t first = heap.allocate(bytes, "line 1");
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::thread other([&] {
    while (!done) {
      const auto block = heap.nearest(first);
      if (block == nullptr || block->range.label.find("bytes of malloc") == std::string::npos ||
          (!block->is_live() && block->freed_at.find("line 2") == std::string::npos)) {
        ++wrong;
      }
    }
  });
  expect(heap.release(first, "line 2").empty(), "freed");
  for (int round = 0; round < 200; ++round) {
    expect(heap.release(heap.allocate(bytes, "line 1"), "line 2").empty(), "freed as well");
  }
  done = true;
  other.join();
  expect(wrong == 0, "what is known of a block stays while one looks at it");
}

std::uint64_t executed(const std::string& instructions, Shape shape) {
  const std::uint64_t before = cudademoEmulatorExecuted();
  answers(kernel_of(instructions), shape);
  return cudademoEmulatorExecuted() - before;
}

// Some of the PTX become several of the emulator's own, as a read of %tid does.
void instructions_are_counted_by_threads() {
  constexpr std::uint64_t frame = 7;  // of kernel_of's own
  expect(executed("", {3, 40}) == 3 * 40 * frame, "each once for each thread");
  expect(executed("mov.u32 %r2, %ntid.x; add.u32 %r2, %r2, %ctaid.x;", {1, 32}) == 32 * (frame + 2),
         "an operand is none of its own");
  expect(executed("setp.lt.u32 %p1, %r1, 10; @%p1 mov.u32 %r0, %tid.x;", {1, 32}) ==
             32 * (frame + 1) + 10,
         "those whose guard is false do not execute it");
  expect(executed("setp.lt.u32 %p1, %r1, 10; @%p1 bra over; add.u32 %r0, %r0, 1; over:", {1, 32}) ==
             32 * (frame + 1) + 10 + 22,
         "nor those that jump over it");
}

}  // namespace

void launches() {
  the_device_is_there();
  contexts_are_a_stack_of_each_thread();
  handles_that_are_none_are_refused();
  shapes_that_cannot_be_are_refused();
  memory_is_given_and_taken();
  arrays_of_earlier_launches_are_known();
  the_oldest_arrays_are_forgotten();
  threads_of_the_host_launch_at_once();
  blocks_run_at_once();
  a_freed_block_may_be_looked_at_meanwhile();
  instructions_are_counted_by_threads();
}

}  // namespace cudademo::emulator
