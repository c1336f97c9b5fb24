// The core without Python: formats, the cache's entries, signatures, and a launch on the stub
// driver.
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>

#include "cache.hpp"
#include "driver.hpp"
#include "errors.hpp"
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
  Plan plan(std::make_shared<const Module>(binary), binary.kernels.at("k"), "k", 0);
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

}  // namespace

int main() {
  narrow_rounds_to_nearest_even();
  entries_survive_and_damage_is_seen();
  signatures_are_read_from_the_probe();
  launches_reach_the_driver();
  return failures == 0 ? 0 : 1;
}
