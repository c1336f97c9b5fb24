// Changes PTX texts line by line and word by word, so that much of what comes out still parses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cudademo::emulator {

class Mutator {
 public:
  // Takes its words from a dictionary of libFuzzer's: one a line, in quotes.
  Mutator(const std::filesystem::path& dictionary, std::uint64_t seed) : random_(seed) {
    std::ifstream file(dictionary);
    for (std::string line; std::getline(file, line);) {
      if (line.size() > 2 && line.front() == '"') words_.push_back(line.substr(1, line.size() - 2));
    }
    if (words_.empty()) words_.emplace_back("0");
  }

  void seed(std::uint64_t value) { random_.seed(value); }
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  // One to four changes; `donor` lends lines and words.
  void change(std::string& text, std::string_view donor) {
    for (std::size_t left = 1 + below(4); left > 0; --left) change_once(text, donor);
  }

 private:
  using Span = std::pair<std::size_t, std::size_t>;  // a place and a length

  void change_once(std::string& text, std::string_view donor) {
    switch (below(12)) {
      case 0:
        erase(text, line_of(text));
        break;
      case 1:
        text.insert(line_of(text).first, cut(text, line_of(text)));
        break;
      case 2:
      case 3:
        text.insert(line_of(text).first, cut(donor, line_of(donor)));
        break;
      case 4:
        text.insert(word_of(text).first, any_word() + " ");
        break;
      case 5:
        erase(text, word_of(text));
        break;
      case 6:
        if (!text.empty()) text[below(text.size())] = static_cast<char>(below(128));
        break;
      case 7:
        replace(text, cut(donor, word_of(donor)));
        break;
      case 8:
      case 9:
        replace(text, cut(text, word_of(text)));
        break;
      default:
        replace(text, any_word());
    }
  }

  std::string any_word() {
    static constexpr std::uint64_t edges[] = {0, 1, 7, 31, 32, 255, 65535};
    if (below(4) != 0) return words_[below(words_.size())];
    return std::to_string(below(2) != 0 ? edges[below(std::size(edges))]
                                        : random_() >> below(64));  // of any length
  }

  static std::string cut(std::string_view text, Span span) {
    return std::string(text.substr(span.first, span.second));
  }
  static void erase(std::string& text, Span span) { text.erase(span.first, span.second); }
  void replace(std::string& text, const std::string& with) {
    const Span span = word_of(text);
    text.replace(span.first, span.second, with);
  }

  // A line with its end.
  Span line_of(std::string_view text) {
    if (text.empty()) return {0, 0};
    const std::size_t at = below(text.size());
    const std::size_t before = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1);
    return {begin, end + 1 - begin};
  }

  // A name, a number or a dotted word.
  Span word_of(std::string_view text) {
    constexpr std::string_view letters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$%:";
    const std::size_t begin = text.find_first_of(letters, below(text.size()));
    if (begin == std::string_view::npos) return {0, 0};
    const std::size_t end = std::min(text.find_first_not_of(letters, begin), text.size());
    const std::size_t dot = begin > 0 && text[begin - 1] == '.' && below(2) != 0 ? 1 : 0;
    return {begin - dot, end - begin + dot};
  }

  std::mt19937_64 random_;
  std::vector<std::string> words_;
};

}  // namespace cudademo::emulator
