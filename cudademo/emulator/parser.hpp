// Reads the text of a module. One class, in a file for each part of the grammar.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lexer.hpp"
#include "ptx.hpp"

namespace cudademo::emulator::ptx {

using Kind = Token::Kind;

inline constexpr std::size_t max_variables = std::size_t{1} << 18;  // of a function
inline constexpr std::size_t max_module_variables = std::size_t{1} << 22;
inline constexpr std::size_t max_bytes = std::size_t{1} << 32;  // of a variable
inline constexpr int max_depth = 64;                            // of nesting

// Null where there is none of this name.
const Space* space_named(std::string_view name);

// %r<45> is one entry; a plain name has no count.
struct Declared {
  int first = 0;
  std::size_t count = 0;
};

struct Scope {
  int parent = -1;
  std::map<std::string_view, Declared> variables;
  std::map<std::string_view, int> labels;
};

// A label may be named before it stands: looked up when the function is whole.
struct Pending {
  std::size_t instruction;
  std::size_t operand;
  int scope;
};

struct PendingList {
  int label;
  int scope;
  std::vector<std::string_view> names;
};

class Parser {
 public:
  explicit Parser(std::string text)
      : module_{std::move(text), 0, 0, {""}, {}, {}}, lexer_(module_.text) {}
  Module run();

 private:
  // ---- the module ----
  void top_level();
  int version_of(std::string_view text);
  void target();
  void file();

  // Debug information: of no use here.
  void section();
  void skip_statement();

  // ---- variables ----

  struct Shape {
    std::size_t align = 0;
    int vector = 1;
    std::string_view type;
  };

  // .align 4 .v2 .b8
  Shape shape();
  void pointer_attributes();

  // a[4][2], of this shape.
  Variable declarator(const Shape& shape, Space space);
  void globals(Space space, bool is_extern);
  void initial(std::vector<Initial>& values, int depth);

  // a, a+4, generic(a)+4
  void symbol_value(Initial& value);

  // ---- constant expressions ----
  std::uint64_t constant();
  std::uint64_t sum(int depth);
  std::uint64_t product(int depth);
  std::uint64_t unary(int depth);

  // ---- functions ----
  void function(bool is_entry, bool is_extern);
  bool defined(std::string_view name) const;

  // A definition takes the place of its declaration.
  void add(Function&& made);
  void function_directive(Function& made);

  // After the opening parenthesis.
  void parameters(std::vector<int>& indices);
  int declare(const Variable& variable, std::size_t count = 0);

  // After the opening brace, up to the closing one.
  void body(int depth);
  void directive();

  // .loc 1 20 3, function_name $L__info_string0, inlined_at 1 9 5
  //
  // What a header's function does is the line's of the function's own file that called it: the line
  // of the place that it is inlined at comes before.
  void loc();

  // A label, or an instruction with its guard.
  void statement();
  void label(std::string_view name);
  int find_label(std::string_view name, int scope) const;
  void resolve_labels();
  const Variable& variable(int index) const;
  int find_variable(std::string_view name) const;

  // ---- operands ----
  Operand operand(int depth);
  Operand simple(int depth);
  Operand number();
  Operand named();

  // [a], [a+4], [1024], [a, {x, y}]
  Operand address(int depth);

  Module module_;
  Lexer lexer_;
  Function* function_ = nullptr;
  std::size_t declared_ = 0;  // variables of all functions
  std::vector<Scope> scopes_;
  int scope_ = 0;
  std::vector<Pending> pending_;
  std::vector<PendingList> pending_lists_;
  Location location_;
  int own_file_ = 0;                                // of the function
  std::map<std::array<int, 3>, Location> callers_;  // of what is inlined from another file
};

}  // namespace cudademo::emulator::ptx
