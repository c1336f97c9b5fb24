// One block of a launch, and the launch that it is of.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "async_copies.hpp"
#include "bulk_stores.hpp"
#include "mbarriers.hpp"
#include "memory.hpp"
#include "program.hpp"
#include "races.hpp"
#include "warp.hpp"

namespace cudademo::emulator {

// Instructions of a warp, before another has its turn.
inline constexpr std::uint64_t slice = 16384;

struct Extent {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;

  std::uint64_t count() const noexcept { return std::uint64_t{x} * y * z; }
};

class Heap;
class History;

struct Options {
  bool checks = true;      // races and uninitialised reads; bounds always are
  std::uint64_t seed = 0;  // permutes blocks and warps; 0 leaves their order
  std::uint64_t budget = std::uint64_t{1} << 28;  // instructions of a warp
  unsigned threads = 0;                           // of the host; 0 for as many as there are cores
};

struct Launch {
  const Program* program = nullptr;
  const Function* entry = nullptr;
  Extent grid;
  Extent block;
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;
  const Memory* memory = nullptr;
  Heap* heap = nullptr;
  const History* history = nullptr;  // null where nothing is remembered
  Shadow* shadow = nullptr;          // null where global memory is not watched for races
  Releases* releases = nullptr;      // null where blocks run at the same time
  Options options;
  std::uint64_t number = 0;  // of the launch, in the process
  std::atomic<std::uint64_t> executed{0};
  bool is_cooperative = false;  // all blocks run at the same time
  // Where the grid of cooperative_groups keeps its barrier; 0 where not all blocks run at once, for
  // which grid.sync() looks.
  std::uint64_t grid_workspace = 0;
};

// What is known of a byte of shared memory.
inline constexpr std::byte byte_unwritten{0};
inline constexpr std::byte byte_written{1};
inline constexpr std::byte byte_awaited{2};  // the target of an asynchronous copy
inline constexpr std::byte byte_held{3};     // written, and the source of a bulk copy

struct Barrier {
  std::uint32_t arrived = 0;   // threads
  std::uint32_t expected = 0;  // 0 for all of the block
  std::uint32_t predicate_count = 0;
  bool all = true;
  bool any = false;
  const Instruction* site = nullptr;
};

class Block {
 public:
  Block(Launch& launch, std::uint64_t linear_index);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Runs its warps in turn, until all are done (true) or each has had its slice. Throws Fault.
  bool run(std::uint64_t slice);

  Launch& launch() const noexcept { return *launch_; }
  const std::array<std::uint32_t, 3>& index() const noexcept { return index_; }
  std::uint64_t linear_index() const noexcept { return linear_; }
  std::array<std::uint32_t, 3> thread(unsigned warp, unsigned lane) const noexcept;
  static std::array<std::uint32_t, 3> index_of(const Launch& launch, std::uint64_t linear) noexcept;

  std::uint32_t shared_bytes() const noexcept { return shared_bytes_; }
  std::uint32_t dynamic_shared_offset() const noexcept { return dynamic_offset_; }
  std::byte* shared(std::uint64_t offset) noexcept { return shared_.data() + offset; }
  // Whether a byte was written, or will be: see `byte_unwritten`.
  std::byte* shared_state(std::uint64_t offset) noexcept { return shared_state_.data() + offset; }

  // Null without checks.
  Races* races() noexcept { return races_ ? &*races_ : nullptr; }
  // The place of a host's address in shared memory; -1 for another.
  std::ptrdiff_t shared_offset(const std::byte* place) const noexcept {
    const std::ptrdiff_t offset = place - shared_.data();
    return offset >= 0 && offset < static_cast<std::ptrdiff_t>(shared_.size()) ? offset : -1;
  }

  AsyncCopies& copies() noexcept { return copies_; }
  Mbarriers& mbarriers() noexcept { return mbarriers_; }
  BulkStores& bulk_stores() noexcept { return bulk_stores_; }

  // ---- barriers ----

  // Some threads of a warp come. The last lets all go on.
  void arrive(Warp& warp, int barrier, std::uint32_t expected, Mask mask, bool waits);
  Barrier& barrier(int number) { return barriers_[static_cast<std::size_t>(number)]; }
  // What a reduction over a barrier came to, for those that have just passed it.
  struct Reduction {
    std::uint32_t count = 0;
    bool all = true;
    bool any = false;
  };
  const Reduction& reduction(int number) const {
    return reductions_[static_cast<std::size_t>(number)];
  }
  void threads_exited();
  bool has_exited() const noexcept { return has_exited_; }

 private:
  std::uint32_t live_threads() const;
  void settle(int number);
  void report_missed(int number);
  [[noreturn]] void report_deadlock();

  Launch* launch_;
  std::uint64_t linear_;
  std::array<std::uint32_t, 3> index_{};
  std::uint32_t dynamic_offset_ = 0;
  std::uint32_t shared_bytes_ = 0;
  std::vector<std::byte> shared_;
  std::vector<std::byte> shared_state_;
  std::optional<Races> races_;
  AsyncCopies copies_;
  Mbarriers mbarriers_;
  BulkStores bulk_stores_;
  std::array<Barrier, 16> barriers_{};
  std::array<Reduction, 16> reductions_{};
  std::vector<Warp> warps_;
  std::vector<std::size_t> order_;
  std::vector<bool> finished_;
  bool progressed_ = false;
  bool has_exited_ = false;  // a thread, while others run
};

// Runs the whole launch. Throws Fault.
void run(Launch& launch);

}  // namespace cudademo::emulator
