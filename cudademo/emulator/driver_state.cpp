#include "driver_state.hpp"

#include <string>
#include <utility>

namespace cudademo::emulator {

State& state() {
  static State* all = new State();
  return *all;
}

thread_local std::vector<void*> contexts;
thread_local std::vector<Range> arrays;
thread_local std::string kernel_name;
thread_local Report latest;
thread_local bool has_report = false;

std::optional<KernelHandle> kernel_of(const void* handle) {
  const std::lock_guard lock(state().guard);
  const auto found = state().kernels.find(handle);
  if (found == state().kernels.end()) return std::nullopt;
  return *found->second;
}

void remember(Report report) {
  latest = std::move(report);
  has_report = true;
}

}  // namespace cudademo::emulator
