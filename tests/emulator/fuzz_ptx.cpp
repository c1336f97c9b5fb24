// Reads, decodes and runs whatever it is given as PTX. A ParseError or a Fault is an answer; a
// crash, a hang or what a sanitizer reports is a finding.
//
// With Clang's -fsanitize=fuzzer it is a libFuzzer target. With FUZZ_ALONE it has a main that
// replays folders, then changed copies of the first one's files, the same ones each time:
//     fuzz_ptx ROUNDS FOLDER...
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "block.hpp"
#include "fault.hpp"
#include "heap.hpp"
#include "memory.hpp"
#include "mutator.hpp"
#include "program.hpp"
#include "ptx.hpp"

namespace {

using namespace cudademo::emulator;

constexpr std::size_t array_bytes = 4096;
constexpr std::uint64_t budget = 1024;  // instructions
constexpr std::uint32_t most_shared_bytes = 1 << 16;

// What a kernel's pointers point to: one after another, so that a wrong index meets a sanitizer.
struct Arrays {
  std::array<std::unique_ptr<std::byte[]>, 3> storage;
  Memory memory;

  explicit Arrays(const Program& program) {
    for (std::size_t i = 0; i < storage.size(); ++i) {
      storage[i] = std::make_unique<std::byte[]>(array_bytes);
      for (std::size_t k = 0; k < array_bytes; k += 4) storage[i][k] = std::byte(k / 4 + i);
      const auto begin = reinterpret_cast<std::uint64_t>(storage[i].get());
      memory.add({begin, begin + array_bytes, "array " + std::to_string(i), i != 0, false});
    }
    for (const StaticMemory& item : program.statics) {
      const auto begin = reinterpret_cast<std::uint64_t>(item.data);
      memory.add({begin, begin + item.bytes, item.name, !item.is_constant, item.is_constant});
    }
    memory.finish();
  }

  // Eight bytes are a pointer to an array, all else a small number.
  std::vector<std::byte> parameters(const Function& entry) const {
    std::vector<std::byte> bytes(entry.parameter_bytes);
    std::size_t next = storage.size();
    for (const Slot& slot : entry.parameters) {
      const std::byte* array = storage[--next % storage.size()].get();
      const auto pointer = reinterpret_cast<std::uint64_t>(array);
      const std::uint64_t value = slot.bytes == 8 ? pointer : 20 + next;
      std::memcpy(bytes.data() + slot.offset, &value, std::min<std::size_t>(slot.bytes, 8));
      if (next == 0) next = storage.size();
    }
    return bytes;
  }
};

void run_entry(const Program& program, const Function& entry, bool checks) {
  if (entry.static_shared_bytes > most_shared_bytes) return;
  const Arrays arrays(program);
  Heap heap;
  Launch launch;
  launch.program = &program;
  launch.entry = &entry;
  launch.block = {32, 1, 1};
  launch.dynamic_shared_bytes = 256;
  launch.parameters = arrays.parameters(entry);
  launch.memory = &arrays.memory;
  launch.heap = &heap;
  launch.options.budget = budget;
  launch.options.threads = 1;
  launch.options.checks = checks;
  try {
    run(launch);
  } catch (const Fault&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // What kernels print.
  if (std::freopen("/dev/null", "w", stdout) == nullptr) return 1;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::unique_ptr<Program> program =
        decode(std::string(reinterpret_cast<const char*>(data), size));
    for (const auto& function : program->functions) {
      if (!function->is_entry) continue;
      run_entry(*program, *function, true);
      run_entry(*program, *function, false);
    }
  } catch (const ptx::ParseError&) {
  } catch (const std::bad_alloc&) {
  }
  return 0;
}

#ifndef FUZZ_ALONE

// libFuzzer's own changes, byte by byte, now and then.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static Mutator mutator(PTX_DICTIONARY, 0);
  static std::string donor;
  if (seed % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  mutator.seed(seed);
  std::string text(reinterpret_cast<const char*>(data), size);
  if (donor.empty() || mutator.below(16) == 0) donor = text;
  mutator.change(text, donor);
  const std::size_t kept = std::min(most, text.size());
  std::memcpy(data, text.data(), kept);
  return kept;
}

#else

namespace {

std::vector<std::string> texts_in(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator all(folder);
  std::vector<std::filesystem::path> paths(begin(all), end(all));
  std::sort(paths.begin(), paths.end());  // the order is the file system's
  std::vector<std::string> texts;
  for (const std::filesystem::path& found : paths) {
    if (!std::filesystem::is_regular_file(found)) continue;
    std::ifstream file(found, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

// What is being run, for the one who finds it dead.
void try_text(const std::string& text, const char* keep) {
  if (keep != nullptr) std::ofstream(keep, std::ios::binary) << text;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  const auto rounds = std::strtoul(arguments[1], nullptr, 10);
  const char* keep = std::getenv("FUZZ_KEEP");  // a file for each text, before it runs
  LLVMFuzzerInitialize(nullptr, nullptr);
  const std::vector<std::string> texts = texts_in(arguments[2]);
  if (texts.empty()) return 2;
  for (int i = 2; i < count; ++i) {
    for (const std::string& text : texts_in(arguments[i])) try_text(text, keep);
  }
  Mutator mutator(PTX_DICTIONARY, 20240607);
  for (unsigned long round = 0; round < rounds; ++round) {
    std::string text = texts[mutator.below(texts.size())];
    mutator.change(text, texts[mutator.below(texts.size())]);
    try_text(text, keep);
  }
  std::fprintf(stderr, "%zu texts and %lu changed ones\n", texts.size(), rounds);
  return 0;
}

#endif
