// The sum of an array, in one pass: each block reduces its share, and the block that finishes last adds up theirs. The
// order of additions depends on the launch alone, so that the same input gives the same bits.
#include "layout.cuh"
#include "pack.cuh"

template <typename Sum>
__device__ Sum warp_total(Sum value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_down_sync(~0u, value, lanes);
  return value;
}

// The block's total of each component, in its thread 0.
template <int Block, int Components, typename Sum>
__device__ void block_total(Sum (&value)[Components]) {
  constexpr int warps = Block / 32;
  __shared__ Sum of_warp[Components][warps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __syncthreads();  // the former use of the array is over
#pragma unroll
  for (int c = 0; c < Components; ++c) {
    value[c] = warp_total(value[c]);
    if (lane == 0) of_warp[c][warp] = value[c];
  }
  __syncthreads();
  if (warp != 0) return;
#pragma unroll
  for (int c = 0; c < Components; ++c) {
    value[c] = warp_total(lane < warps ? of_warp[c][lane] : Sum(0));
  }
}

// Adds up the blocks' shares. The workspace holds a ticket, then from byte 16 on the shares; the ticket is 0 before the
// first launch, and again after each.
template <int Block, int Components, typename Sum, typename Out>
__device__ void finish(Sum (&share)[Components], Out* result, void* workspace) {
  auto* ticket = static_cast<unsigned*>(workspace);
  auto* shares = reinterpret_cast<Sum*>(static_cast<char*>(workspace) + 16);
  block_total<Block>(share);
  if (gridDim.x == 1) {
    if (threadIdx.x == 0) {
      for (int c = 0; c < Components; ++c) result[c] = static_cast<Out>(share[c]);
    }
    return;
  }
  __shared__ bool last;
  if (threadIdx.x == 0) {
    for (int c = 0; c < Components; ++c) {
      __stcg(shares + blockIdx.x * Components + c, share[c]);
    }
    __threadfence();
    last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;  // wraps to 0 by itself
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  Sum total[Components] = {};
  for (unsigned block = threadIdx.x; block < gridDim.x; block += Block) {
    for (int c = 0; c < Components; ++c) total[c] += __ldcg(shares + block * Components + c);
  }
  block_total<Block>(total);
  if (threadIdx.x != 0) return;
  for (int c = 0; c < Components; ++c) result[c] = static_cast<Out>(total[c]);
}

// result[c] = the sum of x[i] with i % Components == c, over `n` dense elements. A complex array is one of two
// components. `x` is aligned to its element and its components.
template <typename T, typename Sum, typename Out, int Components, int Block, bool Streaming>
__global__ void __launch_bounds__(Block)
    sum_single(const T* x, long long n, Out* result, void* workspace) {
  const unsigned misaligned = static_cast<unsigned>(reinterpret_cast<unsigned long long>(x) % 16);
  const long long to_pack = misaligned ? (16 - misaligned) / sizeof(T) : 0;
  const long long head = to_pack < n ? to_pack : n;
  const long long packs = (n - head) / Pack<T>::size;
  const long long tail = head + packs * Pack<T>::size;
  const auto* packed = reinterpret_cast<const Pack<T>*>(x + head);
  const long long thread = blockIdx.x * static_cast<long long>(Block) + threadIdx.x;
  const long long step = gridDim.x * static_cast<long long>(Block);

  Sum sum[Components] = {};
  const auto add = [&sum](const Pack<T>& pack) {
#pragma unroll
    for (int i = 0; i < Pack<T>::size; ++i) sum[i % Components] += static_cast<Sum>(pack.items[i]);
  };
  constexpr int in_flight = 4;  // loads of a thread at once
  long long i = thread;
  for (; i + (in_flight - 1) * step < packs; i += in_flight * step) {
    Pack<T> loaded[in_flight];
#pragma unroll
    for (int k = 0; k < in_flight; ++k) loaded[k] = load_pack<Streaming>(packed + i + k * step);
#pragma unroll
    for (int k = 0; k < in_flight; ++k) add(loaded[k]);
  }
  for (; i < packs; i += step) add(load_pack<Streaming>(packed + i));
  // At most a pack's worth at either end. Both start at a whole element, so at component 0.
  if (thread == 0) {
    for (long long j = 0; j < head; ++j) sum[j % Components] += static_cast<Sum>(x[j]);
    for (long long j = tail; j < n; ++j) sum[j % Components] += static_cast<Sum>(x[j]);
  }
  finish<Block>(sum, result, workspace);
}

// The same over any strides: `n` elements of `Components` adjoining values each; strides in elements.
template <typename T, typename Sum, typename Out, int Components, int Block, typename Index, int Dims>
__global__ void __launch_bounds__(Block)
    sum_single_strided(const T* x, Layout<Dims, 1> layout, Index n, Out* result, void* workspace) {
  Sum sum[Components] = {};
  const Index step = gridDim.x * static_cast<Index>(Block);
  for (Index i = blockIdx.x * static_cast<Index>(Block) + threadIdx.x; i < n; i += step) {
    long long offset[1];
    locate(layout, i, offset);
#pragma unroll
    for (int c = 0; c < Components; ++c) {
      sum[c] += static_cast<Sum>(x[offset[0] * Components + c]);
    }
    if (n - i <= step) break;  // the next one would wrap a 32-bit index
  }
  finish<Block>(sum, result, workspace);
}
