// A function: its directives, scopes, labels, instructions and operands.
#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "parser.hpp"

namespace cudademo::emulator::ptx {

void Parser::function(bool is_entry, bool is_extern) {
  Function made;
  function_ = &made;
  scopes_.assign(1, {});
  scope_ = 0;
  pending_.clear();
  pending_lists_.clear();
  location_ = {};
  own_file_ = 0;
  callers_.clear();
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

bool Parser::defined(std::string_view name) const {
  return std::any_of(module_.functions.begin(), module_.functions.end(),
                     [name](const Function& known) { return known.name == name; });
}

void Parser::add(Function&& made) {
  function_ = nullptr;
  for (Function& known : module_.functions) {
    if (known.name != made.name) continue;
    known = std::move(made);
    return;
  }
  module_.functions.push_back(std::move(made));
}

void Parser::function_directive(Function& made) {
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

void Parser::parameters(std::vector<int>& indices) {
  if (lexer_.accept(')')) return;
  do {
    const std::string_view space = lexer_.expect(Kind::dotted, "a state space").text;
    const Space* known = space_named(space);
    if (known == nullptr) lexer_.fail("unknown state space ." + std::string(space));
    if (*known != Space::param) lexer_.fail("a parameter that is no .param variable");
    const Shape common = shape();
    indices.push_back(declare(declarator(common, *known)));
  } while (lexer_.accept(','));
  lexer_.expect(')');
}

int Parser::declare(const Variable& variable, std::size_t count) {
  std::vector<Variable>& all = function_->variables;
  const std::size_t size = std::max<std::size_t>(count, 1);
  if (size > max_variables || all.size() + size > max_variables ||
      declared_ + size > max_module_variables) {
    lexer_.fail("too many variables");
  }
  declared_ += size;
  const int first = static_cast<int>(all.size());
  scopes_[static_cast<std::size_t>(scope_)].variables[variable.name] = {first, count};
  all.insert(all.end(), size, variable);
  return first;
}

void Parser::body(int depth) {
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

void Parser::directive() {
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

void Parser::loc() {
  const auto number = [this](const char* what) {
    return static_cast<int>(lexer_.expect(Kind::integer, what).bits & 0x7fffffff);
  };
  const auto location = [&] {
    const int file = number("a file's number");
    const int line = number("a line");
    return Location{file, line, number("a column")};
  };
  const Location here = location();
  Location caller = here;
  while (lexer_.accept(',')) {
    const std::string_view word = lexer_.expect(Kind::name, "function_name or inlined_at").text;
    if (word == "function_name") {
      lexer_.expect(Kind::name, "a label");
      if (lexer_.accept('+')) constant();
    } else if (word == "inlined_at") {
      caller = location();
    } else {
      lexer_.fail("expected function_name or inlined_at");
    }
  }
  if (own_file_ == 0) own_file_ = here.file;
  location_ = here;
  if (here.file == own_file_ || caller == here) return;
  const auto known = callers_.find({caller.file, caller.line, caller.column});
  location_ = known != callers_.end() ? known->second : caller;
  callers_[{here.file, here.line, here.column}] = location_;
}

void Parser::statement() {
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

void Parser::label(std::string_view name) {
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

int Parser::find_label(std::string_view name, int scope) const {
  for (; scope >= 0; scope = scopes_[static_cast<std::size_t>(scope)].parent) {
    const auto& labels = scopes_[static_cast<std::size_t>(scope)].labels;
    if (const auto found = labels.find(name); found != labels.end()) return found->second;
  }
  return -1;
}

void Parser::resolve_labels() {
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

const Variable& Parser::variable(int index) const {
  return function_->variables[static_cast<std::size_t>(index)];
}

int Parser::find_variable(std::string_view name) const {
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

Operand Parser::operand(int depth) {
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

Operand Parser::simple(int depth) {
  if (depth > max_depth) lexer_.fail("nested too deeply");
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

Operand Parser::number() {
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

Operand Parser::named() {
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

Operand Parser::address(int depth) {
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

}  // namespace cudademo::emulator::ptx
