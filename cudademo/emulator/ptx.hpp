// A PTX module as it is written: names resolved, nothing interpreted. Syntax after the PTX ISA
// manual, versions 6.0 to 9.x.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cudademo::emulator::ptx {

// The text is not PTX, or uses what is not there. The message names the line of the PTX.
class ParseError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Space : std::uint8_t { generic, reg, constant, global, local, param, shared };

// A line of the user's source, from .loc.
struct Location {
  int file = 0;  // of Module::files; 0 for none
  int line = 0;
  int column = 0;

  bool operator==(const Location&) const = default;
};

struct Variable {
  std::string_view name;
  Space space = Space::reg;
  std::string_view type;  // "b32", "f64", "pred"
  int vector = 1;         // 2 or 4 for .v2 and .v4
  std::size_t align = 0;  // bytes; never 0 once parsed
  std::size_t count = 1;  // elements of an array; 0 for an unsized one
  bool is_extern = false;
};

struct Operand {
  enum class Kind : std::uint8_t {
    none,      // _
    variable,  // of the function: `index`
    symbol,    // of the module, a function or a special register: `text`
    label,     // of the function: `index`
    integer,   // `bits`
    single,    // the bits of a float, from 0f3F800000
    number,    // the bits of a double, from 0d3FF0000000000000 or 1.0
    vector,    // {a, b}: `items`
    address,   // [a+4]: `items` of one, and `offset`; [a, {b, c}]: `items` of more
    pair,      // p|q: `items` of two
    list,      // (a, b): `items`
  };
  Kind kind = Kind::none;
  bool negated = false;       // !p, and -a of vmad
  char component = 0;         // v.x
  std::string_view selector;  // a.b0, a.h32: a video instruction's parts
  int index = -1;
  std::string_view text;
  std::uint64_t bits = 0;
  std::int64_t offset = 0;  // bytes; also of `symbol+4`
  std::vector<Operand> items;
};

struct Instruction {
  std::string_view opcode;
  std::vector<std::string_view> modifiers;  // without their dots
  std::vector<Operand> operands;
  int guard = -1;  // the variable of its predicate
  bool guard_negated = false;
  Location location;
  int text_line = 0;  // of the PTX

  bool has(std::string_view modifier) const noexcept;
};

// What a label names: a place in the code, or a list that brx.idx and call choose from.
struct Label {
  std::size_t position = 0;             // of the instruction that it is before
  std::vector<std::size_t> targets;     // .branchtargets: places in the code
  std::vector<std::string_view> names;  // .calltargets
};

struct Function {
  std::string_view name;
  bool is_entry = false;
  bool is_extern = false;  // declared, never defined: vprintf and the like
  std::vector<Variable> variables;
  std::vector<int> parameters;  // of variables
  std::vector<int> results;     // of variables
  std::vector<Instruction> code;
  std::vector<Label> labels;
  std::uint32_t max_threads = 0;  // .maxntid and .reqntid; 0 for no limit
};

// One value of an initialiser.
struct Initial {
  std::uint64_t bits = 0;
  std::string_view symbol;  // its address is added
  std::uint64_t mask = 0;   // 0xFF00(symbol): these bits of it; 0 for all
  bool is_number = false;   // `bits` are a double's
  bool is_generic = false;  // generic(symbol)
};

struct Global {
  Variable variable;
  std::vector<Initial> initial;
};

struct Module {
  std::string text;                // what all views point into
  int version = 0;                 // 83 for 8.3
  int target = 0;                  // 80 for sm_80
  std::vector<std::string> files;  // by number; [0] is empty
  std::vector<Global> globals;
  std::vector<Function> functions;
};

// Bytes of an element of a type; 0 for .pred and unknown ones.
std::size_t size_of(std::string_view type) noexcept;

// Whether a modifier names a type: .u32, .bf16x2, .e4m3x2, .pred.
bool is_type(std::string_view modifier) noexcept;

// Throws ParseError.
Module parse(std::string text);

}  // namespace cudademo::emulator::ptx
