// Allocations and copies. A device's address is the host's.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "driver_state.hpp"

using namespace cudademo::emulator;

Range cudademo::emulator::range_of(const Allocations::value_type& allocation) {
  const auto& [begin, rest] = allocation;
  return {begin, begin + rest.first, std::to_string(rest.first) + " bytes of cuMemAlloc"};
}

EXPORTED Result cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  if (address == nullptr) return invalid_value;
  if (bytes == 0) return invalid_value;
  constexpr std::size_t alignment = 256;
  if (bytes > (std::size_t{1} << 46)) return out_of_memory;
  std::unique_ptr<std::byte[]> storage(new (std::nothrow) std::byte[bytes + alignment]());
  if (!storage) return out_of_memory;
  const auto raw = reinterpret_cast<std::uint64_t>(storage.get());
  *address = (raw + alignment - 1) / alignment * alignment;
  const std::lock_guard lock(state().guard);
  state().allocations[*address] = {bytes, std::move(storage)};
  return success;
}

EXPORTED Result cuMemFree_v2(std::uint64_t address) {
  const std::lock_guard lock(state().guard);
  const auto found = state().allocations.find(address);
  if (found == state().allocations.end()) return invalid_value;
  state().history.remember_freed(range_of(*found));
  state().allocations.erase(found);
  return success;
}

EXPORTED Result cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
  if (to == 0 || from == nullptr) return invalid_value;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return success;
}

EXPORTED Result cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  if (to == nullptr || from == 0) return invalid_value;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return success;
}

EXPORTED Result cuMemcpyDtoD_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  if (to == 0 || from == 0) return invalid_value;
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return success;
}

EXPORTED Result cuMemsetD8_v2(std::uint64_t address, unsigned char value, std::size_t bytes) {
  if (address == 0) return invalid_value;
  std::memset(reinterpret_cast<void*>(address), value, bytes);
  return success;
}
