// What the race check is told of an access, and the words for what it finds.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "access.hpp"
#include "block.hpp"
#include "heap.hpp"

namespace cudademo::emulator {

using ptx::Space;

std::string at_line(const Launch& launch, std::uint32_t site) {
  const int line = launch.program->sites[site].line;
  return line == 0 ? "" : " at line " + std::to_string(line);
}

namespace {

// The other is named as "thread (3, 0, 0) of block (1, 0, 0) writes at line 7".
[[noreturn]] void report_race(Warp& warp, unsigned lane, std::uint64_t address, std::size_t bytes,
                              Use use, const Stamp& other, const std::string& where,
                              const std::string& array) {
  const Block& block = warp.block();
  const Launch& launch = block.launch();
  const auto triple = [](const std::array<std::uint32_t, 3>& of) {
    return "(" + std::to_string(of[0]) + ", " + std::to_string(of[1]) + ", " +
           std::to_string(of[2]) + ")";
  };
  const std::uint64_t number = other.block_plus_one - std::uint64_t{1};
  const bool within = number == block.linear_index();
  const unsigned thread = other.thread;
  refuse(warp, lane, kind::race, address, bytes, use,
         where + ", which thread " + triple(block.thread(thread / lanes, thread % lanes)) + " of " +
             (within ? "the block" : "block " + triple(Block::index_of(launch, number))) +
             (other.writes != 0 ? " writes" : " reads") + at_line(launch, other.site) +
             (within ? ", with no barrier between the two"
                     : ", with nothing that orders the two blocks"),
         array);
}

Touch touch_of(Use use, bool is_strong, bool is_same) {
  if (is_strong) return Touch::strong;
  if (use == Use::read) return Touch::read;
  return is_same ? Touch::same_write : Touch::write;
}

bool is_allocated(Warp& warp, std::uint64_t address, std::size_t bytes) {
  const std::shared_ptr<const HeapBlock> block = warp.block().launch().heap->nearest(address);
  return block != nullptr && block->holds(address, bytes);
}

}  // namespace

bool watch(Warp& warp, const Instruction& instruction, unsigned lane, const std::byte* place,
           std::size_t bytes, Use use, const void* values) {
  Block& block = warp.block();
  Races* races = block.races();
  const Access& access = instruction.access;
  if (access.space == Space::local || access.space == Space::param) return false;
  const bool is_strong = use == Use::atomic || access.order != Order::weak;
  Races::Strong strong{access.order, use == Use::atomic, use != Use::write, use != Use::read};
  const Stamp stamp = races->stamp(warp.thread_number(lane), instruction.site, use != Use::read);
  const std::ptrdiff_t offset = block.shared_offset(place);
  if (offset >= 0) {
    const auto at = static_cast<std::size_t>(offset);
    if (is_strong) races->order(warp.index(), at, strong);
    const bool is_same = values != nullptr && std::memcmp(place, values, bytes) == 0;
    if (const auto found = races->shared(stamp, at, bytes, touch_of(use, is_strong, is_same))) {
      report_race(
          warp, lane, at, bytes, use, *found,
          "in shared memory (byte " + std::to_string(at - reserved_shared_bytes) + " of it)",
          "shared memory");
    }
    return false;
  }
  const auto address = reinterpret_cast<std::uint64_t>(place);
  const Range* range = block.launch().memory->find(address, bytes);
  // In none are local memory, a parameter, and the heap: it orders, but is not watched itself.
  if (range == nullptr && !(is_strong && is_allocated(warp, address, bytes))) return false;
  strong.across = !access.within_block;
  if (is_strong) races->order(warp.index(), address, strong);
  if (range == nullptr) return false;
  const bool writes = values != nullptr && !is_strong;
  const auto found = writes ? races->write_global(stamp, address, bytes, values)
                            : races->global(stamp, address, bytes, touch_of(use, is_strong, false));
  if (found) {
    report_race(warp, lane, address, bytes, use, *found, "in " + range->label, range->label);
  }
  return writes;
}

}  // namespace cudademo::emulator
