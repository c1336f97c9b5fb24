// cp.async: copies from global to shared memory behind a thread's back, and the waits for them.
#include "copy.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "access.hpp"
#include "block.hpp"
#include "lanes.hpp"
#include "mbarrier.hpp"

namespace cudademo::emulator {

const std::byte* source_of(Warp& warp, const Instruction& instruction, unsigned lane, u64 address,
                           u32 bytes, u32 alignment) {
  Instruction read = instruction;
  read.access.space = ptx::Space::generic;
  if (address % alignment != 0) locate(warp, read, lane, address, alignment, Use::read);
  const std::byte* first = nullptr;
  // Not every count is a power of two, as an access is.
  for (u32 at = 0; at < bytes;) {
    const u32 piece = std::min(std::bit_floor(bytes - at), alignment);
    const std::byte* place = locate(warp, read, lane, address + at, piece, Use::read);
    note(warp, read, lane, place, piece, Use::read);
    if (at == 0) first = place;
    at += piece;
  }
  return first;
}

std::byte* target_of(Warp& warp, const Instruction& instruction, unsigned lane, u64 address,
                     u32 bytes, u32 alignment) {
  Instruction write = instruction;
  write.access.space = ptx::Space::generic;
  std::byte* first = nullptr;
  for (u32 at = 0; at < bytes; at += alignment) {
    std::byte* place = locate(warp, write, lane, address + at, alignment, Use::write);
    note(warp, write, lane, place, alignment, Use::write);
    if (at == 0) first = place;
  }
  return first;
}

namespace {

using ptx::Space;

// rows: the target, the source, the bytes to read or none, and whether to read none or none.
void copy(Warp& warp, const Instruction& instruction, Mask mask) {
  const u64* to = row<u64>(warp, instruction.rows[0]);
  const u64* from = row<u64>(warp, instruction.rows[1]);
  const u32 bytes = instruction.detail;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    u32 source_bytes = bytes;
    if (instruction.rows[2] != no_row) source_bytes = row<u32>(warp, instruction.rows[2])[lane];
    if (instruction.rows[3] != no_row && is_set(predicate(warp, instruction.rows[3]), lane)) {
      source_bytes = 0;
    }
    if (source_bytes > bytes) {
      warp.fail(kind::invalid, lane,
                "a cp.async of " + std::to_string(bytes) + " bytes that reads " +
                    std::to_string(source_bytes));
    }
    AsyncCopy made{nullptr, shared_place(warp, lane, to[lane]), bytes, source_bytes,
                   instruction.site};
    made.from = source_of(warp, instruction, lane, from[lane], source_bytes, bytes);
    target_of(warp, instruction, lane, to[lane], bytes, bytes);
    warp.block().copies().issue(warp.block(), warp.thread_number(lane), made);
  }
}

template <typename F>
Handler for_each_thread(F) {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    Block& block = warp.block();
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (is_set(mask, lane)) F{}(block, warp.thread_number(lane), instruction);
    }
  };
}

// rows: the mbarrier.
void arrive_after(Warp& warp, const Instruction& instruction, Mask mask) {
  Block& block = warp.block();
  const bool counts = instruction.detail != 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    const u32 thread = warp.thread_number(lane);
    Mbarrier mbarrier(warp, instruction, lane, row<u64>(warp, instruction.rows[0])[lane]);
    block.copies().note_writes(block, thread);
    block.mbarriers().attach(mbarrier.offset(), thread, block.copies().issued(thread));
    if (counts)
      mbarrier.arrive(1, false);
    else
      mbarrier.release();  // the count is raised first, and so does not change
  }
}

bool is_predicate(Decoder& d, const ptx::Operand& operand) {
  return operand.kind == ptx::Operand::Kind::variable &&
         d.source().variables[static_cast<std::size_t>(operand.index)].type == "pred";
}

void copy_rule(Decoder& d, const ptx::Instruction& w) {
  d.require(3);
  const ptx::Operand& size = w.operands[2];
  const bool is_size = size.kind == ptx::Operand::Kind::integer;
  if (!is_size || (size.bits != 4 && size.bits != 8 && size.bits != 16)) {
    d.fail("a copy is of 4, 8 or 16 bytes");
  }
  const Row to = generic_address(d, w.operands[0], Space::shared);
  const Row from = generic_address(d, w.operands[1], Space::global);
  Row source_bytes = no_row;
  Row ignores = no_row;
  const std::size_t end = w.operands.size() - (w.has("L2::cache_hint") ? 1 : 0);
  if (end > 3) {
    const ptx::Operand& more = w.operands[3];
    (is_predicate(d, more) ? ignores : source_bytes) =
        d.source(more, is_predicate(d, more) ? 0 : 4);
  }
  Instruction& made = d.emit(copy, {to, from, source_bytes, ignores});
  made.detail = static_cast<std::uint8_t>(size.bits);
  made.access.space = Space::shared;
}

void cp(Decoder& d, const ptx::Instruction& w) {
  if (w.has("bulk")) return bulk_copy(d, w);
  if (w.has("commit_group")) {
    d.emit(for_each_thread(
               [](Block& block, u32 thread, const Instruction&) { block.copies().commit(thread); }),
           {});
  } else if (w.has("wait_all")) {
    d.emit(for_each_thread([](Block& block, u32 thread, const Instruction&) {
             block.copies().wait_all(block, thread);
           }),
           {});
  } else if (w.has("wait_group")) {
    d.require(1);
    d.emit(for_each_thread([](Block& block, u32 thread, const Instruction& instruction) {
             block.copies().wait(block, thread, static_cast<std::size_t>(instruction.immediate));
           }),
           {})
        .immediate = static_cast<std::int64_t>(w.operands[0].bits);
  } else if (w.has("arrive")) {
    d.require(1);
    Instruction& made = d.emit(arrive_after, {generic_address(d, w.operands[0], space_of(w))});
    made.detail = w.has("noinc") ? 1 : 0;
    made.access.space = Space::shared;
  } else {
    copy_rule(d, w);
  }
}

}  // namespace

void add_copy_rules(Rules& rules) { rules["cp"] = cp; }

}  // namespace cudademo::emulator
