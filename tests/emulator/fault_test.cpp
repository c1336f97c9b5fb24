// Each kind of fault: how it is reported, and that the next launch is none the worse for it.
#include <cstdint>
#include <string>
#include <vector>

#include "emulated.hpp"

namespace cudademo::emulator {

namespace {

using Words = std::vector<std::uint32_t>;

// CUresults, from cuda.h.
constexpr int invalid_ptx = 218;
constexpr int illegal_address = 700;
constexpr int launch_timeout = 702;
constexpr int assertion = 710;
constexpr int misaligned_address = 716;
constexpr int launch_failed = 719;
constexpr int not_supported = 801;

// A kernel that does nothing wrong where its first word is not zero.
void expect_fault(const std::string& instructions, int result, const std::string& kind,
                  const std::string& text, Shape shape = {}, const std::string& before = "") {
  const Emulated emulated(
      kernel_of("ld.global.u32 %r9, [%rd1];\nsetp.ne.u32 %p7, %r9, 0;\n"
                "@%p7 bra fine;\n" +
                    instructions + "\nfine: add.u32 %r0, %r0, 1;",
                before));
  expect(emulated.loaded().result == 0, kind + " is loaded: " + emulated.loaded().what);
  Words out(64);
  Outcome done = emulated.launch(out, shape);
  expect(done.result == result,
         kind + ": " + text + ": result " + std::to_string(done.result) + " " + done.what);
  expect(done.kind == kind, kind + " and not " + done.kind + ": " + done.what);
  expect(done.what.find(text) != std::string::npos, "'" + text + "' in: " + done.what);
  out.assign(64, 1);
  done = emulated.launch(out, shape);
  expect(done.result == 0 && done.kind.empty(), "the next launch after " + kind + ": " + done.what);
  expect(out[shape.block - 1] == 1, "and its result");
}

void of_memory() {
  const std::string out_of_bounds = "out of bounds";
  expect_fault("ld.global.u32 %r0, [%rd1+256];", illegal_address, out_of_bounds,
               "just past the end of out");
  expect_fault("st.global.u8 [%rd1+-1], 1;", illegal_address, out_of_bounds,
               "1 byte before the start of out");
  expect_fault("mov.u64 %rd3, 0; ld.u32 %r0, [%rd3+8];", illegal_address, out_of_bounds,
               "a null pointer");
  // Right below 2^64: the sum with the access's size is small again.
  expect_fault("ld.global.u32 %r0, [%rd2]; mov.u64 %rd3, -8; ld.global.u64 %rd4, [%rd3];",
               illegal_address, out_of_bounds, "in no array");
  expect_fault("ld.shared.u32 %r0, [words+16];", illegal_address, out_of_bounds, "shared memory",
               {}, ".shared .align 4 .b8 words[16];\n");
  expect_fault(".local .align 4 .b8 own[8];\nst.local.u32 [own+4096], 1;", illegal_address,
               out_of_bounds, "local memory");
  expect_fault("mov.u64 %rd3, 100000; alloca.u64 %rd4, %rd3;\nalloca.u64 %rd4, 500000;",
               illegal_address, out_of_bounds, "stack");
  expect_fault("ld.global.u32 %r0, [%rd1+2];", misaligned_address, "misaligned",
               "which is no multiple of 4");
  expect_fault("ld.shared.u32 %r0, [words];", illegal_address, "uninitialised read",
               "that no thread has written", {}, ".shared .align 4 .b8 words[16];\n");
  expect_fault(".local .align 4 .b8 own[8];\nld.local.u32 %r0, [own+4];", illegal_address,
               "uninitialised read", "that the thread has not written");
  expect_fault("st.const.u32 [word], 1;", launch_failed, "invalid operation", "read-only", {},
               ".const .u32 word = 4;\n");
}

void between_threads() {
  const std::string words = ".shared .align 4 .b8 words[16];\n";
  expect_fault(
      "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [words], 5;\n"
      "ld.shared.u32 %r0, [words];",
      launch_failed, "race", "with no barrier between the two", {1, 64}, words);
  expect_fault("setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 1;\n@!%p1 bar.sync 2;", launch_failed,
               "deadlock", "no thread of the block can go on", {1, 64});
  expect_fault("setp.lt.u32 %p1, %r1, 5;\n@%p1 bar.sync 0;", launch_failed, "barrier",
               "divergent code");
  expect_fault("mov.u32 %r2, 20;\nbar.sync %r2;", launch_failed, "barrier", "numbered 0 to 15");
  expect_fault("setp.lt.u32 %p1, %r1, 5;\n@%p1 shfl.sync.idx.b32 %r0, %r1, 0, 31, 0x10;",
               launch_failed, "invalid operation", "not in the mask");
}

void of_control() {
  CudademoEmulatorOptions options{};
  cudademoEmulatorGetOptions(&options);
  const CudademoEmulatorOptions before = options;
  options.budget = 100000;
  cudademoEmulatorConfigure(&options);
  expect_fault("forever: add.u32 %r2, %r2, 1;\nbra forever;", launch_timeout, "endless loop",
               "100000 instructions");
  expect_fault("forever: atom.global.add.u32 %r2, [%rd1], 0;\nbra forever;", launch_timeout,
               "endless loop", "100000 instructions");
  cudademoEmulatorConfigure(&before);
  expect_fault("trap;", launch_failed, "trap", "the kernel trapped");
  expect_fault("tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1}];", not_supported,
               "unsupported", "this instruction is not emulated");
  expect_fault("mov.u64 %rd3, 12345;\ntype: .callprototype _ ();\ncall %rd3, (), type;",
               launch_failed, "invalid operation", "a pointer that is no function's");
  expect_fault("call deeper, ();", launch_failed, "invalid operation", "4096 deep", {},
               ".func deeper() {\ncall deeper, ();\nret;\n}\n");
  expect_fault("mov.u32 %r2, 9;\nlist: .branchtargets one;\nbrx.idx %r2, list;\none:",
               launch_failed, "invalid operation", "past the end of its list");
  expect_fault(
      ".param .b64 c; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;\n"
      "mov.u64 %rd3, condition;\nst.param.b64 [c], %rd3;\nst.param.b64 [f], %rd3;\n"
      "st.param.b32 [l], 42;\nst.param.b64 [n], %rd3;\nst.param.b64 [s], 1;\n"
      "call __assertfail, (c, f, l, n, s);",
      assertion, "assertion", "assertion failed: x in x", {},
      ".extern .func __assertfail(.param .b64 c, .param .b64 f, .param .b32 l, "
      ".param .b64 n, .param .b64 s);\n.global .b8 condition[2] = {120, 0};\n");
}

void of_text() {
  const auto refused = [](const std::string& ptx, const std::string& text) {
    const Emulated emulated(ptx);
    expect(emulated.loaded().result == invalid_ptx, "refused: " + text);
    expect(emulated.loaded().what.find(text) != std::string::npos,
           "'" + text + "' in: " + emulated.loaded().what);
  };
  refused("nonsense", "line 1: expected a directive");
  refused(heading + ".visible .entry k() {\nbra somewhere\n}\n", "line 6: expected ';'");
  refused(heading + ".visible .entry k() {\n" + std::string(1000, '{'), "nested too deeply");
  refused(heading + ".shared .align 4 .b8 a[300000];\n.visible .entry k() { ret; }\n",
          "bytes of shared memory");
  refused(heading + ".visible .entry k() {\n.reg .b32 %r<99999999>;\nret;\n}\n",
          "too many variables");
}

}  // namespace

void faults() {
  of_memory();
  between_threads();
  of_control();
  of_text();
}

}  // namespace cudademo::emulator
