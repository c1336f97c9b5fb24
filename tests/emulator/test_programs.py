"""Whole programs on the emulator, against torch: CUDA's own headers, calls, atomics, order."""

from __future__ import annotations

import re

import pytest

import cudademo

torch = pytest.importorskip("torch")


def random_ints(count: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    bits = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(count)
    return torch.randint(bits.min, bits.max, (count,), dtype=dtype, generator=generator)


CUB = r"""
#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

template <class T, int Block, int Items>
__global__ void sort(const T* in, T* out) {
  using Sort = cub::BlockRadixSort<T, Block, Items>;
  using Load = cub::BlockLoad<T, Block, Items, cub::BLOCK_LOAD_TRANSPOSE>;
  using Store = cub::BlockStore<T, Block, Items, cub::BLOCK_STORE_TRANSPOSE>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename Load::TempStorage load;
    typename Store::TempStorage store;
  } shared;
  const int offset = blockIdx.x * Block * Items;
  T items[Items];
  Load(shared.load).Load(in + offset, items);
  __syncthreads();
  Sort(shared.sort).Sort(items);
  __syncthreads();
  Store(shared.store).Store(out + offset, items);
}

template <class T, int Block, int Items, cub::BlockScanAlgorithm Algorithm>
__global__ void scan(const T* in, T* out) {
  using Scan = cub::BlockScan<T, Block, Algorithm>;
  __shared__ typename Scan::TempStorage shared;
  T items[Items];
  for (int i = 0; i < Items; ++i) items[i] = in[threadIdx.x * Items + i];
  Scan(shared).InclusiveSum(items, items);
  for (int i = 0; i < Items; ++i) out[threadIdx.x * Items + i] = items[i];
}

template <class T, int Block, cub::BlockReduceAlgorithm Algorithm>
__global__ void reduce(const T* in, T* out, int n) {
  using Reduce = cub::BlockReduce<T, Block, Algorithm>;
  __shared__ typename Reduce::TempStorage shared;
  const T total = Reduce(shared).Sum(in[threadIdx.x], n);
  if (threadIdx.x == 0) *out = total;
}

template <int Block, int Items>
__global__ void exchange(const int* in, int* out) {
  using Exchange = cub::BlockExchange<int, Block, Items>;
  __shared__ typename Exchange::TempStorage shared;
  int items[Items];
  for (int i = 0; i < Items; ++i) items[i] = in[threadIdx.x * Items + i];
  Exchange(shared).BlockedToStriped(items, items);
  for (int i = 0; i < Items; ++i) out[threadIdx.x * Items + i] = items[i];
}

template <int Block, int Items, cub::BlockHistogramAlgorithm Algorithm>
__global__ void histogram(const unsigned char* in, unsigned* out) {
  using Histogram = cub::BlockHistogram<unsigned char, Block, Items, 256, Algorithm>;
  __shared__ typename Histogram::TempStorage shared;
  __shared__ unsigned counts[256];
  unsigned char items[Items];
  for (int i = 0; i < Items; ++i) items[i] = in[threadIdx.x * Items + i];
  Histogram(shared).Histogram(items, counts);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += Block) out[i] = counts[i];
}

template <class T, int Width>
__global__ void warp_sums(const T* in, T* total, T* prefix) {
  using Reduce = cub::WarpReduce<T, Width>;
  using Scan = cub::WarpScan<T, Width>;
  __shared__ typename Reduce::TempStorage a[32];
  __shared__ typename Scan::TempStorage b[32];
  const int group = threadIdx.x / Width;
  T scanned;
  Scan(b[group]).InclusiveSum(in[threadIdx.x], scanned);
  prefix[threadIdx.x] = scanned;
  const T sum = Reduce(a[group]).Sum(in[threadIdx.x]);
  if (threadIdx.x % Width == 0) total[group] = sum;
}
"""


@pytest.mark.parametrize(("block", "items"), [(32, 1), (64, 4), (128, 3), (256, 4)])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.float32])
def test_cub_sorts_blocks(dtype, block, items):
    blocks = 3
    x = random_ints(blocks * block * items, torch.uint8 if dtype is torch.uint8 else torch.int32)
    x = x.to(dtype)
    out = torch.empty_like(x)
    kernel = cudademo.kernel(CUB, "sort<T, B, I>", T=cudademo.dtype_of(0), B=block, I=items)
    kernel[blocks, block](x, out)
    assert torch.equal(out, x.view(blocks, -1).sort(1).values.flatten())


@pytest.mark.parametrize("algorithm", ["RAKING", "RAKING_MEMOIZE", "WARP_SCANS"])
@pytest.mark.parametrize(("block", "items"), [(32, 2), (96, 5), (256, 1)])
def test_cub_scans_a_block(block, items, algorithm):
    x = random_ints(block * items)
    out = torch.empty_like(x)
    name = f"scan<int, {block}, {items}, cub::BLOCK_SCAN_{algorithm}>"
    cudademo.kernel(CUB, name)[1, block](x, out)
    assert torch.equal(out, x.cumsum(0, dtype=torch.int32))


@pytest.mark.parametrize("algorithm", ["RAKING", "RAKING_COMMUTATIVE_ONLY", "WARP_REDUCTIONS"])
@pytest.mark.parametrize(("block", "count"), [(32, 32), (128, 100), (224, 224)])
def test_cub_reduces_a_block(block, count, algorithm):
    x = torch.randn(block, dtype=torch.float64)
    out = torch.zeros(1, dtype=torch.float64)
    name = f"reduce<double, {block}, cub::BLOCK_REDUCE_{algorithm}>"
    cudademo.kernel(CUB, name)[1, block](x, out, count)
    torch.testing.assert_close(out[0], x[:count].sum())


def test_cub_exchanges_items():
    x = torch.arange(64 * 4, dtype=torch.int32)
    out = torch.empty_like(x)
    cudademo.kernel(CUB, "exchange<64, 4>")[1, 64](x, out)
    assert torch.equal(out.view(64, 4), x.view(4, 64).T)


@pytest.mark.parametrize("algorithm", ["SORT", "ATOMIC"])
def test_cub_counts_bytes(algorithm):
    x = random_ints(128 * 6, torch.uint8)
    out = torch.empty(256, dtype=torch.int32).view(torch.uint32)
    name = f"histogram<128, 6, cub::BLOCK_HISTO_{algorithm}>"
    cudademo.kernel(CUB, name)[1, 128](x, out)
    assert torch.equal(out.view(torch.int32).long(), torch.bincount(x.long(), minlength=256))


@pytest.mark.parametrize("width", [32, 16, 8])
def test_cub_adds_within_warps(width):
    x = random_ints(128) // 256
    total, prefix = torch.zeros(128 // width, dtype=torch.int32), torch.zeros_like(x)
    cudademo.kernel(CUB, f"warp_sums<int, {width}>")[1, 128](x, total, prefix)
    assert torch.equal(total, x.view(-1, width).sum(1, dtype=torch.int32))
    assert torch.equal(prefix, x.view(-1, width).cumsum(1, dtype=torch.int32).flatten())


def test_atomic_ref_counts_across_blocks():
    source = """
    #include <cuda/atomic>
    __global__ void k(int* total, int n) {
      cuda::atomic_ref<int, cuda::thread_scope_device> all(*total);
      if (threadIdx.x < n) all.fetch_add(blockIdx.x + 1, cuda::memory_order_relaxed);
    }"""
    total = torch.zeros(1, dtype=torch.int32)
    cudademo.kernel(source, "k")[7, 64](total, 50)
    assert total.item() == 50 * (1 + 2 + 3 + 4 + 5 + 6 + 7)


def test_cooperative_groups_reduce_tiles():
    source = """
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    __global__ void k(const int* x, int* out) {
      auto block = cg::this_thread_block();
      auto tile = cg::tiled_partition<8>(block);
      int value = x[block.thread_rank()];
      for (int i = tile.size() / 2; i > 0; i /= 2) value += tile.shfl_down(value, i);
      block.sync();
      if (tile.thread_rank() == 0) out[block.thread_rank() / 8] = value;
    }"""
    x = torch.arange(64, dtype=torch.int32)
    out = torch.zeros(8, dtype=torch.int32)
    cudademo.kernel(source, "k")[1, 64](x, out)
    assert torch.equal(out, x.view(8, 8).sum(1, dtype=torch.int32))


def test_functions_call_themselves_and_are_called_through_pointers():
    source = """
    __device__ __noinline__ int fibonacci(int n) {
      return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
    }
    __device__ __noinline__ int square(int n) { return n * n; }
    __device__ __noinline__ int negate(int n) { return -n; }
    __device__ int (*functions[3])(int) = {fibonacci, square, negate};
    __global__ void k(int* out) { out[threadIdx.x] = functions[threadIdx.x % 3](threadIdx.x); }
    """
    out = torch.zeros(12, dtype=torch.int32)
    cudademo.kernel(source, "k")[1, 12](out)
    assert out.tolist() == [0, 1, -2, 2, 16, -5, 8, 49, -8, 34, 100, -11]


def test_lanes_that_hold_a_lock_in_turn_all_get_it():
    source = """
    __global__ void k(int* lock, int* count) {
      bool done = false;
      while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
          *count += 1;
          __threadfence();
          atomicExch(lock, 0);
          done = true;
        }
      }
    }"""
    lock, count = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    cudademo.kernel(source, "k")[3, 64](lock, count)
    assert count.item() == 192


def test_printf_prints_in_the_order_of_threads(capfd):
    source = r"""
    #include <cstdio>
    __global__ void k(double x) {
      printf("%d/%u %s %5.2f %%|%lld\n", threadIdx.x, blockDim.x, "text", x, 1ll << 40);
    }"""
    cudademo.kernel(source, "k")
    with cudademo.use_emulator():
        cudademo.kernel(source, "k")[1, 2](2.5)
    assert capfd.readouterr().out == "".join(
        f"{i}/2 text  2.50 %|1099511627776\n" for i in range(2)
    )


def test_a_switch_and_constants_and_local_arrays():
    source = """
    __constant__ float factors[4] = {1.f, 10.f, 100.f, 1000.f};
    __global__ void k(const int* which, float* out, int n) {
      float values[8];
      for (int i = 0; i < 8; ++i) values[i] = i * factors[i % n];
      float y = 0;
      switch (which[threadIdx.x]) {
        case 0: y = values[1]; break;
        case 1: y = values[threadIdx.x % 8]; break;
        case 2: y = sinf(threadIdx.x); break;
        case 3: y = -1; break;
        case 4: y = expf(-values[2]); break;
        case 5: y = values[7] * 2; break;
      }
      out[threadIdx.x] = y;
    }"""
    which = torch.arange(64, dtype=torch.int32) % 7
    out = torch.zeros(64)
    cudademo.kernel(source, "k")[1, 64](which, out, 4)
    values = [i * [1.0, 10.0, 100.0, 1000.0][i % 4] for i in range(8)]
    lane = torch.arange(64)
    choices = torch.stack([
        torch.full((64,), values[1]), torch.tensor(values)[lane % 8], torch.sin(lane.float()),
        torch.full((64,), -1.0), torch.exp(torch.full((64,), -values[2])),
        torch.full((64,), values[7] * 2), torch.zeros(64),
    ])  # fmt: skip
    torch.testing.assert_close(out, choices[which.long(), lane])


def test_the_same_launch_gives_the_same_bits_and_a_seed_another_order():
    source = """
    __global__ void k(float* total, const float* x) {
      atomicAdd(total, x[blockIdx.x * blockDim.x + threadIdx.x]);
    }"""
    x = torch.randn(8 * 64, generator=torch.Generator().manual_seed(1)) * 1e3

    def total(seed: int) -> float:
        out = torch.zeros(1)
        with cudademo.use_emulator(seed=seed):
            cudademo.kernel(source, "k")[8, 64](out, x)
        return out.item()

    assert total(0) == total(0)
    assert total(3) == total(3)
    assert len({total(seed) for seed in range(6)}) > 1
    assert total(5) == pytest.approx(x.double().sum().item(), rel=1e-3)


def test_instructions_are_counted_once_for_each_thread():
    source = "__global__ void k(int* x) { x[blockIdx.x * blockDim.x + threadIdx.x] += blockDim.x; }"
    kernel = cudademo.kernel(source, "k")
    with cudademo.use_emulator() as emulator:
        body = kernel.ptx().split("{", 1)[1]
        written = re.findall(r"^\s+[a-z][^;]*;", body, re.MULTILINE)  # not the declarations' dots
        kernel[3, 40](torch.zeros(120, dtype=torch.int32))
    assert emulator.executed == len(written) * 120


def test_dynamic_shared_memory_beyond_48_kilobytes():
    source = """
    __global__ void k(int* out, int n) {
      extern __shared__ int shared[];
      for (int i = threadIdx.x; i < n; i += blockDim.x) shared[i] = i;
      __syncthreads();
      out[threadIdx.x] = shared[n - 1 - threadIdx.x];
    }"""
    n = 25_000
    out = torch.zeros(64, dtype=torch.int32)
    cudademo.kernel(source, "k")[1, 64, 4 * n](out, n)
    assert out.tolist() == list(range(n - 1, n - 65, -1))
    with pytest.raises(cudademo.LaunchError, match="bytes of dynamic shared memory"):
        cudademo.kernel(source, "k")[1, 64, 300_000](out, n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.complex64])
@pytest.mark.parametrize("shape", [(0,), (1,), (1000,), (3, 4, 5), (70_001,)])
def test_the_operators_agree_with_torch(dtype, shape):
    from cudademo import sum_double_op, sum_single_op

    a = torch.randn(shape).mul(10).to(dtype)
    b = torch.randn(shape).mul(10).to(dtype)
    with cudademo.use_emulator():
        torch.testing.assert_close(sum_double_op(a, b), a + b)
        torch.testing.assert_close(sum_double_op(a.flip(0), b[..., :1]), a.flip(0) + b[..., :1])
        wide = a.to(torch.complex128 if dtype.is_complex else torch.float64).sum()
        wanted = torch.int64 if dtype is torch.int8 else dtype
        torch.testing.assert_close(sum_single_op(a)[0], wide.to(wanted))
        torch.testing.assert_close(sum_single_op(a.expand(2, *shape))[0], (wide * 2).to(wanted))
        torch.testing.assert_close(sum_single_op(a.movedim(0, -1))[0], wide.to(wanted))


def test_the_operators_have_their_gradients():
    from cudademo import sum_double_op, sum_single_op

    a, b = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    with cudademo.use_emulator():
        torch.autograd.gradcheck(sum_double_op, (a, b))
        torch.autograd.gradcheck(sum_single_op, (a,))
