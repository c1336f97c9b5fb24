// mbarrier: barriers in shared memory, at which threads arrive and for whose phases they wait.
#include "mbarrier.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "access.hpp"
#include "block.hpp"
#include "lanes.hpp"

namespace cudademo::emulator {

Mbarrier::Mbarrier(Warp& warp, const Instruction& instruction, unsigned lane, u64 address)
    : warp_(&warp), lane_(lane), offset_(shared_place(warp, lane, address)) {
  place_ = locate(warp, instruction, lane, offset_, sizeof(u64), Use::atomic);
  note(warp, instruction, lane, place_, sizeof(u64), Use::read);  // of what init wrote
  u64 bits;
  std::memcpy(&bits, place_, sizeof(bits));
  if (!MbarrierState::is_valid(bits)) {
    warp.fail(kind::invalid, lane, "an mbarrier that no mbarrier.init has made" + where());
  }
  state_ = MbarrierState::of(bits);
}

std::string Mbarrier::where() const {
  return " (byte " + std::to_string(offset_ - reserved_shared_bytes) + " of shared memory)";
}

void Mbarrier::expect(std::int32_t bytes) {
  state_.bytes += bytes;
  settle();
}

void Mbarrier::release() const {
  if (Races* races = warp_->block().races()) races->release(warp_->index(), offset_);
}

void Mbarrier::arrive(u32 count, bool drops) {
  if (count > state_.pending) look_for_moved();
  if (count == 0 || count > state_.pending) {
    warp_->fail(kind::barrier, lane_,
                std::to_string(count) + " arrivals at an mbarrier that waits for " +
                    std::to_string(state_.pending) + where());
  }
  release();
  state_.pending -= count;
  if (drops) state_.expected -= count;
  settle();
}

// Begins the next phase where this one has all that it waits for.
void Mbarrier::settle() {
  if (state_.pending == 0 && state_.bytes == 0) {
    state_.pending = state_.expected;
    state_.phase = !state_.phase;
    warp_->block().mbarriers().complete(warp_->block(), offset_);
  }
  const u64 bits = state_.bits();
  std::memcpy(place_, &bits, sizeof(bits));
}

// Bulk copies come as late as they may, so that who does not wait for them is found.
void Mbarrier::look_for_moved() {
  const u32 bytes = warp_->block().mbarriers().take_moved(offset_);
  if (bytes != 0) expect(-static_cast<std::int32_t>(bytes));
}

bool Mbarrier::has_completed(bool phase) {
  look_for_moved();
  if (state_.phase == phase) return false;
  if (Races* races = warp_->block().races()) races->acquire(warp_->index(), offset_);
  return true;
}

void Mbarrier::wait_in_vain() {
  Block& block = warp_->block();
  // The block's budget is spent by all warps that wait; this ends before it, and can say where.
  const u64 warps = (block.launch().block.count() + lanes - 1) / lanes;
  const u64 limit = std::max<u64>(block.launch().options.budget / (slice * 4 * warps), 8);
  if (block.mbarriers().count_vain(offset_, warp_->index()) <= limit) return;
  std::string missing =
      std::to_string(state_.pending) + " of " + std::to_string(state_.expected) + " arrivals";
  if (state_.bytes != 0) missing += " and " + std::to_string(state_.bytes) + " bytes";
  warp_->fail(kind::deadlock, lane_,
              "an endless wait for an mbarrier, at which " + missing + " are missing" + where());
}

namespace {

using ptx::Space;

// Writes the bits of a new mbarrier, or of none.
void overwrite(Warp& warp, const Instruction& instruction, unsigned lane, u64 address, u64 bits) {
  const u64 offset = shared_place(warp, lane, address);
  std::byte* place = locate(warp, instruction, lane, offset, sizeof(bits), Use::write);
  note(warp, instruction, lane, place, sizeof(bits), Use::write);
  std::memcpy(place, &bits, sizeof(bits));
  warp.block().mbarriers().forget(offset);
}

// rows: the address, the count.
void init(Warp& warp, const Instruction& instruction, Mask mask) {
  const u64* addresses = row<u64>(warp, instruction.rows[0]);
  const u32* counts = row<u32>(warp, instruction.rows[1]);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    if (counts[lane] == 0 || counts[lane] > MbarrierState::most) {
      warp.fail(kind::invalid, lane,
                "an mbarrier for " + std::to_string(counts[lane]) +
                    " arrivals; there may be 1 to 1048575");
    }
    overwrite(warp, instruction, lane, addresses[lane],
              MbarrierState{counts[lane], counts[lane], 0, false}.bits());
  }
}

void invalidate(Warp& warp, const Instruction& instruction, Mask mask) {
  const u64* addresses = row<u64>(warp, instruction.rows[0]);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (is_set(mask, lane)) overwrite(warp, instruction, lane, addresses[lane], 0);
  }
}

enum Arrival : std::uint8_t {
  expects = 1,
  drops = 2,
  arrives = 4,
  completes = 8,
  no_complete = 16
};

// rows: the address, the count or the bytes, and the state or none.
void arrive(Warp& warp, const Instruction& instruction, Mask mask) {
  const u64* addresses = row<u64>(warp, instruction.rows[0]);
  const u32* counts = row<u32>(warp, instruction.rows[1]);
  const unsigned how = instruction.detail;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    Mbarrier mbarrier(warp, instruction, lane, addresses[lane]);
    const u64 before = mbarrier.state().bits();
    if ((how & expects) != 0) mbarrier.expect(static_cast<std::int32_t>(counts[lane]));
    if ((how & completes) != 0) mbarrier.expect(-static_cast<std::int32_t>(counts[lane]));
    if ((how & arrives) != 0) {
      const u32 count = (how & expects) != 0 ? 1 : counts[lane];
      if ((how & no_complete) != 0 && count == mbarrier.state().pending) {
        warp.fail(kind::barrier, lane, "an arrival with .noComplete that completes the phase");
      }
      mbarrier.arrive(count, (how & drops) != 0);
    }
    if (instruction.rows[2] != no_row) row<u64>(warp, instruction.rows[2])[lane] = before;
  }
}

// rows: the address, the state or the parity, and the result.
template <bool parity>
void wait(Warp& warp, const Instruction& instruction, Mask mask) {
  const u64* addresses = row<u64>(warp, instruction.rows[0]);
  Mask complete = 0;
  std::optional<Mbarrier> vain;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    const bool phase = parity ? (row<u32>(warp, instruction.rows[1])[lane] & 1) != 0
                              : MbarrierState::of(row<u64>(warp, instruction.rows[1])[lane]).phase;
    Mbarrier mbarrier(warp, instruction, lane, addresses[lane]);
    if (mbarrier.has_completed(phase))
      complete |= Mask{1} << lane;
    else
      vain = mbarrier;
  }
  put_mask(warp, instruction.rows[2], complete, mask);
  if (!vain) return;
  vain->wait_in_vain();
  warp.yield();
}

void pending_count(Warp& warp, const Instruction& instruction, Mask mask) {
  const u64* states = row<u64>(warp, instruction.rows[1]);
  u32 counts[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane)
    counts[lane] = MbarrierState::of(states[lane]).pending;
  put(warp, instruction.rows[0], counts, mask);
}

void mbarrier(Decoder& d, const ptx::Instruction& w) {
  const auto address = [&](std::size_t operand) {
    return generic_address(d, w.operands[operand], space_of(w));
  };
  d.require(1);
  Instruction* made = nullptr;
  if (w.has("init")) {
    d.require(2);
    const Row place = address(0);
    made = &d.emit(init, {place, d.source(w.operands[1], 4)});
  } else if (w.has("inval")) {
    made = &d.emit(invalidate, {address(0)});
  } else if (w.has("pending_count")) {
    d.require(2);
    const Row state = d.source(w.operands[1], 8);
    made = &d.emit(pending_count, {d.result(w.operands[0], 4), state});
  } else if (w.has("test_wait") || w.has("try_wait")) {
    d.require(3);
    const bool parity = w.has("parity");
    const Row place = address(1);
    const Row phase = d.source(w.operands[2], parity ? 4 : 8);
    made = &d.emit(parity ? wait<true> : wait<false>, {place, phase, d.result(w.operands[0], 0)});
  } else {
    unsigned how = 0;
    if (w.has("arrive") || w.has("arrive_drop")) how |= arrives;
    if (w.has("arrive_drop")) how |= drops;
    if (w.has("expect_tx")) how |= expects;
    if (w.has("complete_tx")) how |= completes;
    if (w.has("noComplete")) how |= no_complete;
    if (how == 0) d.fail("this instruction is not emulated");
    // expect_tx and complete_tx alone have no state, arrive may have one.
    const std::size_t at = w.operands[0].kind == ptx::Operand::Kind::address ? 0 : 1;
    d.require(at + 1);
    const Row place = address(at);
    const Row count =
        w.operands.size() > at + 1 ? d.source(w.operands[at + 1], 4) : d.constant(1, 4);
    const bool has_state = at == 1 && w.operands[0].kind != ptx::Operand::Kind::none;
    made = &d.emit(arrive, {place, count, has_state ? d.result(w.operands[0], 8) : no_row});
    made->detail = static_cast<std::uint8_t>(how);
  }
  made->access.space = Space::shared;
}

}  // namespace

void add_mbarrier_rules(Rules& rules) { rules["mbarrier"] = mbarrier; }

}  // namespace cudademo::emulator
