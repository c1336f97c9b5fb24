// cp.async.bulk: copies of many bytes, to shared memory for an mbarrier and from it in groups.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "access.hpp"
#include "block.hpp"
#include "copy.hpp"
#include "lanes.hpp"
#include "mbarrier.hpp"

namespace cudademo::emulator {

namespace {

using ptx::Space;

constexpr u32 alignment = 16;

void require_whole(const Warp& warp, unsigned lane, u32 bytes) {
  if (bytes % alignment == 0) return;
  warp.fail(kind::misaligned, lane,
            "a bulk copy of " + std::to_string(bytes) + " bytes, which is no multiple of 16");
}

// rows: the target, the source, the bytes, the mbarrier.
void load(Warp& warp, const Instruction& instruction, Mask mask) {
  Block& block = warp.block();
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    const u64 to = row<u64>(warp, instruction.rows[0])[lane];
    const u64 from = row<u64>(warp, instruction.rows[1])[lane];
    const u32 bytes = row<u32>(warp, instruction.rows[2])[lane];
    require_whole(warp, lane, bytes);
    AsyncCopy copy{nullptr, shared_place(warp, lane, to), bytes, bytes, instruction.site};
    copy.from = source_of(warp, instruction, lane, from, bytes, alignment);
    target_of(warp, instruction, lane, to, bytes, alignment);
    begin(block, copy);
    Mbarrier mbarrier(warp, instruction, lane, row<u64>(warp, instruction.rows[3])[lane]);
    block.mbarriers().attach(mbarrier.offset(), copy);
    mbarrier.release();
  }
}

// rows: the target, the source, the bytes.
void store(Warp& warp, const Instruction& instruction, Mask mask) {
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    const u64 from = row<u64>(warp, instruction.rows[1])[lane];
    const u32 bytes = row<u32>(warp, instruction.rows[2])[lane];
    require_whole(warp, lane, bytes);
    if (bytes == 0) continue;
    const SharedRange source{shared_place(warp, lane, from), bytes};
    const std::byte* read = source_of(warp, instruction, lane, from, bytes, alignment);
    std::byte* to = target_of(warp, instruction, lane, row<u64>(warp, instruction.rows[0])[lane],
                              bytes, alignment);
    std::memcpy(to, read, bytes);
    warp.block().bulk_stores().issue(warp.block(), warp.thread_number(lane), source);
  }
}

void commit(Warp& warp, const Instruction&, Mask mask) {
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (is_set(mask, lane)) warp.block().bulk_stores().commit(warp.thread_number(lane));
  }
}

void wait(Warp& warp, const Instruction& instruction, Mask mask) {
  const auto groups = static_cast<std::size_t>(instruction.immediate);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    warp.block().bulk_stores().wait(warp.block(), warp.thread_number(lane), groups);
  }
}

bool is_shared(std::string_view modifier) {
  return modifier == "shared::cta" || modifier == "shared::cluster";
}

}  // namespace

void bulk_copy(Decoder& d, const ptx::Instruction& w) {
  for (const char* more : {"tensor", "reduce", "multicast::cluster", "cp_mask"}) {
    if (w.has(more)) d.fail("this instruction is not emulated");
  }
  if (w.has("prefetch")) return;
  if (w.has("commit_group")) {
    d.emit(commit, {});
    return;
  }
  d.require(1);
  if (w.has("wait_group")) {
    d.emit(wait, {}).immediate = static_cast<std::int64_t>(w.operands[0].bits);
    return;
  }
  d.require(3);
  const auto& words = w.modifiers;  // async.bulk.TO.FROM
  if (words.size() < 4) d.fail("this instruction is not emulated");
  const bool loads = is_shared(words[2]) && words[3] == "global";
  if (!loads && !(words[2] == "global" && is_shared(words[3]))) {
    d.fail("bulk copies between blocks are not emulated");
  }
  const Row to = generic_address(d, w.operands[0], loads ? Space::shared : Space::global);
  const Row from = generic_address(d, w.operands[1], loads ? Space::global : Space::shared);
  const Row bytes = d.source(w.operands[2], 4);
  if (loads) {
    d.require(4);
    const Row mbarrier = generic_address(d, w.operands[3], Space::shared);
    d.emit(load, {to, from, bytes, mbarrier}).access.space = Space::shared;
  } else {
    d.emit(store, {to, from, bytes});
  }
}

}  // namespace cudademo::emulator
