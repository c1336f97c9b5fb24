// The core without Python: formats, the cache's entries, signatures, and a launch on the stub
// driver.
#include <signal.h>
#include <stdlib.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cache.hpp"
#include "driver.hpp"
#include "dtype.hpp"
#include "dynlib.hpp"
#include "errors.hpp"
#include "handlers.hpp"
#include "launch.hpp"
#include "narrow.hpp"
#include "signature.hpp"

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

using namespace cudademo;

void narrow_rounds_to_nearest_even() {
  // Bit patterns by hand, from IEEE 754 and the OCP 8-bit formats.
  expect(narrow(1.0, Dtype::float16) == 0x3C00, "1 in float16");
  expect(narrow(65504.0, Dtype::float16) == 0x7BFF, "the largest float16");
  expect(!narrow(65520.0, Dtype::float16), "beyond float16");
  expect(narrow(std::ldexp(1.0, -24), Dtype::float16) == 0x0001, "the least subnormal float16");
  expect(narrow(std::ldexp(1.0, -25), Dtype::float16) == 0x0000, "a tie goes to even");
  expect(narrow(2049.0, Dtype::float16) == 0x6800, "2049 is a tie and goes to 2048");
  expect(narrow(-1.5, Dtype::bfloat16) == 0xBFC0, "-1.5 in bfloat16");
  expect(narrow(448.0, Dtype::float8_e4m3fn) == 0x7E, "the largest e4m3fn");
  expect(!narrow(INFINITY, Dtype::float8_e4m3fn), "e4m3fn has no infinity");
  expect(narrow(-INFINITY, Dtype::float8_e5m2) == 0xFC, "e5m2 has");
  expect(narrow(0.5, Dtype::float8_e8m0fnu) == 126, "a power of two in e8m0");
  expect(!narrow(3.0, Dtype::float8_e8m0fnu), "no power of two in e8m0");
}

Binary sample() {
  Binary binary;
  binary.architecture = "sm_90";
  binary.cubin = std::string(
      "\x7f"
      "ELF\0bytes",
      10);
  binary.ptx = "// ptx";
  // As NVRTC mangles the probe of void(float const*, int).
  const std::string probe = "_Z14cudademo_probeIFvPKfiE15cudademo_layoutIJLj8ELj4EEEE";
  binary.kernels["k"] = {"k", probe, parse_probe(probe)};
  return binary;
}

void entries_survive_and_damage_is_seen() {
  std::string fault;
  const std::string file = encode("key", sample());
  const auto back = decode(file, "key", fault);
  expect(back && back->cubin == sample().cubin && back->kernels.contains("k"), "a round trip");
  expect(!decode(file, "another key", fault), "another key is refused");
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::string flipped = file;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    expect(!decode(flipped, "key", fault), "a flipped bit is seen");
    expect(!decode(file.substr(0, i), "key", fault), "a short file is seen");
  }
  expect(crc32("123456789") == 0xCBF43926, "the check value of CRC-32");
}

void signatures_are_read_from_the_probe() {
  const Signature signature = sample().kernels.at("k").signature;
  expect(signature.text() == "(float const*, int)", "the text");
  expect(!signature.parameters[0].writes, "a const pointer is an input");
  expect(signature.parameters[1].dtype == Dtype::int32, "a scalar's dtype");
  expect(parse_parameter("float4*", 8).alignment == 16, "a vector's alignment");
  expect(parse_parameter("ns::S", 12).kind == Parameter::Kind::bytes, "a struct is bytes");
}

void launches_reach_the_driver() {
  const Binary binary = sample();
  Plan plan(std::make_shared<const Module>(binary, 0), binary.kernels.at("k"), "k", 0);
  int n = 1;
  void* pointer = nullptr;
  void* parameters[] = {&pointer, &n};
  plan.launch({{1, 1, 1}, {32, 1, 1}, 0}, parameters, nullptr);
  bool refused = false;
  try {
    plan.launch({{1, 1, 1}, {32, 1, 1}, 1 << 20}, parameters, nullptr);
  } catch (const LaunchError&) {
    refused = true;
  }
  expect(refused, "too much shared memory is refused");
}

void dtypes_are_known_by_name_and_by_dlpack() {
  for (int i = 1; i < dtype_count; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    expect(dtype_named(info(dtype).name) == dtype, "a dtype's name leads back to it");
  }
  expect(dtype_named("nonsense") == Dtype::unknown, "an unknown name");
  expect(dtype_from_dlpack(2, 32) == Dtype::float32, "kDLFloat of 32 bits");
  expect(dtype_from_dlpack(4, 16) == Dtype::bfloat16, "kDLBfloat of 16 bits");
  expect(dtype_from_dlpack(2, 8) == Dtype::unknown, "no kDLFloat of 8 bits");
  expect(dtype_from_dlpack(10, 8) == Dtype::float8_e4m3fn, "kDLFloat8_e4m3fn");
}

void libraries_that_are_not_there_are_named() {
  std::string text;
  try {
    const SharedLibrary library("libcudademo_nothing.so.1");
  } catch (const ToolchainError& error) {
    text = error.what();
  }
  expect(text.find("libcudademo_nothing.so.1") != std::string::npos, "the library's name");
  expect(loaded_library("libc.so").has_value(), "what the process holds is found");
  expect(!loaded_library("libcudademo_nothing").has_value(), "and what it does not is not");
}

void entries_are_stored_found_and_removed_when_damaged() {
  char name[] = "/tmp/cudademo-core-XXXXXX";
  const std::filesystem::path folder = mkdtemp(name);
  const Cache cache(folder / "cache");
  expect(!cache.load("0123", "key").binary && cache.load("0123", "key").fault.empty(),
         "no entry is no fault");
  expect(cache.store("0123", "key", sample()).empty(), "an entry is stored");
  expect(cache.load("0123", "key").binary.has_value(), "and found");
  expect(!cache.load("0123", "other").fault.empty(), "another key is a fault");
  expect(cache.store("0123", "key", sample()).empty(), "an entry is stored again");
  std::filesystem::resize_file(cache.path_of("0123"), 20);
  expect(!cache.load("0123", "key").fault.empty(), "a short file is a fault");
  expect(!std::filesystem::exists(cache.path_of("0123")), "and is removed");
  std::ofstream(folder / "file") << "in the way";
  expect(!Cache(folder / "file").store("0123", "key", sample()).empty(), "no folder is a fault");
  std::filesystem::remove_all(folder);
}

void a_context_is_current_for_a_scope() {
  const auto current = [] {
    driver::Context context = nullptr;
    driver::functions().context_get_current(&context);
    return context;
  };
  const driver::Context before = current();
  {
    const driver::ContextGuard guard(driver::primary_context(1));
    expect(current() == driver::primary_context(1), "the guard's context");
  }
  expect(current() == before, "the former context is back");
}

void threads_share_one_module_and_launch_at_once() {
  const Binary binary = sample();
  std::atomic<int> launched{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Plan plan(resident_module("digest", binary, 0), binary.kernels.at("k"), "k", 0);
      int n = 1;
      void* pointer = nullptr;
      void* parameters[] = {&pointer, &n};
      for (int j = 0; j < 100; ++j) {
        plan.launch({{1, 1, 1}, {32, 1, 1}, 50 * 1024}, parameters, nullptr);
        ++launched;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect(launched == 400, "every launch returns");
  expect(resident_module("digest", binary, 0) == resident_module("digest", binary, 0),
         "one module");
}

void of_this_program(int) {}

// The library's function installs a handler for each number with signal() or with sigaction().
void a_library_is_kept_from_two_signals(const std::string& path) {
  const SharedLibrary library(path);
  auto* install = reinterpret_cast<void (*)(int, bool)>(library.symbol("install"));
  const auto handler_after = [install](int number, bool by_sigaction) {
    struct sigaction now{};
    signal(number, of_this_program);
    install(number, by_sigaction);
    sigaction(number, nullptr, &now);
    signal(number, SIG_DFL);
    return now.sa_handler;
  };
  for (const bool by_sigaction : {false, true}) {
    expect(handler_after(SIGTERM, by_sigaction) != of_this_program, "the library can at first");
  }
  keep_signals_from(reinterpret_cast<const void*>(install));
  for (const bool by_sigaction : {false, true}) {
    for (const int number : {SIGINT, SIGTERM}) {
      expect(handler_after(number, by_sigaction) == of_this_program, "the handler stays");
    }
    expect(handler_after(SIGUSR1, by_sigaction) != of_this_program, "of these two signals only");
  }
}

}  // namespace

int main(int, char** argv) {
  narrow_rounds_to_nearest_even();
  entries_survive_and_damage_is_seen();
  signatures_are_read_from_the_probe();
  launches_reach_the_driver();
  dtypes_are_known_by_name_and_by_dlpack();
  libraries_that_are_not_there_are_named();
  entries_are_stored_found_and_removed_when_damaged();
  a_context_is_current_for_a_scope();
  threads_share_one_module_and_launch_at_once();
  a_library_is_kept_from_two_signals(argv[1]);
  return failures == 0 ? 0 : 1;
}
