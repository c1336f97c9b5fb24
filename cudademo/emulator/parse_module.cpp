// The directives of a module, and its variables with their initialisers.
#include <algorithm>
#include <charconv>
#include <string>

#include "parser.hpp"

namespace cudademo::emulator::ptx {

namespace {

constexpr std::pair<std::string_view, Space> spaces[] = {
    {"reg", Space::reg},     {"const", Space::constant}, {"global", Space::global},
    {"local", Space::local}, {"param", Space::param},    {"shared", Space::shared},
};

}  // namespace

const Space* space_named(std::string_view name) {
  for (const auto& [text, space] : spaces) {
    if (text == name) return &space;
  }
  return nullptr;
}

Module Parser::run() {
  while (lexer_.peek().kind != Kind::end) top_level();
  // A short string may move with the module: the views would be left behind.
  return std::move(module_);
}

void Parser::top_level() {
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

int Parser::version_of(std::string_view text) {
  int major = 0;
  int minor = 0;
  const auto [dot, error] = std::from_chars(text.data(), text.data() + text.size(), major);
  if (error != std::errc() || dot == text.data() + text.size()) lexer_.fail("no version");
  std::from_chars(dot + 1, text.data() + text.size(), minor);
  if (major > 99 || minor > 9) lexer_.fail("no version");
  return major * 10 + minor;
}

void Parser::target() {
  do {
    const Token name = lexer_.expect(Kind::name, "a target");
    if (name.text.starts_with("sm_")) {
      std::from_chars(name.text.data() + 3, name.text.data() + name.text.size(), module_.target);
    }
  } while (lexer_.accept(','));
}

void Parser::file() {
  const std::uint64_t number = lexer_.expect(Kind::integer, "a file's number").bits;
  const Token path = lexer_.expect(Kind::string, "a file's path");
  if (number > 0xffff) lexer_.fail("a file's number");
  if (module_.files.size() <= number) module_.files.resize(number + 1);
  module_.files[number] = std::string(path.text);
  while (lexer_.accept(',')) lexer_.expect(Kind::integer, "a time or a size");
}

void Parser::section() {
  while (lexer_.peek().kind != Kind::end && !lexer_.peek().is('{')) lexer_.take();
  lexer_.expect('{');
  while (!lexer_.accept('}')) {
    if (lexer_.take().kind == Kind::end) lexer_.fail("expected '}'");
  }
}

void Parser::skip_statement() {
  while (!lexer_.accept(';')) {
    if (lexer_.take().kind == Kind::end) lexer_.fail("expected ';'");
  }
}

Parser::Shape Parser::shape() {
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
    } else if (name == "attribute") {
      lexer_.expect('(');
      while (!lexer_.accept(')')) {
        if (lexer_.take().kind == Kind::end) lexer_.fail("expected ')'");
      }
    } else {
      shape.type = name;
      if (size_of(name) == 0 && name != "pred") lexer_.fail("unknown type ." + std::string(name));
      if (shape.align == 0) {
        shape.align = std::max<std::size_t>(1, size_of(name) * static_cast<unsigned>(shape.vector));
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

void Parser::pointer_attributes() {
  while (lexer_.peek().kind == Kind::dotted) {
    if (lexer_.take().text == "align") lexer_.expect(Kind::integer, "an alignment");
  }
}

Variable Parser::declarator(const Shape& shape, Space space) {
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

void Parser::globals(Space space, bool is_extern) {
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

void Parser::initial(std::vector<Initial>& values, int depth) {
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

void Parser::symbol_value(Initial& value) {
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

std::uint64_t Parser::constant() { return sum(0); }

std::uint64_t Parser::sum(int depth) {
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

std::uint64_t Parser::product(int depth) {
  std::uint64_t value = unary(depth);
  while (lexer_.accept('*')) value *= unary(depth);
  return value;
}

std::uint64_t Parser::unary(int depth) {
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

}  // namespace cudademo::emulator::ptx
