#include "ptx.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "lexer.hpp"

namespace cudademo::emulator::ptx {

namespace {

using Kind = Token::Kind;

constexpr std::size_t max_variables = std::size_t{1} << 20;  // of a function
constexpr std::size_t max_bytes = std::size_t{1} << 32;      // of a variable
constexpr int max_depth = 64;                                // of nesting

constexpr std::pair<std::string_view, Space> spaces[] = {
    {"reg", Space::reg},     {"const", Space::constant}, {"global", Space::global},
    {"local", Space::local}, {"param", Space::param},    {"shared", Space::shared},
};

const Space* space_named(std::string_view name) {
  for (const auto& [text, space] : spaces) {
    if (text == name) return &space;
  }
  return nullptr;
}

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

  Module run() {
    while (lexer_.peek().kind != Kind::end) top_level();
    // A short string may move with the module: the views would be left behind.
    return std::move(module_);
  }

 private:
  // ---- the module ----

  void top_level() {
    if (lexer_.accept(';')) return;
    const Token token = lexer_.expect(Kind::dotted, "a directive");
    bool is_extern = false;
    std::string_view name = token.text;
    while (name == "extern" || name == "visible" || name == "weak" || name == "common") {
      is_extern = is_extern || name == "extern";
      name = lexer_.expect(Kind::dotted, "a directive").text;
    }
    if (name == "version") {
      const Token number = lexer_.take();
      module_.version = version_of(number.text);
    } else if (name == "target") {
      target();
    } else if (name == "address_size") {
      if (lexer_.expect(Kind::integer, "a size").bits != 64) lexer_.fail("only 64-bit addresses");
    } else if (name == "file") {
      file();
    } else if (name == "section") {
      section();
    } else if (name == "func" || name == "entry") {
      function(name == "entry", is_extern);
    } else if (name == "loc") {
      loc();
    } else if (name == "pragma" || name == "alias") {
      skip_statement();
    } else if (const Space* space = space_named(name)) {
      globals(*space, is_extern);
    } else {
      lexer_.fail("unknown directive ." + std::string(name));
    }
  }

  int version_of(std::string_view text) {
    int major = 0;
    int minor = 0;
    const auto [dot, error] = std::from_chars(text.data(), text.data() + text.size(), major);
    if (error != std::errc() || dot == text.data() + text.size()) lexer_.fail("no version");
    std::from_chars(dot + 1, text.data() + text.size(), minor);
    return major * 10 + minor;
  }

  void target() {
    do {
      const Token name = lexer_.expect(Kind::name, "a target");
      if (name.text.starts_with("sm_")) {
        std::from_chars(name.text.data() + 3, name.text.data() + name.text.size(), module_.target);
      }
    } while (lexer_.accept(','));
  }

  void file() {
    const std::uint64_t number = lexer_.expect(Kind::integer, "a file's number").bits;
    const Token path = lexer_.expect(Kind::string, "a file's path");
    if (number > 0xffff) lexer_.fail("a file's number");
    if (module_.files.size() <= number) module_.files.resize(number + 1);
    module_.files[number] = std::string(path.text);
    while (lexer_.accept(',')) lexer_.expect(Kind::integer, "a time or a size");
  }

  // Debug information: of no use here.
  void section() {
    while (lexer_.peek().kind != Kind::end && !lexer_.peek().is('{')) lexer_.take();
    lexer_.expect('{');
    while (!lexer_.accept('}')) {
      if (lexer_.take().kind == Kind::end) lexer_.fail("expected '}'");
    }
  }

  void skip_statement() {
    while (!lexer_.accept(';')) {
      if (lexer_.take().kind == Kind::end) lexer_.fail("expected ';'");
    }
  }

  // ---- variables ----

  struct Shape {
    std::size_t align = 0;
    int vector = 1;
    std::string_view type;
  };

  // .align 4 .v2 .b8
  Shape shape() {
    Shape shape;
    for (;;) {
      const std::string_view name = lexer_.expect(Kind::dotted, "a type").text;
      if (name == "align") {
        shape.align = lexer_.expect(Kind::integer, "an alignment").bits;
        if (shape.align == 0 || (shape.align & (shape.align - 1)) != 0 || shape.align > 4096) {
          lexer_.fail("an alignment is a power of two");
        }
      } else if (name == "v2" || name == "v4" || name == "v8") {
        shape.vector = name[1] - '0';
      } else if (name == "ptr") {
        pointer_attributes();
        return shape;
      } else if (name == "attribute") {
        lexer_.expect('(');
        while (!lexer_.accept(')')) {
          if (lexer_.take().kind == Kind::end) lexer_.fail("expected ')'");
        }
      } else {
        shape.type = name;
        if (size_of(name) == 0 && name != "pred") lexer_.fail("unknown type ." + std::string(name));
        if (shape.align == 0) {
          shape.align =
              std::max<std::size_t>(1, size_of(name) * static_cast<unsigned>(shape.vector));
        }
        // A parameter's pointer attributes follow its type: .u64 .ptr .global .align 4
        if (lexer_.peek().kind == Kind::dotted && lexer_.peek().text == "ptr") {
          lexer_.take();
          pointer_attributes();
        }
        return shape;
      }
    }
  }

  void pointer_attributes() {
    while (lexer_.peek().kind == Kind::dotted) {
      if (lexer_.take().text == "align") lexer_.expect(Kind::integer, "an alignment");
    }
  }

  // a[4][2], of this shape.
  Variable declarator(const Shape& shape, Space space) {
    Variable variable;
    variable.name = lexer_.expect(Kind::name, "a name").text;
    variable.space = space;
    variable.type = shape.type;
    variable.vector = shape.vector;
    variable.align = shape.align;
    while (lexer_.accept('[')) {
      std::uint64_t extent = 0;
      if (!lexer_.peek().is(']')) extent = constant();
      lexer_.expect(']');
      if (extent != 0 && variable.count > max_bytes / extent) lexer_.fail("an array too large");
      variable.count *= extent;
    }
    if (variable.count * size_of(shape.type) > max_bytes) lexer_.fail("an array too large");
    return variable;
  }

  void globals(Space space, bool is_extern) {
    const Shape common = shape();
    do {
      Global global{declarator(common, space), {}};
      global.variable.is_extern = is_extern;
      if (lexer_.accept('=')) {
        initial(global.initial, 0);
        const std::size_t extent = global.initial.size();
        if (global.variable.count == 0) global.variable.count = extent;  // of an unsized array
      }
      module_.globals.push_back(std::move(global));
    } while (lexer_.accept(','));
    lexer_.expect(';');
  }

  void initial(std::vector<Initial>& values, int depth) {
    if (depth > max_depth) lexer_.fail("nested too deeply");
    if (lexer_.accept('{')) {
      if (lexer_.accept('}')) return;
      do {
        initial(values, depth + 1);
      } while (lexer_.accept(','));
      lexer_.expect('}');
      return;
    }
    Initial value;
    if (lexer_.peek().kind == Kind::name) {
      symbol_value(value);
    } else if (lexer_.peek().kind == Kind::single || lexer_.peek().kind == Kind::number) {
      const Token number = lexer_.take();
      value.bits = number.bits;
      value.is_number = number.kind == Kind::number;
    } else {
      value.bits = constant();
      if (lexer_.accept('(')) {  // a mask
        value.mask = std::exchange(value.bits, 0);
        symbol_value(value);
        lexer_.expect(')');
      }
    }
    values.push_back(value);
  }

  // a, a+4, generic(a)+4
  void symbol_value(Initial& value) {
    value.symbol = lexer_.expect(Kind::name, "a name").text;
    if (value.symbol == "generic" && lexer_.accept('(')) {
      value.is_generic = true;
      value.symbol = lexer_.expect(Kind::name, "a name").text;
      lexer_.expect(')');
    }
    if (lexer_.accept('+'))
      value.bits = constant();
    else if (lexer_.accept('-'))
      value.bits = 0 - constant();
  }

  // ---- constant expressions ----

  std::uint64_t constant() { return sum(0); }

  std::uint64_t sum(int depth) {
    std::uint64_t value = product(depth);
    for (;;) {
      if (lexer_.accept('+'))
        value += product(depth);
      else if (lexer_.accept('-'))
        value -= product(depth);
      else
        return value;
    }
  }

  std::uint64_t product(int depth) {
    std::uint64_t value = unary(depth);
    while (lexer_.accept('*')) value *= unary(depth);
    return value;
  }

  std::uint64_t unary(int depth) {
    if (depth > max_depth) lexer_.fail("nested too deeply");
    if (lexer_.accept('-')) return 0 - unary(depth + 1);
    if (lexer_.accept('+')) return unary(depth + 1);
    if (lexer_.accept('~')) return ~unary(depth + 1);
    if (lexer_.accept('!')) return unary(depth + 1) == 0 ? 1 : 0;
    if (lexer_.accept('(')) {
      const std::uint64_t value = sum(depth + 1);
      lexer_.expect(')');
      return value;
    }
    return lexer_.expect(Kind::integer, "a number").bits;
  }

  // ---- functions ----

  void function(bool is_entry, bool is_extern) {
    Function made;
    function_ = &made;
    scopes_.assign(1, {});
    scope_ = 0;
    pending_.clear();
    pending_lists_.clear();
    location_ = {};
    made.is_entry = is_entry;
    made.is_extern = is_extern;
    if (!is_entry && lexer_.accept('(')) parameters(made.results);
    made.name = lexer_.expect(Kind::name, "a function's name").text;
    if (lexer_.accept('(')) parameters(made.parameters);
    while (lexer_.peek().kind == Kind::dotted) function_directive(made);
    if (lexer_.accept(';')) {
      if (is_extern || !defined(made.name)) add(std::move(made));
      return;
    }
    made.is_extern = false;
    lexer_.expect('{');
    body(0);
    resolve_labels();
    add(std::move(made));
  }

  bool defined(std::string_view name) const {
    return std::any_of(module_.functions.begin(), module_.functions.end(),
                       [name](const Function& known) { return known.name == name; });
  }

  // A definition takes the place of its declaration.
  void add(Function&& made) {
    function_ = nullptr;
    for (Function& known : module_.functions) {
      if (known.name != made.name) continue;
      known = std::move(made);
      return;
    }
    module_.functions.push_back(std::move(made));
  }

  void function_directive(Function& made) {
    const std::string_view name = lexer_.take().text;
    std::uint64_t product = 1;
    bool any = false;
    while (lexer_.peek().kind == Kind::integer) {
      product *= std::min<std::uint64_t>(lexer_.take().bits, 4096);
      any = true;
      if (!lexer_.accept(',')) break;
    }
    if (any && (name == "maxntid" || name == "reqntid")) {
      made.max_threads = static_cast<std::uint32_t>(product);
    }
    if (name == "pragma" || name == "attribute") {
      while (!lexer_.peek().is('{') && !lexer_.peek().is(';')) {
        if (lexer_.take().kind == Kind::end) lexer_.fail("expected '{'");
      }
      if (name == "pragma") lexer_.accept(';');
    }
  }

  // After the opening parenthesis.
  void parameters(std::vector<int>& indices) {
    if (lexer_.accept(')')) return;
    do {
      const std::string_view space = lexer_.expect(Kind::dotted, "a state space").text;
      const Space* known = space_named(space);
      if (known == nullptr) lexer_.fail("unknown state space ." + std::string(space));
      const Shape common = shape();
      indices.push_back(declare(declarator(common, *known)));
    } while (lexer_.accept(','));
    lexer_.expect(')');
  }

  int declare(const Variable& variable, std::size_t count = 0) {
    std::vector<Variable>& all = function_->variables;
    const std::size_t size = std::max<std::size_t>(count, 1);
    if (size > max_variables || all.size() + size > max_variables)
      lexer_.fail("too many variables");
    const int first = static_cast<int>(all.size());
    scopes_[static_cast<std::size_t>(scope_)].variables[variable.name] = {first, count};
    all.insert(all.end(), size, variable);
    return first;
  }

  // After the opening brace, up to the closing one.
  void body(int depth) {
    if (depth > max_depth) lexer_.fail("nested too deeply");
    while (!lexer_.accept('}')) {
      if (lexer_.peek().kind == Kind::end) lexer_.fail("expected '}'");
      if (lexer_.accept(';')) continue;
      if (lexer_.accept('{')) {
        const int outer = scope_;
        scope_ = static_cast<int>(scopes_.size());
        scopes_.push_back({outer, {}, {}});
        body(depth + 1);
        scope_ = outer;
      } else if (lexer_.peek().kind == Kind::dotted) {
        directive();
      } else {
        statement();
      }
    }
  }

  void directive() {
    const std::string_view name = lexer_.take().text;
    if (name == "loc") return loc();
    if (name == "pragma") return skip_statement();
    const Space* space = space_named(name);
    if (space == nullptr) lexer_.fail("unknown directive ." + std::string(name));
    const Shape common = shape();
    do {
      const Variable variable = declarator(common, *space);
      if (lexer_.accept('<')) {
        const std::uint64_t count = constant();
        lexer_.expect('>');
        declare(variable, std::max<std::size_t>(count, 1));
      } else {
        declare(variable);
      }
    } while (lexer_.accept(','));
    lexer_.expect(';');
  }

  // .loc 1 20 3, function_name $L__info_string0, inlined_at 1 9 5
  void loc() {
    const auto number = [this](const char* what) {
      return static_cast<int>(lexer_.expect(Kind::integer, what).bits & 0x7fffffff);
    };
    location_.file = number("a file's number");
    location_.line = number("a line");
    location_.column = number("a column");
    while (lexer_.accept(',')) {
      const std::string_view word = lexer_.expect(Kind::name, "function_name or inlined_at").text;
      if (word == "function_name") {
        lexer_.expect(Kind::name, "a label");
        if (lexer_.accept('+')) constant();
      } else if (word == "inlined_at") {
        number("a file's number");
        number("a line");
        number("a column");
      } else {
        lexer_.fail("expected function_name or inlined_at");
      }
    }
  }

  // A label, or an instruction with its guard.
  void statement() {
    Instruction instruction;
    instruction.location = location_;
    instruction.text_line = lexer_.peek().line;
    if (lexer_.accept('@')) {
      instruction.guard_negated = lexer_.accept('!');
      const Token name = lexer_.expect(Kind::name, "a predicate");
      instruction.guard = find_variable(name.text);
      if (instruction.guard < 0 || variable(instruction.guard).type != "pred") {
        lexer_.fail("no predicate " + std::string(name.text));
      }
    }
    const Token name = lexer_.expect(Kind::name, "an instruction");
    if (lexer_.accept(':')) return label(name.text);
    instruction.opcode = name.text;
    while (lexer_.peek().kind == Kind::dotted) instruction.modifiers.push_back(lexer_.take().text);
    if (!lexer_.peek().is(';')) {
      do {
        instruction.operands.push_back(operand(0));
      } while (lexer_.accept(','));
    }
    lexer_.expect(';');
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
      if (instruction.operands[i].kind == Operand::Kind::symbol) {
        pending_.push_back({function_->code.size(), i, scope_});
      }
    }
    function_->code.push_back(std::move(instruction));
  }

  void label(std::string_view name) {
    const int index = static_cast<int>(function_->labels.size());
    if (!scopes_[static_cast<std::size_t>(scope_)].labels.emplace(name, index).second) {
      lexer_.fail("the label " + std::string(name) + " stands twice");
    }
    Label made;
    made.position = function_->code.size();
    if (lexer_.peek().kind == Kind::dotted) {
      const std::string_view what = lexer_.peek().text;
      if (what == "branchtargets" || what == "calltargets") {
        lexer_.take();
        PendingList list{index, scope_, {}};
        do {
          list.names.push_back(lexer_.expect(Kind::name, "a label").text);
        } while (lexer_.accept(','));
        lexer_.expect(';');
        if (what == "calltargets")
          made.names = std::move(list.names);
        else
          pending_lists_.push_back(std::move(list));
      } else if (what == "callprototype") {
        skip_statement();
      }
    }
    function_->labels.push_back(std::move(made));
  }

  int find_label(std::string_view name, int scope) const {
    for (; scope >= 0; scope = scopes_[static_cast<std::size_t>(scope)].parent) {
      const auto& labels = scopes_[static_cast<std::size_t>(scope)].labels;
      if (const auto found = labels.find(name); found != labels.end()) return found->second;
    }
    return -1;
  }

  void resolve_labels() {
    for (const Pending& pending : pending_) {
      Operand& operand = function_->code[pending.instruction].operands[pending.operand];
      const int found = find_label(operand.text, pending.scope);
      if (found < 0) continue;
      operand.kind = Operand::Kind::label;
      operand.index = found;
    }
    for (const PendingList& list : pending_lists_) {
      for (const std::string_view name : list.names) {
        const int found = find_label(name, list.scope);
        if (found < 0) lexer_.fail("no label " + std::string(name));
        const std::size_t position = function_->labels[static_cast<std::size_t>(found)].position;
        function_->labels[static_cast<std::size_t>(list.label)].targets.push_back(position);
      }
    }
  }

  const Variable& variable(int index) const {
    return function_->variables[static_cast<std::size_t>(index)];
  }

  int find_variable(std::string_view name) const {
    std::string_view prefix = name;
    while (!prefix.empty() && prefix.back() >= '0' && prefix.back() <= '9') prefix.remove_suffix(1);
    std::size_t number = 0;
    const bool numbered =
        prefix.size() < name.size() &&
        std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number).ec ==
            std::errc();
    for (int at = scope_; at >= 0; at = scopes_[static_cast<std::size_t>(at)].parent) {
      const auto& known = scopes_[static_cast<std::size_t>(at)].variables;
      if (const auto found = known.find(name); found != known.end() && found->second.count == 0) {
        return found->second.first;
      }
      if (!numbered) continue;
      const auto found = known.find(prefix);
      if (found != known.end() && number < found->second.count) {
        return found->second.first + static_cast<int>(number);
      }
    }
    return -1;
  }

  // ---- operands ----

  Operand operand(int depth) {
    if (depth > max_depth) lexer_.fail("nested too deeply");
    Operand made = simple(depth);
    if (lexer_.accept('|')) {
      Operand pair;
      pair.kind = Operand::Kind::pair;
      pair.items.push_back(std::move(made));
      pair.items.push_back(simple(depth + 1));
      return pair;
    }
    return made;
  }

  Operand simple(int depth) {
    Operand made;
    const Token& next = lexer_.peek();
    if (next.is('[')) return address(depth);
    if (next.is('{') || next.is('(')) {
      const bool is_vector = next.is('{');
      made.kind = is_vector ? Operand::Kind::vector : Operand::Kind::list;
      const char close = is_vector ? '}' : ')';
      lexer_.take();
      if (lexer_.accept(close)) return made;
      do {
        made.items.push_back(operand(depth + 1));
      } while (lexer_.accept(','));
      lexer_.expect(close);
      return made;
    }
    if (next.is('!')) {
      lexer_.take();
      made = simple(depth + 1);
      made.negated = true;
      return made;
    }
    if (next.kind == Kind::single || next.kind == Kind::number) {
      made.kind = next.kind == Kind::single ? Operand::Kind::single : Operand::Kind::number;
      made.bits = lexer_.take().bits;
      return made;
    }
    if (next.is('-') || next.is('~') || next.kind == Kind::integer) return number();
    if (next.kind != Kind::name) lexer_.fail("expected an operand");
    return named();
  }

  Operand number() {
    Operand made;
    made.kind = Operand::Kind::integer;
    if (lexer_.accept('-')) {
      if (lexer_.peek().kind == Kind::name) {
        made = named();
        made.negated = true;
        return made;
      }
      if (lexer_.peek().kind == Kind::number || lexer_.peek().kind == Kind::single) {
        const bool is_single = lexer_.peek().kind == Kind::single;
        made.kind = is_single ? Operand::Kind::single : Operand::Kind::number;
        made.bits = lexer_.take().bits ^ (is_single ? 0x80000000u : std::uint64_t{1} << 63);
        return made;
      }
      made.bits = 0 - product(0);
    } else {
      made.bits = product(0);
    }
    for (;;) {
      if (lexer_.accept('+'))
        made.bits += product(0);
      else if (lexer_.accept('-'))
        made.bits -= product(0);
      else
        return made;
    }
  }

  Operand named() {
    Operand made;
    const Token name = lexer_.take();
    if (name.text == "_") return made;
    made.text = name.text;
    made.index = find_variable(name.text);
    made.kind = made.index >= 0 ? Operand::Kind::variable : Operand::Kind::symbol;
    if (lexer_.peek().kind == Kind::dotted && lexer_.peek().adjacent &&
        lexer_.peek().text.size() > 1) {
      made.selector = lexer_.take().text;
    } else if (lexer_.peek().kind == Kind::dotted && lexer_.peek().adjacent) {
      constexpr std::string_view letters = "xyzwrgba";
      const std::size_t found = letters.find(lexer_.peek().text.front());
      if (found == std::string_view::npos) lexer_.fail("expected a component");
      made.component = "xyzw"[found % 4];
      lexer_.take();
    }
    if (lexer_.accept('+'))
      made.offset = static_cast<std::int64_t>(constant());
    else if (lexer_.accept('-'))
      made.offset = static_cast<std::int64_t>(0 - constant());
    return made;
  }

  // [a], [a+4], [1024], [a, {x, y}]
  Operand address(int depth) {
    lexer_.expect('[');
    Operand made;
    made.kind = Operand::Kind::address;
    do {
      made.items.push_back(operand(depth + 1));
    } while (lexer_.accept(','));
    lexer_.expect(']');
    made.offset = std::exchange(made.items.front().offset, 0);
    return made;
  }

  Module module_;
  Lexer lexer_;
  Function* function_ = nullptr;
  std::vector<Scope> scopes_;
  int scope_ = 0;
  std::vector<Pending> pending_;
  std::vector<PendingList> pending_lists_;
  Location location_;
};

}  // namespace

bool Instruction::has(std::string_view modifier) const noexcept {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

std::size_t size_of(std::string_view type) noexcept {
  constexpr std::pair<std::string_view, std::size_t> sizes[] = {
      {"b8", 1},    {"u8", 1},     {"s8", 1},    {"b16", 2},    {"u16", 2},        {"s16", 2},
      {"f16", 2},   {"bf16", 2},   {"b32", 4},   {"u32", 4},    {"s32", 4},        {"f32", 4},
      {"f16x2", 4}, {"bf16x2", 4}, {"tf32", 4},  {"b64", 8},    {"u64", 8},        {"s64", 8},
      {"f64", 8},   {"f32x2", 8},  {"b128", 16}, {"texref", 8}, {"samplerref", 8}, {"surfref", 8},
  };
  for (const auto& [name, size] : sizes) {
    if (name == type) return size;
  }
  return 0;
}

bool is_type(std::string_view modifier) noexcept {
  const std::size_t width = modifier.find_first_not_of("usbfet");
  return modifier == "pred" ||
         (width != 0 && width != std::string_view::npos && modifier[width] >= '1' &&
          modifier[width] <= '9' &&
          modifier.find_first_not_of("0123456789mx", width) == std::string_view::npos);
}

Module parse(std::string text) {
  // Views survive the move only where the text is on the heap.
  if (text.size() < 64) text.resize(64, ' ');
  return Parser(std::move(text)).run();
}

}  // namespace cudademo::emulator::ptx
