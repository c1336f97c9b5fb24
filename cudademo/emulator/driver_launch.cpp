// A launch: its parameters and memory, and what its faults are to the driver.
#include <cstring>
#include <new>

#include "driver_state.hpp"

namespace cudademo::emulator {

namespace {

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

}  // namespace

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

}  // namespace cudademo::emulator
