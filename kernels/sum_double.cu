// The element-wise sum of two arrays.
#include "layout.cuh"
#include "pack.cuh"

template <typename A, typename B>
constexpr bool is_same = false;
template <typename A>
constexpr bool is_same<A, A> = true;

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

// An operand as it enters the addition that gives a C: rounded to C first, as torch does. For the 16-bit types the
// addition itself is in float; a float operand is a number from the CPU there, which torch does not round either.
template <typename C, typename Operand>
__device__ auto enter(Operand value) {
  if constexpr (!is_half<C>) {
    return static_cast<C>(value);
  } else if constexpr (is_same<Operand, float>) {
    return value;
  } else {
    return static_cast<float>(static_cast<C>(static_cast<float>(value)));
  }
}

// c = a + b over `n` dense elements; a thread adds one pack of 16 bytes, or one element where the addresses are not
// aligned to that. Launched with at least n threads over the elements of a pack.
template <typename T, bool Aligned>
__global__ void sum_double(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c,
                           long long n) {
  constexpr int per_thread = Aligned ? Pack<T>::size : 1;
  const long long first = (blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x) * per_thread;
  if (Aligned && first + per_thread <= n) {
    const Pack<T> left = load_pack(reinterpret_cast<const Pack<T>*>(a + first));
    const Pack<T> right = load_pack(reinterpret_cast<const Pack<T>*>(b + first));
    Pack<T> sum;
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      sum.items[i] = static_cast<T>(left.items[i] + right.items[i]);
    }
    store_pack(reinterpret_cast<Pack<T>*>(c + first), sum);
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
  c[offset[0]] = static_cast<C>(enter<C>(a[offset[1]]) + enter<C>(b[offset[2]]));
}
