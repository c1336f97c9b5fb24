// What the emulator's library has beside the driver's own functions, as C.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// An array that a launch may touch. The label goes into reports.
struct CudademoEmulatorArray {
  const void* begin;
  const void* end;  // past its last byte
  const char* label;
  int writable;
  std::uint64_t owner = 0;  // of its memory; 0 where nobody tells of the owner's end
};

struct CudademoEmulatorOptions {
  int checks;  // races and uninitialised reads; bounds are always checked
  std::uint64_t seed;
  std::uint64_t budget;  // instructions of a block
  unsigned threads;      // of the host; 0 for as many as there are cores
  int capability_major;
  int capability_minor;
};

// Texts live until the next call by the same thread.
struct CudademoEmulatorReport {
  const char* kind;
  const char* what;
  const char* kernel;
  const char* array;
  const char* file;
  int line;
  int has_thread;
  std::uint32_t block[3];
  std::uint32_t thread[3];
  std::uint64_t address;
  std::uint64_t bytes;
};

// The arrays of this thread's next launch, and what reports call its kernel.
void cudademoEmulatorSetArrays(const char* kernel, const CudademoEmulatorArray* arrays,
                               std::size_t count);
// The memory of an owner has been given back. A number is of one owner for good.
void cudademoEmulatorEndOwner(std::uint64_t owner);
void cudademoEmulatorConfigure(const CudademoEmulatorOptions* options);
void cudademoEmulatorGetOptions(CudademoEmulatorOptions* options);
// The report of this thread's latest failure, once; 0 where there is none.
int cudademoEmulatorTakeReport(CudademoEmulatorReport* report);
// Instructions of the PTX, each once for every thread that executed it, in the process so far.
std::uint64_t cudademoEmulatorExecuted();
}
