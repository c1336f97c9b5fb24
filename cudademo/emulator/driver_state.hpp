// What the driver's functions share: results, limits, handles, and the state of the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "block.hpp"
#include "fault.hpp"
#include "heap.hpp"
#include "history.hpp"
#include "interface.hpp"
#include "memory.hpp"
#include "program.hpp"

// Of a function that a program finds in the library.
#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace cudademo::emulator {

using Result = int;

inline constexpr Result success = 0;
inline constexpr Result invalid_value = 1;
inline constexpr Result out_of_memory = 2;
inline constexpr Result invalid_device = 101;
inline constexpr Result invalid_image = 200;
inline constexpr Result invalid_context = 201;
inline constexpr Result invalid_ptx = 218;
inline constexpr Result invalid_handle = 400;
inline constexpr Result not_found = 500;
inline constexpr Result illegal_address = 700;
inline constexpr Result out_of_resources = 701;
inline constexpr Result launch_timeout = 702;
inline constexpr Result assert_failed = 710;
inline constexpr Result misaligned_address = 716;
inline constexpr Result invalid_address_space = 717;
inline constexpr Result launch_failed = 719;
inline constexpr Result cooperative_launch_too_large = 720;
inline constexpr Result not_supported = 801;

inline constexpr int max_block_threads = 1024;
inline constexpr int shared_opt_in_bytes = static_cast<int>(max_shared_bytes);
inline constexpr int shared_default_bytes = 48 * 1024;

struct KernelHandle {
  std::shared_ptr<const Program> program;
  const Function* function;
  int dynamic_limit;  // bytes of dynamic shared memory that a launch may ask for
};

struct LibraryHandle {
  std::shared_ptr<const Program> program;
  std::map<std::string, std::unique_ptr<KernelHandle>, std::less<>> kernels;
};

using Allocations = std::map<std::uint64_t, std::pair<std::size_t, std::unique_ptr<std::byte[]>>>;

// All that the process shares. Made at first use and never destroyed: launches may come late.
struct State {
  std::mutex guard;
  Allocations allocations;  // of cuMemAlloc, by address
  std::map<const void*, std::unique_ptr<LibraryHandle>> libraries;
  std::map<const void*, KernelHandle*> kernels;  // of all libraries, by their own addresses
  CudademoEmulatorOptions options{1, 0, std::uint64_t{1} << 28, 0, 8, 0};
  Heap heap;
  History history;
  std::atomic<std::uint64_t> launches{0};
  std::atomic<std::uint64_t> executed{0};
  int context = 0;  // its address is the one context's
};

State& state();

// Of this thread: the stack of contexts, and the arrays that its next launch may touch.
extern thread_local std::vector<void*> contexts;
extern thread_local std::vector<Range> arrays;
extern thread_local std::string kernel_name;  // the launch's, as reports call it
// The latest report, until it is taken.
extern thread_local Report latest;
extern thread_local bool has_report;

void remember(Report report);

Range range_of(const Allocations::value_type& allocation);

// A copy, since the library may be unloaded meanwhile; empty where the handle is no kernel's.
std::optional<KernelHandle> kernel_of(const void* handle);

// The multiprocessors that the device says it has, and the blocks of a kernel that one runs at
// once.
int multiprocessors();
int active_blocks(const KernelHandle& kernel, std::uint64_t block_threads,
                  std::size_t dynamic_shared_bytes);

// Runs a kernel to its end.
Result launch(const void* handle, const Extent& grid, const Extent& block,
              std::uint32_t shared_bytes, void** parameters, bool is_cooperative);

}  // namespace cudademo::emulator
