#include "access.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "block.hpp"
#include "heap.hpp"
#include "history.hpp"
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

}  // namespace

void refuse(Warp& warp, unsigned lane, const char* kind, std::uint64_t address, std::size_t bytes,
            Use use, const std::string& where, const std::string& array) {
  Report report = warp.report(kind, lane);
  report.what = operation(use, bytes) + " at " + hexadecimal(address) + ", " + where;
  report.address = address;
  report.bytes = bytes;
  report.array = array;
  throw Fault(std::move(report));
}

namespace {

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
  Block& block = warp.block();
  std::byte* state = block.shared_state(offset);
  const auto refuse_if = [&](std::byte is, const char* kind, const char* who, const char* what) {
    if (!has_state(state, bytes, access, is)) return;
    std::string line;
    if (is == byte_awaited) {
      const std::ptrdiff_t at = std::find(state, state + bytes, is) - state;
      const Stamp& copy = block.races()->shared_writer(offset + static_cast<std::size_t>(at));
      line = at_line(block.launch(), copy.site);
    }
    refuse(warp, lane, kind, offset, bytes, use,
           std::string("in shared memory that ") + who + line + what + " (byte " +
               std::to_string(offset - reserved_shared_bytes) + " of it)",
           "shared memory");
  };
  refuse_if(byte_awaited, kind::race, "an asynchronous copy",
            " still writes, for which nothing has waited");
  if (use != Use::read) {
    refuse_if(byte_held, kind::race, "a bulk copy", " still reads, for which nothing has waited");
  }
  if (use != Use::write) {
    refuse_if(byte_unwritten, kind::uninitialised, "no thread", " has written");
  }
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
  // In bounds without a plain place: there are checks, and bytes that are not written or not at
  // rest.
  check_state(warp, lane, access, offset, bytes, use);
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

std::byte* locate_allocated(Warp& warp, unsigned lane, const Access& access,
                            std::shared_ptr<HeapBlock> shared, std::uint64_t address,
                            std::size_t bytes, Use use) {
  // Until the thread's next access: another may free it between here and the access itself.
  static thread_local std::shared_ptr<HeapBlock> accessed;
  accessed = std::move(shared);
  HeapBlock& block = *accessed;
  if (!block.is_live()) {
    refuse(warp, lane, kind::freed, address, bytes, use,
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

// The array or the allocation next to an address, where there is one.
std::optional<Range> nearest(Warp& warp, std::uint64_t address) {
  const Launch& launch = warp.block().launch();
  const Range* near = launch.memory->nearest(address);
  const std::shared_ptr<const HeapBlock> block = launch.heap->nearest(address);
  if (block != nullptr &&
      (near == nullptr || distance(block->range, address) < distance(*near, address))) {
    near = &block->range;
  }
  return near == nullptr ? std::nullopt : std::optional(*near);
}

// Two views of one array touch; two arrays do not.
bool touch(const Range& a, const Range& b) { return a.begin <= b.end && b.begin <= a.end; }

// Of an access that is in nothing which the launch may touch.
[[noreturn]] void refuse_outside(Warp& warp, unsigned lane, std::uint64_t address,
                                 std::size_t bytes, Use use) {
  const std::optional<Range> near = nearest(warp, address);
  const History* history = warp.block().launch().history;
  const auto past = history != nullptr ? history->find(address, bytes) : std::nullopt;
  if (!past || (near && touch(*near, past->range))) {
    refuse(warp, lane, kind::out_of_bounds, address, bytes, use,
           describe(near ? &*near : nullptr, address, bytes), near ? near->label : "");
  }
  const bool was_given = !past->kernel.empty();
  const std::string array =
      past->range.label + (was_given ? ", of an earlier launch of " + past->kernel : "");
  refuse(warp, lane, past->is_gone ? kind::freed : kind::out_of_bounds, address, bytes, use,
         "in " + array +
             (!past->is_gone ? "; this launch was not given it" + std::string(reachable_hint)
              : was_given ? ", which is gone; if another array is there now, this launch was not "
                            "given it" +
                                std::string(reachable_hint)
                          : ", which was freed"),
         array);
}

std::byte* locate_global(Warp& warp, unsigned lane, const Access& access, std::uint64_t address,
                         std::size_t bytes, Use use) {
  const Launch& launch = warp.block().launch();
  std::shared_ptr<HeapBlock> block = launch.heap->nearest(address);
  if (block != nullptr && block->holds(address, bytes)) {
    return locate_allocated(warp, lane, access, std::move(block), address, bytes, use);
  }
  // In a range without a plain place: it may not be written.
  if (const Range* range = launch.memory->find(address, bytes)) {
    refuse(warp, lane, kind::invalid, address, bytes, use,
           "in " + range->label + ", which is read-only", range->label);
  }
  refuse_outside(warp, lane, address, bytes, use);
}

}  // namespace

std::byte* other_place(Warp& warp, const Instruction& instruction, unsigned lane,
                       std::uint64_t address, std::size_t bytes, Use use) {
  Space space = instruction.access.space;
  if (space == Space::generic) {
    if (address - shared_window < window_bytes) {
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
    const std::optional<Range> near =
        space == Space::global ? nearest(warp, address) : std::nullopt;
    refuse(warp, lane, kind::misaligned, address, bytes, use,
           "which is no multiple of " + std::to_string(bytes),
           near                     ? near->label
           : space == Space::global ? ""
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
  d.mark_access(access.space, access.bytes);
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

}  // namespace cudademo::emulator
