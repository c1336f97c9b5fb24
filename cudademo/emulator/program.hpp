// A PTX module decoded for execution: each instruction a function over the 32 lanes of a warp.
//
// A register is a row: its value in lane 0, in lane 1 and so on, side by side. A predicate is one
// word with a bit for each lane. Constants are rows as well, filled when a frame is made, so that
// an instruction knows only rows.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ptx.hpp"

namespace cudademo::emulator {

class Warp;
struct Instruction;

inline constexpr unsigned lanes = 32;
using Mask = std::uint32_t;  // a bit for each lane
inline constexpr Mask all_lanes = 0xffffffff;

constexpr bool is_set(Mask mask, unsigned lane) noexcept { return (mask >> lane & 1) != 0; }
constexpr unsigned first_lane(Mask mask) noexcept {
  return static_cast<unsigned>(std::countr_zero(mask));
}

constexpr std::size_t align_up(std::size_t value, std::size_t alignment) noexcept {
  return (value + alignment - 1) / alignment * alignment;
}

using Handler = void (*)(Warp& warp, const Instruction& instruction, Mask mask);
using Row = std::uint32_t;  // a byte offset into a frame

inline constexpr Row no_row = 0xffffffff;

enum class Order : std::uint8_t { weak, relaxed, acquire, release, acquire_release };

// How a load, a store or an atomic touches memory.
struct Access {
  ptx::Space space = ptx::Space::generic;
  std::uint8_t bytes = 4;     // of an element
  std::uint8_t elements = 1;  // of a vector
  std::uint8_t unused = 0;    // a bit for each element that is loaded for nothing
  bool is_signed = false;
  bool wide_base = true;  // the address register has 64 bits
  Order order = Order::weak;
  bool within_block = false;  // of .cta scope
};

struct Instruction {
  Handler execute = nullptr;
  const Row* rows = nullptr;  // results first, in the order of the PTX
  std::int64_t immediate = 0;
  Row guard = no_row;
  bool guard_negated = false;
  bool is_branch = false;  // takes part where no lane's guard is true, too
  bool is_exit = false;    // its lanes go nowhere from here
  bool is_first = false;   // of those that one of the PTX became
  std::uint8_t detail = 0;
  std::uint8_t count = 0;  // rows
  Access access;
  std::uint32_t site = 0;        // of Program::sites
  std::uint32_t target = 0;      // a place in the code
  std::uint32_t reconverge = 0;  // of a branch: where its lanes meet again
  const void* more = nullptr;    // a CallSite, a list of targets, a text
  const ptx::Instruction* written = nullptr;
};

// A variable in the memory that belongs to one call of a function.
struct Slot {
  std::uint32_t offset = 0;  // bytes
  std::uint32_t bytes = 0;
};

struct Function;

struct CallSite {
  const Function* callee = nullptr;  // null for an indirect call
  Row callee_row = no_row;
  bool is_uniform = false;
  std::vector<Slot> arguments;  // in the caller's parameter memory
  std::vector<Slot> results;
};

// What the driver gives every program: printf, assert, malloc.
using SystemCall = void (*)(Warp& warp, const CallSite& site, Mask mask);

struct Function {
  std::string name;
  std::vector<Instruction> code;
  std::vector<std::unique_ptr<Row[]>> row_lists;
  std::vector<std::unique_ptr<CallSite>> calls;
  std::vector<std::unique_ptr<std::vector<std::uint32_t>>> target_lists;
  std::vector<std::unique_ptr<std::string>> texts;
  std::vector<std::shared_ptr<const void>> details;  // of instructions that need many
  std::uint32_t frame_bytes = 0;
  std::vector<std::uint32_t> gaps;  // see row_guards.hpp
  std::uint32_t constants_offset = 0;
  std::vector<std::byte> constants;  // copied there when a frame is made
  std::uint32_t local_bytes = 0;
  std::uint32_t parameter_bytes = 0;  // of the .param variables of one lane
  std::vector<Slot> parameters;       // in parameter memory
  std::vector<Slot> results;
  SystemCall system_call = nullptr;
  // Of an entry:
  bool is_entry = false;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t max_threads = 1024;
  std::uint32_t registers = 0;
  bool talks_across_blocks = false;     // by atomics, fences or volatile accesses
  std::uint8_t least_global_bytes = 4;  // of an access to global memory
  std::uint8_t least_shared_bytes = 4;  // of one to shared memory
};

// A block of bytes that lives as long as the module.
struct StaticMemory {
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> storage;
  std::byte* data = nullptr;  // aligned
  std::size_t bytes = 0;
  std::string name;
  bool is_constant = false;
};

struct Program {
  ptx::Module source;
  std::vector<std::unique_ptr<Function>> functions;
  std::vector<StaticMemory> statics;
  std::vector<ptx::Location> sites;  // places in the user's source; the first is unknown

  const Function* find(std::string_view name) const noexcept;
};

// Where spaces lie in the generic address space. Global and constant memory are the host's own
// addresses, which stay far below these.
inline constexpr std::uint64_t shared_window = std::uint64_t{1} << 60;
inline constexpr std::uint64_t local_window = std::uint64_t{2} << 60;
inline constexpr std::uint64_t param_window = std::uint64_t{3} << 60;
inline constexpr std::uint64_t code_window = std::uint64_t{4} << 60;
inline constexpr std::uint64_t window_bytes = std::uint64_t{1} << 32;
inline constexpr std::uint32_t reserved_shared_bytes = 1024;  // at the start of each block's
inline constexpr std::uint32_t max_shared_bytes =
    227 * 1024;  // of a block: as the larger chips have

// Decodes. Throws ptx::ParseError; an instruction that is not there becomes one that raises a Fault
// when it is reached.
std::unique_ptr<Program> decode(std::string ptx_text);

}  // namespace cudademo::emulator
