// Sixteen bytes of elements, read and written in one access.
#pragma once

template <typename T>
struct alignas(16) Pack {
  static constexpr int size = 16 / sizeof(T);
  T items[size];
};

// `Streaming` marks data that is used once and larger than the L2 cache: it leaves the cache first.
template <bool Streaming = false, typename T>
__device__ Pack<T> load_pack(const Pack<T>* address) {
  const auto* bits = reinterpret_cast<const uint4*>(address);
  const uint4 raw = Streaming ? __ldcs(bits) : *bits;
  return *reinterpret_cast<const Pack<T>*>(&raw);
}

template <typename T>
__device__ void store_pack(Pack<T>* address, const Pack<T>& pack) {
  *reinterpret_cast<uint4*>(address) = *reinterpret_cast<const uint4*>(&pack);
}
