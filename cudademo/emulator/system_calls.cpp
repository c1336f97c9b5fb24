#include "system_calls.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "block.hpp"
#include "heap.hpp"
#include "lanes.hpp"

namespace cudademo::emulator {

namespace {

template <typename T>
T argument(Warp& warp, const CallSite& site, std::size_t index, unsigned lane) {
  T value{};
  if (index >= site.arguments.size() || site.arguments[index].bytes < sizeof(T)) return value;
  const Frame& frame = warp.frame();
  std::memcpy(&value,
              frame.parameters.data() + std::size_t{lane} * frame.function->parameter_bytes +
                  site.arguments[index].offset,
              sizeof(T));
  return value;
}

template <typename T>
void give_back(Warp& warp, const CallSite& site, unsigned lane, T value) {
  if (site.results.empty() || site.results[0].bytes < sizeof(T)) return;
  Frame& frame = warp.frame();
  std::memcpy(frame.parameters.data() + std::size_t{lane} * frame.function->parameter_bytes +
                  site.results[0].offset,
              &value, sizeof(value));
}

// A byte of the kernel's, by its generic address; false where there is none.
bool read_byte(Warp& warp, unsigned lane, u64 address, char& byte) {
  if (address - local_window < window_bytes) {
    const std::byte* place = warp.local(lane, address - local_window, 1);
    if (place == nullptr) return false;
    byte = static_cast<char>(*place);
    return true;
  }
  if (address - shared_window < window_bytes) {
    if (address - shared_window >= warp.block().shared_bytes()) return false;
    byte = static_cast<char>(*warp.block().shared(address - shared_window));
    return true;
  }
  const Launch& launch = warp.block().launch();
  if (launch.memory->find(address, 1) == nullptr) {
    const std::shared_ptr<const HeapBlock> block = launch.heap->nearest(address);
    if (block == nullptr || !block->is_live() || !block->holds(address, 1)) return false;
  }
  byte = *reinterpret_cast<const char*>(address);
  return true;
}

std::string read_text(Warp& warp, unsigned lane, u64 address) {
  std::string text;
  char byte = 0;
  while (text.size() < 65536 && read_byte(warp, lane, address + text.size(), byte) && byte != 0) {
    text += byte;
  }
  return text;
}

template <typename T>
T read_value(Warp& warp, unsigned lane, u64& address) {
  address = (address + sizeof(T) - 1) / sizeof(T) * sizeof(T);
  char bytes[sizeof(T)]{};
  for (std::size_t i = 0; i < sizeof(T); ++i) read_byte(warp, lane, address + i, bytes[i]);
  address += sizeof(T);
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <typename T>
std::string formatted(const std::string& format, T value) {
  const int length = std::snprintf(nullptr, 0, format.c_str(), value);
  std::string text(static_cast<std::size_t>(std::max(length, 0)) + 1, '\0');
  std::snprintf(text.data(), text.size(), format.c_str(), value);
  text.pop_back();
  return text;
}

// One conversion, from its % on; moves both positions past what it takes.
std::string conversion(Warp& warp, unsigned lane, const std::string& format, std::size_t& at,
                       u64& arguments) {
  std::string specification = "%";
  ++at;
  std::size_t digits = 0;  // of a width or a precision, which may be of four
  bool too_wide = false;
  while (at < format.size() && std::strchr("-+ #0123456789.", format[at]) != nullptr) {
    digits = format[at] >= '0' && format[at] <= '9' ? digits + 1 : 0;
    too_wide = too_wide || digits > 4;
    specification += format[at++];
  }
  std::size_t longs = 0;
  while (at < format.size() && std::strchr("hlLjzt", format[at]) != nullptr) {
    if (format[at] != 'h') ++longs;
    ++at;
  }
  if (too_wide || specification.size() > 32 || at == format.size()) return specification;
  const char what = format[at++];
  switch (what) {
    case '%':
      return "%";
    case 'd':
    case 'i':
      if (longs > 0)
        return formatted(specification + "lld", read_value<long long>(warp, lane, arguments));
      return formatted(specification + "d", read_value<int>(warp, lane, arguments));
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      if (longs > 0) {
        return formatted(specification + "ll" + what,
                         read_value<unsigned long long>(warp, lane, arguments));
      }
      return formatted(specification + what, read_value<unsigned>(warp, lane, arguments));
    case 'c':
      return formatted(specification + what, read_value<int>(warp, lane, arguments));
    case 'p':
      return formatted(specification + "p", read_value<void*>(warp, lane, arguments));
    case 's':
      return formatted(specification + "s",
                       read_text(warp, lane, read_value<u64>(warp, lane, arguments)).c_str());
    case 'a':
    case 'A':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return formatted(specification + what, read_value<double>(warp, lane, arguments));
    default:
      return specification + what;
  }
}

void print(Warp& warp, const CallSite& site, Mask mask) {
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    const std::string format = read_text(warp, lane, argument<u64>(warp, site, 0, lane));
    u64 arguments = argument<u64>(warp, site, 1, lane);
    std::string text;
    for (std::size_t at = 0; at < format.size();) {
      if (format[at] == '%')
        text += conversion(warp, lane, format, at, arguments);
      else
        text += format[at++];
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
    give_back(warp, site, lane, static_cast<std::int32_t>(text.size()));
  }
  std::fflush(stdout);
}

void assertion(Warp& warp, const CallSite& site, Mask mask) {
  const unsigned lane = first_lane(mask);
  const std::string condition = read_text(warp, lane, argument<u64>(warp, site, 0, lane));
  const std::string function = read_text(warp, lane, argument<u64>(warp, site, 3, lane));
  Report report = warp.report(kind::assertion, lane);
  report.what = "assertion failed: " + condition + " in " + function;
  report.file = read_text(warp, lane, argument<u64>(warp, site, 1, lane));
  report.line = static_cast<int>(argument<u32>(warp, site, 2, lane));
  throw Fault(std::move(report));
}

std::string line_of(const Warp& warp, unsigned lane) {
  return "line " + std::to_string(warp.report("", lane).line);
}

void allocate(Warp& warp, const CallSite& site, Mask mask) {
  Heap& heap = *warp.block().launch().heap;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    const auto bytes = argument<u64>(warp, site, 0, lane);
    give_back(warp, site, lane, heap.allocate(bytes, line_of(warp, lane)));
  }
}

void release(Warp& warp, const CallSite& site, Mask mask) {
  Heap& heap = *warp.block().launch().heap;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    std::string wrong = heap.release(argument<u64>(warp, site, 0, lane), line_of(warp, lane));
    if (!wrong.empty()) warp.fail(kind::invalid, lane, std::move(wrong));
  }
}

void refuse_call(Warp& warp, const CallSite& site, Mask mask) {
  warp.fail(kind::unsupported, first_lane(mask),
            "a call of " + site.callee->name + ", which is not emulated");
}

}  // namespace

SystemCall system_call(std::string_view name) {
  if (name == "vprintf") return print;
  if (name == "__assertfail") return assertion;
  if (name == "malloc") return allocate;
  if (name == "free") return release;
  return refuse_call;
}

}  // namespace cudademo::emulator
