// The tokens of a PTX text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cudademo::emulator::ptx {

struct Token {
  enum class Kind : std::uint8_t {
    end,
    name,     // add, %r1, $L__BB0_1
    dotted,   // .f32: `text` is without the dot
    integer,  // `bits`
    single,   // 0f3F800000: the bits of a float
    number,   // 1.0, 0d...: the bits of a double
    string,   // `text` is without the quotes
    mark,     // one character of punctuation
  };
  Kind kind = Kind::end;
  std::string_view text;
  std::uint64_t bits = 0;
  int line = 1;
  bool adjacent = false;  // nothing stands between it and the token before

  bool is(char mark) const noexcept { return kind == Kind::mark && text.front() == mark; }
};

// Hands out one token at a time, with one of look-ahead.
class Lexer {
 public:
  // The text must outlive the lexer and all its tokens. Throws ParseError.
  explicit Lexer(std::string_view text);

  const Token& peek() const noexcept { return next_; }
  Token take();

  // Takes the token if it is this mark.
  bool accept(char mark);
  // Takes this mark, or throws ParseError.
  void expect(char mark);
  Token expect(Token::Kind kind, const char* what);

  [[noreturn]] void fail(const std::string& what) const;

 private:
  void advance();
  void skip_blanks();
  void read_number();

  std::string_view text_;
  std::size_t position_ = 0;
  int line_ = 1;
  Token next_;
};

}  // namespace cudademo::emulator::ptx
