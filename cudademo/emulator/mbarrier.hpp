// One lane's use of an mbarrier in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "mbarriers.hpp"
#include "program.hpp"

namespace cudademo::emulator {

class Warp;

class Mbarrier {
 public:
  // At a generic address. Throws Fault where none is.
  Mbarrier(Warp& warp, const Instruction& instruction, unsigned lane, std::uint64_t address);

  const MbarrierState& state() const noexcept { return state_; }
  std::uint64_t offset() const noexcept { return offset_; }

  // The phase waits for so many more bytes, or fewer.
  void expect(std::int32_t bytes);
  // Who waits for the phase will know what the warp has done.
  void release() const;
  // Throws Fault for more arrivals than the phase waits for.
  void arrive(std::uint32_t count, bool drops);
  // Whether the phase of this parity is over; the warp then knows what was before the arrivals.
  bool has_completed(bool phase);
  // Throws Fault where there have been too many such waits of the warp for one phase.
  void wait_in_vain();

 private:
  void settle();
  void look_for_moved();
  std::string where() const;

  Warp* warp_;
  unsigned lane_;
  std::uint64_t offset_;
  std::byte* place_ = nullptr;
  MbarrierState state_;
};

}  // namespace cudademo::emulator
