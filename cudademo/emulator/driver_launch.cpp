// A launch: its parameters and memory, and what its faults are to the driver.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "driver_state.hpp"

namespace cudademo::emulator {

namespace {

constexpr std::size_t grid_workspace_bytes = 64;  // more than cooperative_groups uses

Result result_of(const Report& report) {
  const std::string kind = report.kind;
  if (kind == kind::out_of_bounds || kind == kind::freed || kind == kind::uninitialised)
    return illegal_address;
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

bool has_all(const Function& entry, void** parameters) {
  if (entry.parameters.empty()) return true;
  return parameters != nullptr &&
         std::all_of(parameters, parameters + entry.parameters.size(),
                     [](const void* parameter) { return parameter != nullptr; });
}

Memory memory_of(const Program& program, std::vector<Range> given) {
  Memory memory;
  for (Range& range : given) memory.add(std::move(range));
  for (const StaticMemory& item : program.statics) {
    const auto begin = reinterpret_cast<std::uint64_t>(item.data);
    memory.add({begin, begin + item.bytes, "the variable " + item.name, !item.is_constant,
                item.is_constant});
  }
  {
    const std::lock_guard lock(state().guard);
    for (const auto& allocation : state().allocations) memory.add(range_of(allocation));
  }
  memory.finish();
  return memory;
}

}  // namespace

int multiprocessors() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// 64 warps and 32 blocks, as compute capability 8.0 has them (CUDA Programming Guide, technical
// specifications), and the shared memory that one block may ask for. Registers do not count here.
int active_blocks(const KernelHandle& kernel, std::uint64_t block_threads,
                  std::size_t dynamic_shared_bytes) {
  const std::size_t warps = (block_threads + lanes - 1) / lanes;
  const std::size_t shared =
      kernel.function->static_shared_bytes + dynamic_shared_bytes + reserved_shared_bytes;
  return static_cast<int>(
      std::min({64 / warps, std::size_t{32}, (max_shared_bytes + reserved_shared_bytes) / shared}));
}

Result launch(const void* handle, const Extent& grid, const Extent& block,
              std::uint32_t shared_bytes, void** parameters, bool is_cooperative) {
  std::vector<Range> given = std::exchange(arrays, {});  // of this launch, even if it is refused
  const std::optional<KernelHandle> known = kernel_of(handle);
  if (!known) return invalid_handle;
  const KernelHandle& kernel = *known;
  const Function& entry = *kernel.function;
  if (!has_all(entry, parameters)) return invalid_value;
  if (grid.count() == 0 || block.count() == 0 || block.count() > max_block_threads ||
      block.z > 64 || block.count() > entry.max_threads || grid.y > 65535 || grid.z > 65535 ||
      grid.x > 0x7fffffff) {
    return invalid_value;
  }
  if (static_cast<std::int64_t>(shared_bytes) > kernel.dynamic_limit) return invalid_value;
  if (is_cooperative && grid.count() > static_cast<std::uint64_t>(multiprocessors()) *
                                           static_cast<std::uint64_t>(active_blocks(
                                               kernel, block.count(), shared_bytes))) {
    return cooperative_launch_too_large;
  }
  alignas(16) std::byte workspace[grid_workspace_bytes]{};
  Launch work;
  {
    const std::lock_guard lock(state().guard);
    const CudademoEmulatorOptions& options = state().options;
    work.options = {options.checks != 0, options.seed, options.budget, options.threads};
  }
  if (work.options.checks) state().history.remember(given, kernel_name);
  if (is_cooperative) {
    work.grid_workspace = reinterpret_cast<std::uint64_t>(workspace);
    given.push_back({work.grid_workspace, work.grid_workspace + sizeof(workspace),
                     "the barrier of the grid", true, false});
  }
  const Memory memory = memory_of(*kernel.program, std::move(given));
  work.program = kernel.program.get();
  work.entry = &entry;
  work.grid = grid;
  work.block = block;
  work.dynamic_shared_bytes = shared_bytes;
  work.parameters = pack(entry, parameters);
  work.memory = &memory;
  work.heap = &state().heap;
  work.history = &state().history;
  work.number = ++state().launches;
  work.is_cooperative = is_cooperative;
  try {
    run(work);
  } catch (const Fault& fault) {
    state().executed += work.executed;
    remember(fault.report);
    return result_of(fault.report);
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  } catch (const std::system_error&) {  // no more threads
    return out_of_resources;
  }
  state().executed += work.executed;
  return success;
}

}  // namespace cudademo::emulator
