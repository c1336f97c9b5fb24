// Loads and stores.
#include "access.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "block.hpp"
#include "float.hpp"
#include "heap.hpp"
#include "lanes.hpp"

namespace cudademo::emulator {

namespace {

using ptx::Space;

std::string hexadecimal(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

const char* verb(Use use) {
  return use == Use::read ? "read" : use == Use::write ? "write" : "atomic";
}

std::string operation(Use use, std::size_t bytes) {
  return std::string(verb(use)) + " of " + std::to_string(bytes) +
         (bytes == 1 ? " byte" : " bytes");
}

[[noreturn]] void refuse(Warp& warp, unsigned lane, const char* kind, std::uint64_t address,
                         std::size_t bytes, Use use, const std::string& where,
                         const std::string& array) {
  Report report = warp.report(kind, lane);
  report.what = operation(use, bytes) + " at " + hexadecimal(address) + ", " + where;
  report.address = address;
  report.bytes = bytes;
  report.array = array;
  throw Fault(std::move(report));
}

// Whether a byte is so. Compilers widen loads: what they then have no use for does not count.
bool has_state(const std::byte* state, std::size_t bytes, const Access& access, std::byte is) {
  if (access.unused == 0) return std::find(state, state + bytes, is) != state + bytes;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (state[i] == is && (access.unused >> i / access.bytes & 1) == 0) return true;
  }
  return false;
}

// Of bytes of shared memory that are not all written and at rest: may they be used so? A write
// makes them written.
void check_state(Warp& warp, unsigned lane, const Access& access, std::uint64_t offset,
                 std::size_t bytes, Use use) {
  std::byte* state = warp.block().shared_state(offset);
  const auto refuse_if = [&](std::byte is, const char* kind, const char* what) {
    if (!has_state(state, bytes, access, is)) return;
    refuse(warp, lane, kind, offset, bytes, use,
           std::string("in shared memory that ") + what + " (byte " +
               std::to_string(offset - reserved_shared_bytes) + " of it)",
           "shared memory");
  };
  refuse_if(byte_awaited, kind::race,
            "an asynchronous copy still writes, for which nothing has waited");
  if (use != Use::read) {
    refuse_if(byte_held, kind::race, "a bulk copy still reads, for which nothing has waited");
  }
  if (use != Use::write) refuse_if(byte_unwritten, kind::uninitialised, "no thread has written");
  if (use == Use::write) std::memset(state, static_cast<int>(byte_written), bytes);
}

std::byte* locate_shared(Warp& warp, unsigned lane, const Access& access, std::uint64_t offset,
                         std::size_t bytes, Use use) {
  Block& block = warp.block();
  const std::uint64_t end = block.shared_bytes();
  if (offset + bytes > end || offset < reserved_shared_bytes || offset + bytes < offset) {
    const std::string where =
        offset >= end
            ? (offset == end ? std::string("just") : std::to_string(offset - end) + " bytes") +
                  " past the end of shared memory (" + std::to_string(end - reserved_shared_bytes) +
                  " bytes)"
            : "outside of shared memory (" + std::to_string(end - reserved_shared_bytes) +
                  " bytes)";
    refuse(warp, lane, kind::out_of_bounds, offset, bytes, use, where, "shared memory");
  }
  if (block.launch().options.checks) {
    const std::byte* state = block.shared_state(offset);
    if (std::any_of(state, state + bytes, [](std::byte is) { return is != byte_written; })) {
      check_state(warp, lane, access, offset, bytes, use);
    }
  }
  return block.shared(offset);
}

std::byte* locate_local(Warp& warp, unsigned lane, const Access& access, std::uint64_t offset,
                        std::size_t bytes, Use use) {
  std::byte* place = warp.local(lane, offset, bytes);
  if (place == nullptr) {
    refuse(
        warp, lane, kind::out_of_bounds, offset, bytes, use,
        "outside of the thread's local memory (" + std::to_string(warp.local_top(lane)) + " bytes)",
        "local memory");
  }
  if (warp.block().launch().options.checks) {
    std::byte* state = warp.local_state(lane, offset);
    if (use == Use::write) {
      std::memset(state, 1, bytes);
    } else if (has_state(state, bytes, access, byte_unwritten)) {
      refuse(warp, lane, kind::uninitialised, offset, bytes, use,
             "in local memory that the thread has not written", "local memory");
    }
  }
  return place;
}

std::byte* locate_parameter(Warp& warp, unsigned lane, std::uint64_t offset, std::size_t bytes,
                            Use use) {
  Frame& frame = warp.frame();
  const std::size_t size = frame.function->parameter_bytes;
  if (offset + bytes > size || offset + bytes < offset) {
    refuse(warp, lane, kind::out_of_bounds, offset, bytes, use, "past the end of the parameters",
           "parameters");
  }
  return frame.parameters.data() + lane * size + offset;
}

std::byte* locate_allocated(Warp& warp, unsigned lane, const Access& access, HeapBlock& block,
                            std::uint64_t address, std::size_t bytes, Use use) {
  if (!block.is_live()) {
    refuse(warp, lane, kind::out_of_bounds, address, bytes, use,
           "in " + block.range.label + ", which was freed (" + block.freed_at + ")",
           block.range.label);
  }
  std::byte* state = block.written.data() + (address - block.range.begin);
  if (use == Use::write) {
    std::memset(state, 1, bytes);
  } else if (warp.block().launch().options.checks &&
             has_state(state, bytes, access, byte_unwritten)) {
    refuse(warp, lane, kind::uninitialised, address, bytes, use,
           "in " + block.range.label + ", which no thread has written (byte " +
               std::to_string(address - block.range.begin) + " of it)",
           block.range.label);
  }
  return reinterpret_cast<std::byte*>(address);
}

std::byte* locate_global(Warp& warp, unsigned lane, const Access& access, std::uint64_t address,
                         std::size_t bytes, Use use) {
  const Memory& memory = *warp.block().launch().memory;
  const Range* range = memory.find(address, bytes);
  if (range == nullptr) {
    HeapBlock* block = warp.block().launch().heap->nearest(address);
    if (block != nullptr && block->holds(address, bytes)) {
      return locate_allocated(warp, lane, access, *block, address, bytes, use);
    }
    const Range* near = memory.nearest(address);
    if (block != nullptr &&
        (near == nullptr || distance(block->range, address) < distance(*near, address))) {
      near = &block->range;
    }
    refuse(warp, lane, kind::out_of_bounds, address, bytes, use, describe(near, address, bytes),
           near != nullptr ? near->label : "");
  }
  if (use != Use::read && !range->writable) {
    refuse(warp, lane, kind::invalid, address, bytes, use,
           "in " + range->label + ", which is read-only", range->label);
  }
  return reinterpret_cast<std::byte*>(address);
}

}  // namespace

std::byte* locate(Warp& warp, const Instruction& instruction, unsigned lane, std::uint64_t address,
                  std::size_t bytes, Use use) {
  Space space = instruction.access.space;
  if (space == Space::generic) {
    if (address < shared_window) {
      space = Space::global;
    } else if (address - shared_window < window_bytes) {
      space = Space::shared;
      address -= shared_window;
    } else if (address - local_window < window_bytes) {
      space = Space::local;
      address -= local_window;
    } else if (address - param_window < window_bytes) {
      space = Space::param;
      address -= param_window;
    } else {
      space = Space::global;
    }
  }
  if ((address & (bytes - 1)) != 0 && space != Space::param) {
    const Range* near =
        space == Space::global ? warp.block().launch().memory->nearest(address) : nullptr;
    refuse(warp, lane, kind::misaligned, address, bytes, use,
           "which is no multiple of " + std::to_string(bytes),
           near != nullptr          ? near->label
           : space == Space::shared ? "shared memory"
                                    : "local memory");
  }
  switch (space) {
    case Space::shared:
      return locate_shared(warp, lane, instruction.access, address, bytes, use);
    case Space::local:
      return locate_local(warp, lane, instruction.access, address, bytes, use);
    case Space::param:
      return locate_parameter(warp, lane, address, bytes, use);
    default:
      return locate_global(warp, lane, instruction.access, address, bytes, use);
  }
}

namespace {

// The other is named as "thread (3, 0, 0) of block (1, 0, 0) writes at line 7".
[[noreturn]] void report_race(Warp& warp, unsigned lane, std::uint64_t address, std::size_t bytes,
                              Use use, const Races::Conflict& conflict, const std::string& where,
                              const std::string& array) {
  const Block& block = warp.block();
  const Launch& launch = block.launch();
  const auto triple = [](const std::array<std::uint32_t, 3>& of) {
    return "(" + std::to_string(of[0]) + ", " + std::to_string(of[1]) + ", " +
           std::to_string(of[2]) + ")";
  };
  const std::uint64_t number = conflict.other.block_plus_one - std::uint64_t{1};
  const bool within = number == block.linear_index();
  const unsigned thread = conflict.other.thread;
  const int line = launch.program->sites[conflict.other.site].line;
  refuse(warp, lane, kind::race, address, bytes, use,
         where + ", which thread " + triple(block.thread(thread / lanes, thread % lanes)) + " of " +
             (within ? "the block" : "block " + triple(Block::index_of(launch, number))) +
             (conflict.other_wrote ? " writes" : " reads") +
             (line == 0 ? "" : " at line " + std::to_string(line)) +
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
  const HeapBlock* block = warp.block().launch().heap->nearest(address);
  return block != nullptr && block->holds(address, bytes);
}

}  // namespace

void note(Warp& warp, const Instruction& instruction, unsigned lane, const std::byte* place,
          std::size_t bytes, Use use, bool is_same) {
  Block& block = warp.block();
  Races* races = block.races();
  if (races == nullptr) return;
  const Access& access = instruction.access;
  if (access.space == Space::local || access.space == Space::param) return;
  const bool is_strong = use == Use::atomic || access.order != Order::weak;
  const Touch touch = touch_of(use, is_strong, is_same);
  Races::Strong strong{access.order, use == Use::atomic, use != Use::write, use != Use::read};
  const unsigned thread = warp.thread_number(lane);
  const std::ptrdiff_t offset = block.shared_offset(place);
  if (offset >= 0) {
    const auto at = static_cast<std::size_t>(offset);
    if (is_strong) races->order(warp.index(), at, strong);
    if (const auto found =
            races->shared(races->stamp(thread, instruction.site), at, bytes, touch)) {
      report_race(
          warp, lane, at, bytes, use, *found,
          "in shared memory (byte " + std::to_string(at - reserved_shared_bytes) + " of it)",
          "shared memory");
    }
    return;
  }
  const auto address = reinterpret_cast<std::uint64_t>(place);
  const Range* range = block.launch().memory->find(address, bytes);
  // In none are local memory, a parameter, and the heap: it orders, but is not watched itself.
  if (range == nullptr && !(is_strong && is_allocated(warp, address, bytes))) return;
  strong.across = !access.within_block;
  if (is_strong) races->order(warp.index(), address, strong);
  if (range == nullptr) return;
  if (const auto found =
          races->global(races->stamp(thread, instruction.site), address, bytes, touch)) {
    report_race(warp, lane, address, bytes, use, *found, "in " + range->label, range->label);
  }
}

std::uint64_t address_of(Warp& warp, const Instruction& instruction, std::size_t base,
                         unsigned lane) noexcept {
  const Row at = instruction.rows[base];
  if (instruction.access.wide_base) {
    return row<u64>(warp, at)[lane] + static_cast<std::uint64_t>(instruction.immediate);
  }
  // 32-bit addresses wrap at 32 bits.
  return static_cast<u32>(row<u32>(warp, at)[lane] + static_cast<u32>(instruction.immediate));
}

Space space_of(const ptx::Instruction& w) {
  constexpr std::pair<std::string_view, Space> named[] = {{"global", Space::global},
                                                          {"shared", Space::shared},
                                                          {"local", Space::local},
                                                          {"const", Space::constant},
                                                          {"param", Space::param}};
  for (const std::string_view modifier : w.modifiers) {
    const std::string_view word = modifier.substr(0, modifier.find(':'));
    for (const auto& [name, space] : named) {
      if (word == name) return space;
    }
  }
  return Space::generic;
}

Access access_of(Decoder& d, const ptx::Instruction& w) {
  Access access;
  const std::string_view type = last_type(w);
  access.bytes = static_cast<std::uint8_t>(ptx::size_of(type));
  if (access.bytes == 0) d.fail("not for this type");
  access.is_signed = is_signed_type(type);
  access.space = space_of(w);
  for (const std::string_view modifier : w.modifiers) {
    if (modifier == "v2")
      access.elements = 2;
    else if (modifier == "v4")
      access.elements = 4;
    else if (modifier == "v8")
      access.elements = 8;
    else if (modifier == "volatile" || modifier == "relaxed" || modifier == "mmio")
      access.order = Order::relaxed;
    else if (modifier == "acquire")
      access.order = Order::acquire;
    else if (modifier == "release")
      access.order = Order::release;
    else if (modifier == "acq_rel")
      access.order = Order::acquire_release;
    else if (modifier == "cta")
      access.within_block = true;
  }
  const bool outside = access.space == Space::global || access.space == Space::generic;
  if (access.order != Order::weak && outside) d.mark_communication();
  if (outside) d.mark_access(access.bytes);
  return access;
}

std::uint64_t shared_place(const Warp& warp, unsigned lane, std::uint64_t address) {
  if (address - shared_window < window_bytes) return address - shared_window;
  Report report = warp.report(kind::out_of_bounds, lane);
  report.what = "an access at " + hexadecimal(address) + ", which is not in shared memory";
  report.address = address;
  throw Fault(std::move(report));
}

std::vector<ptx::Operand> items_of(const ptx::Operand& operand) {
  return operand.kind == ptx::Operand::Kind::vector ? operand.items : std::vector{operand};
}

const ptx::Operand& base_of(Decoder& d, const ptx::Operand& operand) {
  if (operand.kind != ptx::Operand::Kind::address || operand.items.size() != 1) {
    d.fail("an address in brackets is needed");
  }
  return operand.items.front();
}

Row generic_address(Decoder& d, const ptx::Operand& operand, Space space) {
  bool wide = true;
  const Row base = d.address(base_of(d, operand), wide);
  const Row row_of_addresses = d.temporary(8);
  Instruction& made = d.emit(
      [](Warp& warp, const Instruction& instruction, Mask mask) {
        const u64 window = instruction.access.space == Space::shared ? shared_window : 0;
        u64 addresses[lanes];
        for (unsigned lane = 0; lane < lanes; ++lane) {
          addresses[lane] = window + address_of(warp, instruction, 1, lane);
        }
        put(warp, instruction.rows[0], addresses, mask);
      },
      {row_of_addresses, base});
  made.access.space = space;
  made.access.wide_base = wide;
  made.immediate = operand.offset;
  return row_of_addresses;
}

namespace {

template <typename Memory, typename Register>
void load(Warp& warp, const Instruction& instruction, Mask mask) {
  const unsigned elements = instruction.access.elements;
  const std::size_t bytes = sizeof(Memory) * elements;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    const std::byte* from = locate(warp, instruction, lane,
                                   address_of(warp, instruction, elements, lane), bytes, Use::read);
    if (instruction.access.unused == 0) note(warp, instruction, lane, from, bytes, Use::read);
    for (unsigned i = 0; i < elements; ++i) {
      if ((instruction.access.unused >> i & 1) != 0) continue;
      if (instruction.access.unused != 0) {
        note(warp, instruction, lane, from + i * sizeof(Memory), sizeof(Memory), Use::read);
      }
      Memory value;
      std::memcpy(&value, from + i * sizeof(Memory), sizeof(Memory));
      row<Register>(warp, instruction.rows[i])[lane] = static_cast<Register>(value);
    }
  }
}

// rows: the base, then the elements.
template <typename Memory, typename Register>
void store(Warp& warp, const Instruction& instruction, Mask mask) {
  const unsigned elements = instruction.access.elements;
  const std::size_t bytes = sizeof(Memory) * elements;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    std::byte* to =
        locate(warp, instruction, lane, address_of(warp, instruction, 0, lane), bytes, Use::write);
    Memory values[8];
    for (unsigned i = 0; i < elements; ++i) {
      values[i] = static_cast<Memory>(row<Register>(warp, instruction.rows[1 + i])[lane]);
    }
    note(warp, instruction, lane, to, bytes, Use::write, std::memcmp(to, values, bytes) == 0);
    std::memcpy(to, values, bytes);
  }
}

Handler loading(const Access& access) {
  switch (access.bytes) {
    case 1:
      return access.is_signed ? load<std::int8_t, std::int16_t> : load<std::uint8_t, u16>;
    case 2:
      return load<u16, u16>;
    case 4:
      return load<u32, u32>;
    case 8:
      return load<u64, u64>;
    default:
      return load<u128, u128>;
  }
}

Handler storing(const Access& access) {
  switch (access.bytes) {
    case 1:
      return store<std::uint8_t, u16>;
    case 2:
      return store<u16, u16>;
    case 4:
      return store<u32, u32>;
    case 8:
      return store<u64, u64>;
    default:
      return store<u128, u128>;
  }
}

std::vector<ptx::Operand> elements_of(Decoder& d, const ptx::Operand& operand, unsigned count) {
  if (operand.kind != ptx::Operand::Kind::vector) {
    if (count != 1) d.fail("a vector is needed");
    return {operand};
  }
  if (operand.items.size() != count) d.fail("a vector of another length");
  return operand.items;
}

void ld(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  Access access = access_of(d, w);
  const Row base = d.address(base_of(d, w.operands[1]), access.wide_base);
  std::vector<Row> rows;
  for (const ptx::Operand& element : elements_of(d, w.operands[0], access.elements)) {
    if (access.elements > 1 && !d.is_used(element)) {
      access.unused |= static_cast<std::uint8_t>(1u << rows.size());
    }
    rows.push_back(d.result(element, access.bytes, access.is_signed));
  }
  rows.push_back(base);
  Instruction& made = d.emit(loading(access), rows);
  made.access = access;
  made.immediate = w.operands[1].offset;
}

void st(Decoder& d, const ptx::Instruction& w) {
  if (w.has("async") || w.has("bulk")) d.fail("this instruction is not emulated");
  d.require(2);
  Access access = access_of(d, w);
  std::vector<Row> rows{d.address(base_of(d, w.operands[0]), access.wide_base)};
  for (const ptx::Operand& element : elements_of(d, w.operands[1], access.elements)) {
    rows.push_back(d.source(element, access.bytes, is_float(last_type(w))));
  }
  Instruction& made = d.emit(storing(access), rows);
  made.access = access;
  made.immediate = w.operands[0].offset;
}

// Hints to a cache that is not there.
void nothing(Decoder&, const ptx::Instruction&) {}

void createpolicy(Decoder& d, const ptx::Instruction& w) {
  d.require(1);
  d.emit(unary<u64, u64>([](u64 none) { return none; }),
         {d.result(w.operands[0], 8), d.constant(0, 8)});
}

}  // namespace

void add_memory_rules(Rules& rules) {
  rules["ld"] = ld;
  rules["ldu"] = ld;
  rules["st"] = st;
  rules["prefetch"] = nothing;
  rules["prefetchu"] = nothing;
  rules["applypriority"] = nothing;
  rules["discard"] = nothing;
  rules["createpolicy"] = createpolicy;
}

}  // namespace cudademo::emulator
