// Finds pairs of accesses to shared or global memory that nothing puts in order.
//
// Each granule of memory remembers its last write and its last two readers, each stamped with the
// thread and the epoch of its warp. An epoch ends where a thread synchronises; who has synchronised
// with whom since is what `known` tables tell: vector clocks, as in FastTrack (Flanagan and Freund,
// 2009), but one clock for a warp between warps, and one for a lane within its warp. What one block
// knows of another is in Releases. Volatile accesses, and atomics behind a fence, order all that
// came before them in their warp, so what they guard is not reported.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "program.hpp"
#include "releases.hpp"
#include "shadow.hpp"
#include "stamp.hpp"

namespace cudademo::emulator {

// How an access counts: a write that changes nothing may be one of several that write the same.
enum class Touch : std::uint8_t { read, write, same_write, strong };

class Races {
 public:
  // A granule of shared memory is of 1 << shared_shift bytes, and no access to it is smaller.
  // Without a shadow global memory is not watched; without releases blocks know nothing of one
  // another.
  Races(std::uint64_t block, std::size_t shared_bytes, unsigned shared_shift, unsigned warps,
        Shadow* shadow, Releases* releases);

  // Each gives the access that this one conflicts with.
  std::optional<Stamp> shared(const Stamp& who, std::size_t offset, std::size_t bytes, Touch touch);
  std::optional<Stamp> global(const Stamp& who, std::uint64_t address, std::size_t bytes,
                              Touch touch);
  // Who wrote a byte of shared memory last.
  const Stamp& shared_writer(std::size_t offset) const noexcept {
    return shared_[offset >> shared_shift_].writer;
  }
  // A write is one step with its values: of blocks that write the same at one time none conflicts.
  std::optional<Stamp> write_global(const Stamp& who, std::uint64_t address, std::size_t bytes,
                                    const void* values);
  // The stamp of a thread's access now.
  Stamp stamp(std::uint32_t thread, std::uint32_t site, bool writes) const noexcept;

  // Lanes of a warp have met.
  void meet(unsigned warp, Mask group);
  // A warp has come to a barrier of the block, and has left it.
  void arrive(unsigned warp, int barrier);
  void leave(unsigned warp, int barrier);
  // A strong access: an atomic or a volatile one. `across` says that other blocks may see its
  // order.
  struct Strong {
    Order order = Order::relaxed;
    bool is_atomic = false;
    bool reads = true;
    bool writes = true;
    bool across = false;
  };
  void order(unsigned warp, std::uint64_t place, const Strong& access);
  void fence(unsigned warp, bool across);
  // A warp arrives at the mbarrier of this place; the last has; a warp has seen that.
  void release(unsigned warp, std::uint64_t mbarrier);
  void complete(std::uint64_t mbarrier);
  void acquire(unsigned warp, std::uint64_t mbarrier);

 private:
  struct WarpClocks {
    std::uint32_t epoch = 1;
    Clock known{};  // of other warps
    std::array<Clock, lanes> lanes_known{};
    std::optional<Clock> fenced;         // what others may know from the next strong write on
    std::optional<Clock> fenced_across;  // the same of other blocks
  };

  bool is_before(const Stamp& then, const Stamp& now) const;
  std::optional<Stamp> touch_bytes(Cell* first, std::size_t bytes, unsigned shift, const Stamp& now,
                                   Touch touch) const;
  Clock visible(unsigned warp) const;

  std::uint64_t block_;
  std::vector<Cell> shared_;
  unsigned shared_shift_;
  Shadow* shadow_;
  Releases* releases_;
  std::vector<WarpClocks> warps_;
  std::array<Clock, 16> barriers_{};
  std::map<std::uint64_t, Clock> ordered_;
  struct Phases {
    Clock gathered{};
    Clock complete{};
  };
  std::map<std::uint64_t, Phases> mbarriers_;
};

}  // namespace cudademo::emulator
