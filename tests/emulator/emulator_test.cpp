// What kernels compute: PTX written here, right values by hand.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "emulated.hpp"

namespace cudademo::emulator {

namespace {

using Words = std::vector<std::uint32_t>;

// One word a thread of a warp, from its index.
Words each(const std::function<std::uint32_t(std::uint32_t)>& word, std::uint32_t count = 32) {
  Words words;
  for (std::uint32_t i = 0; i < count; ++i) words.push_back(word(i));
  return words;
}

void arithmetic() {
  expect_equal(answers(kernel_of("mad.lo.s32 %r0, %r1, -3, 100;")),
               each([](std::uint32_t i) { return 100 - 3 * i; }), "a product and a sum");
  expect_equal(answers(kernel_of("sub.s32 %r2, 7, %r1; div.s32 %r0, %r2, 2;"), {1, 12}),
               {3, 3, 2, 2, 1, 1, 0, 0, 0, 0xffffffff, 0xffffffff, 0xfffffffe},
               "a quotient is cut towards zero");
  expect_equal(answers(kernel_of("cvt.rn.f32.u32 %f1, %r1; fma.rn.f32 %f1, %f1, 0f40000000, "
                                 "0f3F000000; cvt.rni.u32.f32 %r0, %f1;"),
                       {1, 4}),
               {0, 2, 4, 6}, "2 i + 1/2, to the nearest even");
  expect_equal(answers(kernel_of("mul.wide.u32 %rd3, %r1, 0x80000000; shr.u64 %rd3, %rd3, 31; "
                                 "cvt.u32.u64 %r0, %rd3;"),
                       {1, 4}),
               {0, 1, 2, 3}, "64 bits of a product");
  expect_equal(
      answers(kernel_of("cvt.u16.u32 %h1, %r1; neg.s16 %h1, %h1; cvt.s32.s16 %r0, %h1;"), {1, 3}),
      {0, 0xffffffff, 0xfffffffe}, "16 bits and their sign");
  expect_equal(answers(kernel_of("add.cc.u32 %r2, %r1, 0xfffffffe; addc.u32 %r0, 5, 0;"), {1, 4}),
               {5, 5, 6, 6}, "a carry");
  expect_equal(answers(kernel_of("prmt.b32 %r0, 0x33221100, %r1, 0x4321;"), {1, 3}),
               {0x00332211, 0x01332211, 0x02332211}, "bytes chosen");
}

void divergence() {
  expect_equal(answers(kernel_of("and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;\n"
                                 "@%p1 bra even;\nadd.u32 %r0, %r1, 100;\nbra done;\n"
                                 "even: mul.lo.u32 %r0, %r1, 2;\n"
                                 "done: add.u32 %r0, %r0, 1;")),
               each([](std::uint32_t i) { return i % 2 == 0 ? 2 * i + 1 : i + 101; }),
               "two ways that meet");
  // The sum of 1 to i, by a loop of i turns.
  expect_equal(
      answers(kernel_of("mov.u32 %r2, %r1;\n"
                        "again: setp.eq.u32 %p1, %r2, 0;\n@%p1 bra done;\n"
                        "add.u32 %r0, %r0, %r2;\nsub.u32 %r2, %r2, 1;\nbra again;\ndone:")),
      each([](std::uint32_t i) { return i * (i + 1) / 2; }), "a loop of i turns");
  expect_equal(
      answers(kernel_of("setp.gt.u32 %p1, %r1, 3;\n@%p1 exit;\nadd.u32 %r0, %r1, 9;"), {1, 6}),
      {9, 10, 11, 12, 0, 0}, "some return early");
  expect_equal(answers(kernel_of("and.b32 %r2, %r1, 3;\nlist: .branchtargets zero, one, two, two;\n"
                                 "brx.idx %r2, list;\nzero: mov.u32 %r0, 7;\nbra done;\n"
                                 "one: mov.u32 %r0, 8;\nbra done;\ntwo: mov.u32 %r0, 9;\ndone:"),
                       {1, 5}),
               {7, 8, 9, 9, 7}, "a branch of many ways");
}

const std::string functions =
    ".func (.param .u32 r) factorial(.param .u32 n) {\n"
    ".reg .pred %p<2>; .reg .b32 %r<4>;\n.param .u32 of;\n.param .u32 made;\n"
    "ld.param.u32 %r1, [n];\nmov.u32 %r2, 1;\nsetp.le.u32 %p1, %r1, 1;\n@%p1 bra done;\n"
    "sub.u32 %r3, %r1, 1;\nst.param.u32 [of], %r3;\ncall (made), factorial, (of);\n"
    "ld.param.u32 %r2, [made];\nmul.lo.u32 %r2, %r2, %r1;\ndone:\nst.param.u32 [r], %r2;\nret;\n}\n"
    ".func (.param .u32 r) twice(.param .u32 n) {\n.reg .b32 %r<2>;\n"
    "ld.param.u32 %r1, [n];\nadd.u32 %r1, %r1, %r1;\nst.param.u32 [r], %r1;\nret;\n}\n";

void calls() {
  const std::string call =
      ".param .u32 n;\n.param .u32 made;\nand.b32 %r2, %r1, 7;\nst.param.u32 [n], %r2;\n";
  expect_equal(answers(kernel_of(call + "call (made), factorial, (n);\nld.param.u32 %r0, [made];",
                                 functions),
                       {1, 9}),
               {1, 1, 2, 6, 24, 120, 720, 5040, 1}, "a function that calls itself");
  expect_equal(
      answers(kernel_of(call + "mov.u64 %rd3, factorial;\nmov.u64 %rd4, twice;\n"
                               "setp.gt.u32 %p1, %r1, 3;\nselp.b64 %rd3, %rd4, %rd3, %p1;\n"
                               "type: .callprototype (.param .u32 _) _ (.param .u32 _);\n"
                               "call (made), %rd3, (n), type;\nld.param.u32 %r0, [made];",
                        functions),
              {1, 7}),
      {1, 1, 2, 6, 8, 10, 12}, "two functions through one pointer");
}

void memory() {
  // Each thread's word, turned round by way of shared memory: three warps and a part of one.
  const std::string turned =
      "mov.u64 %rd3, words;\nmul.wide.u32 %rd4, %r1, 4;\nadd.u64 %rd4, %rd3, %rd4;\n"
      "st.shared.u32 [%rd4], %r1;\nbar.sync 0;\nsub.u32 %r2, 99, %r1;\n"
      "mul.wide.u32 %rd4, %r2, 4;\nadd.u64 %rd4, %rd3, %rd4;\nld.shared.u32 %r0, [%rd4];";
  expect_equal(answers(kernel_of(turned, ".shared .align 4 .b8 words[400];\n"), {1, 100}),
               each([](std::uint32_t i) { return 99 - i; }, 100), "shared memory and a barrier");
  expect_equal(answers(kernel_of(turned, ".extern .shared .align 4 .b8 words[];\n"), {1, 100, 400}),
               each([](std::uint32_t i) { return 99 - i; }, 100), "dynamic shared memory");
  expect_equal(answers(kernel_of(".local .align 4 .b8 own[32];\nmov.u64 %rd3, own;\n"
                                 "st.local.v2.u32 [%rd3+8], {%r1, 5};\ncvta.local.u64 %rd4, %rd3;\n"
                                 "ld.u32 %r2, [%rd4+8];\nld.local.u32 %r3, [own+12];\n"
                                 "add.u32 %r0, %r2, %r3;")),
               each([](std::uint32_t i) { return i + 5; }),
               "a local array, by two kinds of address");
  Words four(4 * 8);
  for (std::uint32_t i = 0; i < four.size(); ++i) four[i] = i * i;
  Words right = four;
  for (std::uint32_t i = 0; i < 8; ++i) {
    right[4 * i] = four[4 * i + 3];
    right[4 * i + 3] = four[4 * i];
  }
  expect_equal(answers(heading + ".visible .entry k(.param .u64 out) {\n.reg .b32 %r<8>; .reg .b64 "
                                 "%rd<4>;\nld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\n"
                                 "mad.wide.u32 %rd1, %r1, 16, %rd1;\n"
                                 "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1];\n"
                                 "st.global.v4.u32 [%rd1], {%r5, %r3, %r4, %r2};\nret;\n}\n",
                       {1, 8}, four),
               right, "vectors of four words");
  expect_equal(answers(kernel_of("ld.global.u32 %r0, [table+8];\nld.const.u8 %r2, [bytes+1];\n"
                                 "add.u32 %r0, %r0, %r2;",
                                 ".global .u32 table[4] = {1, 10, 100};\n"
                                 ".const .align 1 .b8 bytes[2] = {3, 250};\n"),
                       {1, 1}),
               {350}, "variables of the module");
}

void atomics() {
  // 3 blocks of 50 threads each add 1 to 50 to the first word; the others stay.
  Words totals = answers(heading +
                             ".visible .entry k(.param .u64 out) {\n.reg .b32 %r<4>; .reg .b64 "
                             "%rd<4>;\nld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\n"
                             "add.u32 %r1, %r1, 1;\nred.global.add.u32 [%rd1], %r1;\n"
                             "atom.global.max.u32 %r2, [%rd1+4], %r1;\n"
                             "atom.global.cas.b32 %r2, [%rd1+8], 7, 8;\nret;\n}\n",
                         {3, 50}, {0, 0, 7, 1});
  expect_equal(totals, {3 * 50 * 51 / 2, 50, 8, 1}, "a sum, a maximum and a swap");
  totals = answers(kernel_of("setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [all], 0;\n"
                             "bar.sync 0;\natom.shared.add.u32 %r2, [all], 2;\nbar.sync 0;\n"
                             "ld.shared.u32 %r0, [all];",
                             ".shared .u32 all;\n"),
                   {1, 64});
  expect_equal(totals, Words(64, 128), "an atomic in shared memory");
}

void warps() {
  expect_equal(answers(kernel_of("shfl.sync.bfly.b32 %r0, %r1, 5, 31, -1;")),
               each([](std::uint32_t i) { return i ^ 5; }), "a shuffle");
  expect_equal(answers(kernel_of("shfl.sync.up.b32 %r0|%p1, %r1, 2, 0, -1;\n"
                                 "@!%p1 mov.u32 %r0, 99;"),
                       {1, 5}),
               {99, 99, 0, 1, 2}, "a shuffle from outside says so");
  expect_equal(
      answers(kernel_of("setp.lt.u32 %p1, %r1, 3;\nvote.sync.ballot.b32 %r0, %p1, -1;"), {1, 4}),
      {7, 7, 7, 7}, "a ballot");
  expect_equal(answers(kernel_of("setp.ge.u32 %p1, %r1, 16;\n@%p1 bra upper;\n"
                                 "redux.sync.add.u32 %r0, %r1, 0xffff;\nbra done;\n"
                                 "upper: redux.sync.add.u32 %r0, %r1, 0xffff0000;\ndone:")),
               each([](std::uint32_t i) { return i < 16 ? 120U : 376U; }), "sums of half warps");
}

// What a kernel prints goes to the process's own output.
void printing() {
  std::fflush(stdout);
  std::FILE* file = std::tmpfile();
  const int before = dup(1);
  dup2(fileno(file), 1);
  const std::string call =
      ".param .b64 f; .param .b64 v; .param .b32 n;\n.local .align 8 .b8 values[24];\n"
      "setp.gt.u32 %p1, %r1, 1;\n@%p1 exit;\nst.local.u32 [values], %r1;\n"
      "st.local.f64 [values+8], 0d4004000000000000;\nmov.u64 %rd5, word;\n"
      "cvta.global.u64 %rd5, %rd5;\nst.local.u64 [values+16], %rd5;\nmov.u64 %rd3, format;\n"
      "cvta.global.u64 %rd3, %rd3;\nst.param.b64 [f], %rd3;\nmov.u64 %rd4, values;\n"
      "cvta.local.u64 %rd4, %rd4;\nst.param.b64 [v], %rd4;\ncall (n), vprintf, (f, v);\n"
      "ld.param.b32 %r0, [n];";
  std::string declared = ".extern .func (.param .b32 n) vprintf(.param .b64 f, .param .b64 v);\n";
  const auto text = [&declared](const std::string& name, const std::string& characters) {
    declared += ".global .b8 " + name + "[" + std::to_string(characters.size() + 1) + "] = {";
    for (const char c : characters) declared += std::to_string(static_cast<int>(c)) + ", ";
    declared += "0};\n";
  };
  text("format", "%u %.2f %s%%\n");
  text("word", std::string(600, 'x'));
  const Words counts = answers(kernel_of(call, declared), {1, 2});
  dup2(before, 1);
  close(before);
  std::rewind(file);
  std::string printed;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) printed += static_cast<char>(c);
  std::fclose(file);
  const std::string rest = " 2.50 " + std::string(600, 'x') + "%\n";
  expect(printed == "0" + rest + "1" + rest, "what was printed: " + printed);
  expect_equal(counts, {609, 609}, "how much was printed");
}

}  // namespace

}  // namespace cudademo::emulator

int main() {
  using namespace cudademo::emulator;
  arithmetic();
  divergence();
  calls();
  memory();
  atomics();
  warps();
  printing();
  faults();
  launches();
  return failures == 0 ? 0 : 1;
}
