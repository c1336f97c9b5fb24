// The element-wise sum of two arrays.
#include "layout.cuh"
#include "pack.cuh"

// True for the 16-bit floating-point types, whose headers come only where a type needs them.
template <typename T>
constexpr bool is_half = false;
#ifdef __CUDA_FP16_TYPES_EXIST__
template <>
constexpr bool is_half<__half> = true;
#endif
#ifdef __CUDA_BF16_TYPES_EXIST__
template <>
constexpr bool is_half<__nv_bfloat16> = true;
#endif

// One element in another type; to 16 bits by way of float, as torch converts.
template <typename To, typename From>
__device__ To convert(From value) {
  if constexpr (is_half<To>) {
    return static_cast<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

// c = a + b over `n` dense elements; a thread adds one pack of 16 bytes, or one element where the addresses are not
// aligned to that. Launched with at least n threads over the elements of a pack.
template <typename T, bool Aligned, bool Streaming>
__global__ void sum_double(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c,
                           long long n) {
  constexpr int per_thread = Aligned ? Pack<T>::size : 1;
  const long long first = (blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x) * per_thread;
  if (Aligned && first + per_thread <= n) {
    const Pack<T> left = load_pack<Streaming>(reinterpret_cast<const Pack<T>*>(a + first));
    const Pack<T> right = load_pack<Streaming>(reinterpret_cast<const Pack<T>*>(b + first));
    Pack<T> sum;
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      sum.items[i] = static_cast<T>(left.items[i] + right.items[i]);
    }
    store_pack<Streaming>(reinterpret_cast<Pack<T>*>(c + first), sum);
    return;
  }
  const long long end = first + per_thread < n ? first + per_thread : n;
  for (long long i = first; i < end; ++i) c[i] = static_cast<T>(a[i] + b[i]);
}

// The same over any strides, broadcasts and types, one element a thread: layout of c, a, b.
template <typename C, typename A, typename B, typename Index, int Dims>
__global__ void sum_double_strided(const A* a, const B* b, C* c, Layout<Dims, 3> layout, Index n) {
  const Index number = blockIdx.x * static_cast<Index>(blockDim.x) + threadIdx.x;
  if (number >= n) return;
  long long offset[3];
  locate(layout, number, offset);
  c[offset[0]] = static_cast<C>(convert<C>(a[offset[1]]) + convert<C>(b[offset[2]]));
}
