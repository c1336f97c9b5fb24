#include "lexer.hpp"

#include <bit>
#include <charconv>
#include <cstddef>

#include "ptx.hpp"

namespace cudademo::emulator::ptx {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '$';
}

int digit_of(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

}  // namespace

Lexer::Lexer(std::string_view text) : text_(text) { advance(); }

Token Lexer::take() {
  const Token token = next_;
  advance();
  return token;
}

bool Lexer::accept(char mark) {
  if (!next_.is(mark)) return false;
  advance();
  return true;
}

void Lexer::expect(char mark) {
  if (!accept(mark)) fail(std::string("expected '") + mark + "'");
}

Token Lexer::expect(Token::Kind kind, const char* what) {
  if (next_.kind != kind) fail(std::string("expected ") + what);
  return take();
}

void Lexer::fail(const std::string& what) const {
  std::string found = "the end";
  if (next_.kind != Token::Kind::end) found = "'" + std::string(next_.text.substr(0, 60)) + "'";
  throw ParseError("line " + std::to_string(next_.line) + ": " + what + ", found " + found);
}

void Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++position_;
    } else if (text_.substr(position_, 2) == "//") {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (text_.substr(position_, 2) == "/*") {
      const std::size_t close = text_.find("*/", position_ + 2);
      const std::size_t past = close == std::string_view::npos ? text_.size() : close + 2;
      for (; position_ < past; ++position_) line_ += text_[position_] == '\n' ? 1 : 0;
    } else {
      return;
    }
  }
}

void Lexer::read_number() {
  const std::size_t begin = position_;
  const auto is = [this](std::size_t at, char lower) {
    return at < text_.size() && (text_[at] | 0x20) == lower;
  };
  const auto digits = [this](int base) {
    std::uint64_t value = 0;
    const std::size_t first = position_;
    while (position_ < text_.size() && digit_of(text_[position_]) < base) {
      value =
          value * static_cast<unsigned>(base) + static_cast<unsigned>(digit_of(text_[position_++]));
    }
    if (position_ == first) fail("a number without digits");
    return value;
  };
  next_.kind = Token::Kind::integer;
  if (text_[begin] == '0' && (is(begin + 1, 'f') || is(begin + 1, 'd'))) {
    next_.kind = is(begin + 1, 'f') ? Token::Kind::single : Token::Kind::number;
    position_ += 2;
    next_.bits = digits(16);
  } else if (text_[begin] == '0' && is(begin + 1, 'x')) {
    position_ += 2;
    next_.bits = digits(16);
  } else if (text_[begin] == '0' && is(begin + 1, 'b')) {
    position_ += 2;
    next_.bits = digits(2);
  } else {
    std::size_t end = begin;
    while (end < text_.size() && is_digit(text_[end])) ++end;
    if (end < text_.size() && (text_[end] == '.' || is(end, 'e'))) {
      double value = 0;
      const auto [past, error] =
          std::from_chars(text_.data() + begin, text_.data() + text_.size(), value);
      if (error != std::errc()) fail("a malformed number");
      position_ = static_cast<std::size_t>(past - text_.data());
      next_.kind = Token::Kind::number;
      next_.bits = std::bit_cast<std::uint64_t>(value);
    } else {
      next_.bits = digits(text_[begin] == '0' ? 8 : 10);
    }
  }
  if (next_.kind == Token::Kind::integer && is(position_, 'u')) ++position_;
  next_.text = text_.substr(begin, position_ - begin);
}

void Lexer::advance() {
  const std::size_t before = position_;
  skip_blanks();
  next_ = {};
  next_.line = line_;
  next_.adjacent = position_ == before;
  if (position_ == text_.size()) return;
  const std::size_t begin = position_;
  const char c = text_[begin];
  if (is_digit(c)) return read_number();
  const auto word = [this](std::size_t from) {
    std::size_t end = from;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return end;
  };
  if (c == '.' && begin + 1 < text_.size() && is_word(text_[begin + 1])) {
    position_ = word(begin + 1);
    while (text_.substr(position_, 2) == "::") position_ = word(position_ + 2);
    next_.kind = Token::Kind::dotted;
    next_.text = text_.substr(begin + 1, position_ - begin - 1);
  } else if (is_word(c) || c == '%') {
    position_ = word(begin + 1);
    next_.kind = Token::Kind::name;
    next_.text = text_.substr(begin, position_ - begin);
  } else if (c == '"') {
    std::size_t end = begin + 1;
    while (end < text_.size() && text_[end] != '"') {
      if (text_[end] == '\n') ++line_;
      end += text_[end] == '\\' ? 2 : 1;
    }
    end = std::min(end, text_.size());
    next_.kind = Token::Kind::string;
    next_.text = text_.substr(begin + 1, end - begin - 1);
    position_ = std::min(end + 1, text_.size());
  } else {
    ++position_;
    next_.kind = Token::Kind::mark;
    next_.text = text_.substr(begin, 1);
  }
}

}  // namespace cudademo::emulator::ptx
