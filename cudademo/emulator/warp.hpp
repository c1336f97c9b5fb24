// Thirty-two threads in lockstep.
//
// A warp is one or more fragments: lanes that run together. A branch that divides a fragment makes
// two and a join, where they meet again; the join stands at the branch's immediate post-dominator.
// Fragments take turns, so that lanes that wait for other lanes of their warp get what they wait
// for, as on hardware since Volta.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fault.hpp"
#include "program.hpp"

namespace cudademo::emulator {

class Block;

// One call of a function, by the lanes that call it together.
struct Frame {
  const Function* function = nullptr;
  std::unique_ptr<std::byte[]> storage;
  std::byte* rows = nullptr;
  std::vector<std::byte> parameters;  // lane by lane
  std::array<std::uint32_t, lanes> local_base{};
  Frame* caller = nullptr;
  std::uint32_t return_pc = 0;
  int caller_join = -1;
  const CallSite* site = nullptr;
};

struct Fragment {
  enum class State : std::uint8_t { ready, at_barrier, at_warp_sync };
  Mask mask = 0;
  std::uint32_t pc = 0;
  int join = -1;
  Frame* frame = nullptr;
  State state = State::ready;
  int barrier = -1;
  Mask waiting = 0;  // lanes whose guard was true, at a warp's synchronisation
  Mask members = 0;  // for whom they wait there
};

struct Join {
  std::uint32_t pc = 0;
  Mask expected = 0;
  Mask arrived = 0;
  int parent = -1;
  Frame* frame = nullptr;
  bool in_use = false;
};

class Warp {
 public:
  enum class Outcome : std::uint8_t { finished, waiting, running };

  Warp(Block& block, unsigned index, Mask live);
  Warp(Warp&&) = default;

  // Runs for up to so many instructions. Throws Fault.
  Outcome run(std::uint64_t instructions);

  // ---- for instructions ----

  std::byte* rows() const noexcept { return rows_; }
  Block& block() const noexcept { return *block_; }
  unsigned index() const noexcept { return index_; }
  // A lane's thread, by its number in the block.
  unsigned thread_number(unsigned lane) const noexcept { return index_ * lanes + lane; }
  Mask live() const noexcept { return live_; }
  Mask active() const noexcept { return mask_; }  // the fragment's, whatever the guard
  Frame& frame() const noexcept { return *frame_; }
  std::uint64_t executed() const noexcept { return executed_; }

  Mask carry = 0;  // what add.cc and its kin leave, a bit for each lane

  // Sends these of the fragment's lanes to `target`.
  void branch(Mask taken, std::uint32_t target, std::uint32_t reconverge);
  // The same, each lane to its own place. `targets` holds lane after lane.
  void branch_each(Mask taken, const std::uint32_t* targets, std::uint32_t reconverge);
  void call(const CallSite& site, const Function& callee, Mask mask);
  void call_each(const CallSite& site, const std::array<const Function*, lanes>& callees,
                 Mask mask);
  void leave_function();
  void exit(Mask mask);
  void wait_at_barrier(int barrier);
  // True once all members are here: then `mask` holds the lanes to do it for. Where it is false the
  // instruction is done later, by the last to come.
  bool gather(Mask members, Mask& mask);
  // These lanes come to the current instruction again, by themselves.
  void postpone(Mask lanes_of_it) { branch(lanes_of_it, pc_ - 1, pc_); }
  // Lets other warps run.
  void yield() noexcept { leaving_ = true; }

  // ---- for the block ----

  const std::vector<Fragment>& fragments() const noexcept { return fragments_; }
  // True where lanes of it waited there.
  bool release_from_barrier(int barrier);
  std::byte* local(unsigned lane, std::uint64_t offset, std::size_t bytes) noexcept;
  std::byte* local_state(unsigned lane, std::uint64_t offset) noexcept;
  std::uint32_t local_top(unsigned lane) const noexcept { return local_top_[lane]; }
  void set_local_top(unsigned lane, std::uint32_t top);

  // A report of the current instruction with this thread in it.
  Report report(const char* kind, unsigned lane) const;
  [[noreturn]] void fail(const char* kind, unsigned lane, std::string what) const;
  // The user's "file:line" where a fragment stands.
  std::string place_of(const Fragment& fragment) const;

 private:
  Frame* make_frame(const Function& function, Mask mask);
  void pick(std::size_t fragment);
  void put_back();
  void remove_current();
  void arrive();
  int new_join(std::uint32_t pc);
  void leave_joins(int join, Frame* frame, Mask mask);
  void complete(int join);

  Block* block_;
  unsigned index_;
  Mask live_;
  std::vector<Fragment> fragments_;
  std::vector<Join> joins_;
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<Frame*> free_frames_;
  std::size_t frame_bytes_ = 0;
  std::array<std::vector<std::byte>, lanes> local_;
  std::array<std::vector<std::byte>, lanes> local_state_;  // one where the byte was written
  std::array<std::uint32_t, lanes> local_top_{};

  // The fragment that runs, taken out of fragments_.
  std::size_t current_ = 0;
  Mask mask_ = 0;
  std::uint32_t pc_ = 0;
  int join_ = -1;
  Frame* frame_ = nullptr;
  std::byte* rows_ = nullptr;
  const Instruction* instruction_ = nullptr;
  bool leaving_ = false;
  std::uint64_t executed_ = 0;  // by threads
};

}  // namespace cudademo::emulator
