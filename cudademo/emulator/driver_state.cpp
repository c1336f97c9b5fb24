#include "driver_state.hpp"

#include <utility>

namespace cudademo::emulator {

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

}  // namespace cudademo::emulator
