"""CUB's primitives of a block on the emulator, against torch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from instantiations import Instantiations  # noqa: E402

CPP = {
    torch.uint8: "unsigned char",
    torch.int16: "short",
    torch.int32: "int",
    torch.int64: "long long",
    torch.float32: "float",
    torch.float64: "double",
}
kernels = Instantiations()


def some(count: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Numbers over the whole range of an integer type, or about zero."""
    generator = torch.Generator().manual_seed(1000 * seed + count)
    if dtype.is_floating_point:
        return torch.randn(count, dtype=dtype, generator=generator)
    bits = torch.iinfo(dtype)
    return torch.randint(bits.min, bits.max, (count,), dtype=dtype, generator=generator)


# ---- reductions ----

REDUCE = r"""
#include <cub/block/block_reduce.cuh>
#include <cuda/functional>

template <class T, int Block, int Items, cub::BlockReduceAlgorithm Algorithm>
__global__ void reduce(const T* in, T* out, int n) {
  using Reduce = cub::BlockReduce<T, Block, Algorithm>;
  __shared__ typename Reduce::TempStorage shared;
  T items[Items];
  for (int i = 0; i < Items; ++i) items[i] = in[threadIdx.x * Items + i];
  const T total = Reduce(shared).Sum(items);
  __syncthreads();
  const T largest = Reduce(shared).Reduce(items[0], cuda::maximum<>{});
  __syncthreads();
  const T some = Reduce(shared).Sum(items[0], n);
  if (threadIdx.x == 0) out[0] = total, out[1] = largest, out[2] = some;
}
"""
REDUCTIONS = ("RAKING", "RAKING_COMMUTATIVE_ONLY", "WARP_REDUCTIONS")
REDUCE_SHAPES = [
    (torch.int32, 32, 1),
    (torch.float64, 96, 3),
    (torch.int64, 200, 2),
    (torch.float32, 1024, 1),
]


def reduce_name(algorithm: str, dtype: torch.dtype, block: int, items: int) -> str:
    return f"reduce<{CPP[dtype]}, {block}, {items}, cub::BLOCK_REDUCE_{algorithm}>"


kernels.add(REDUCE, [reduce_name(one, *shape) for one in REDUCTIONS for shape in REDUCE_SHAPES])


@pytest.mark.parametrize(("dtype", "block", "items"), REDUCE_SHAPES)
@pytest.mark.parametrize("algorithm", REDUCTIONS)
def test_reduce(algorithm, dtype, block, items):
    x = some(block * items, dtype) if dtype.is_floating_point else some(block * items, dtype) // 4
    out = torch.zeros(3, dtype=dtype)
    count = block - 3
    kernels[reduce_name(algorithm, dtype, block, items)][1, block](x, out, count)
    first = x.view(block, items)[:, 0]
    right = torch.stack([x.sum().to(dtype), first.max(), first[:count].sum().to(dtype)])
    torch.testing.assert_close(out, right)


# ---- scans ----

SCAN = r"""
#include <cub/block/block_scan.cuh>
#include <cuda/functional>

template <class T, int Block, int Items, cub::BlockScanAlgorithm Algorithm>
__global__ void scan(const T* in, T* sums, T* before, T* largest, T* total) {
  using Scan = cub::BlockScan<T, Block, Algorithm>;
  __shared__ typename Scan::TempStorage shared;
  T items[Items], made[Items], all;
  const int first = threadIdx.x * Items;
  for (int i = 0; i < Items; ++i) items[i] = in[first + i];
  Scan(shared).InclusiveSum(items, made, all);
  for (int i = 0; i < Items; ++i) sums[first + i] = made[i];
  __syncthreads();
  Scan(shared).ExclusiveSum(items, made);
  for (int i = 0; i < Items; ++i) before[first + i] = made[i];
  __syncthreads();
  Scan(shared).InclusiveScan(items, made, cuda::maximum<>{});
  for (int i = 0; i < Items; ++i) largest[first + i] = made[i];
  if (threadIdx.x == Block - 1) *total = all;
}
"""
SCANS = ("RAKING", "RAKING_MEMOIZE", "WARP_SCANS")
SCAN_SHAPES = [
    (torch.int32, 32, 2),
    (torch.int64, 96, 5),
    (torch.float64, 256, 1),
    (torch.int32, 1024, 1),
]


def scan_name(algorithm: str, dtype: torch.dtype, block: int, items: int) -> str:
    return f"scan<{CPP[dtype]}, {block}, {items}, cub::BLOCK_SCAN_{algorithm}>"


kernels.add(SCAN, [scan_name(one, *shape) for one in SCANS for shape in SCAN_SHAPES])


@pytest.mark.parametrize(("dtype", "block", "items"), SCAN_SHAPES)
@pytest.mark.parametrize("algorithm", SCANS)
def test_scan(algorithm, dtype, block, items):
    x = some(block * items, dtype)
    sums, before, largest = (torch.empty_like(x) for _ in range(3))
    total = torch.zeros(1, dtype=dtype)
    kernels[scan_name(algorithm, dtype, block, items)][1, block](x, sums, before, largest, total)
    right = x.cumsum(0, dtype=dtype)
    torch.testing.assert_close(sums, right)
    torch.testing.assert_close(before, torch.cat([right[:1] * 0, right[:-1]]))
    torch.testing.assert_close(largest, x.cummax(0).values)
    torch.testing.assert_close(total[0], right[-1])


# ---- loads and stores, exchanges, shuffles ----

MOVE = r"""
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>

template <class T, int Block, int Items, cub::BlockLoadAlgorithm In, cub::BlockStoreAlgorithm Out>
__global__ void copy(const T* in, T* items_out, T* out, int n) {
  using Load = cub::BlockLoad<T, Block, Items, In>;
  using Store = cub::BlockStore<T, Block, Items, Out>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
  } shared;
  T items[Items];
  Load(shared.load).Load(in, items, n, T(7));
  for (int i = 0; i < Items; ++i) items_out[threadIdx.x * Items + i] = items[i];
  __syncthreads();
  Load(shared.load).Load(in, items);
  __syncthreads();
  T again[Items];  // a store may reorder what it is given
  for (int i = 0; i < Items; ++i) again[i] = items[i];
  Store(shared.store).Store(out, items);
  __syncthreads();
  Store(shared.store).Store(out + Block * Items, again, n);
}

template <class T, int Block, int Items, bool Slices>
__global__ void exchange(const T* in, const int* ranks_in, T* out) {
  using Exchange = cub::BlockExchange<T, Block, Items, Slices>;
  __shared__ typename Exchange::TempStorage shared;
  T items[Items], made[Items];
  int ranks[Items];
  const int first = threadIdx.x * Items;
  for (int i = 0; i < Items; ++i) items[i] = in[first + i], ranks[i] = ranks_in[first + i];
  const auto keep = [&](int which) {
    for (int i = 0; i < Items; ++i) out[which * Block * Items + first + i] = made[i];
    __syncthreads();
  };
  Exchange(shared).BlockedToStriped(items, made), keep(0);
  Exchange(shared).StripedToBlocked(items, made), keep(1);
  Exchange(shared).BlockedToWarpStriped(items, made), keep(2);
  Exchange(shared).WarpStripedToBlocked(items, made), keep(3);
  Exchange(shared).ScatterToBlocked(items, made, ranks), keep(4);
  Exchange(shared).ScatterToStriped(items, made, ranks), keep(5);
}

template <class T, int Block, int Items>
__global__ void shuffle(const T* in, T* out) {
  using Shuffle = cub::BlockShuffle<T, Block>;
  __shared__ typename Shuffle::TempStorage shared;
  T items[Items], up[Items], down[Items], one = T(), turned = T();
  const int first = threadIdx.x * Items;
  for (int i = 0; i < Items; ++i) items[i] = up[i] = down[i] = in[first + i];
  Shuffle(shared).Offset(items[0], one, -2);
  __syncthreads();
  Shuffle(shared).Rotate(items[0], turned, 3);
  __syncthreads();
  Shuffle(shared).Up(items, up);
  __syncthreads();
  Shuffle(shared).Down(items, down);
  for (int i = 0; i < Items; ++i) {
    out[first + i] = up[i];
    out[Block * Items + first + i] = down[i];
  }
  out[2 * Block * Items + threadIdx.x] = one;
  out[2 * Block * Items + Block + threadIdx.x] = turned;
}
"""
TRANSFERS = (
    "DIRECT",
    "STRIPED",
    "VECTORIZE",
    "TRANSPOSE",
    "WARP_TRANSPOSE",
    "WARP_TRANSPOSE_TIMESLICED",
)
COPY_SHAPES = [(torch.int32, 64, 4), (torch.float64, 96, 3), (torch.uint8, 32, 8)]
EXCHANGE_SHAPES = [
    (torch.int32, 64, 4, False),
    (torch.int16, 96, 3, False),
    (torch.float64, 256, 1, True),
    (torch.int32, 128, 2, True),
]
SHUFFLE_SHAPES = [(torch.int32, 64, 3), (torch.float64, 128, 1)]


def copy_name(algorithm: str, dtype: torch.dtype, block: int, items: int) -> str:
    algorithms = f"cub::BLOCK_LOAD_{algorithm}, cub::BLOCK_STORE_{algorithm}"
    return f"copy<{CPP[dtype]}, {block}, {items}, {algorithms}>"


def exchange_name(dtype: torch.dtype, block: int, items: int, slices: bool) -> str:
    return f"exchange<{CPP[dtype]}, {block}, {items}, {str(slices).lower()}>"


def shuffle_name(dtype: torch.dtype, block: int, items: int) -> str:
    return f"shuffle<{CPP[dtype]}, {block}, {items}>"


kernels.add(
    MOVE,
    [copy_name(one, *shape) for one in TRANSFERS for shape in COPY_SHAPES]
    + [exchange_name(*shape) for shape in EXCHANGE_SHAPES]
    + [shuffle_name(*shape) for shape in SHUFFLE_SHAPES],
)


@pytest.mark.parametrize(("dtype", "block", "items"), COPY_SHAPES)
@pytest.mark.parametrize("algorithm", TRANSFERS)
def test_load_and_store(algorithm, dtype, block, items):
    size = block * items
    count = size - items - 1  # of the partial ones
    x = some(size, dtype)
    held, out = torch.zeros_like(x), torch.full((2 * size,), 9, dtype=dtype)
    kernels[copy_name(algorithm, dtype, block, items)][1, block](x, held, out, count)
    padded = torch.cat([x[:count], torch.full((size - count,), 7, dtype=dtype)])
    striped = padded.view(items, block).T.flatten()
    assert torch.equal(held, striped if algorithm == "STRIPED" else padded)
    assert torch.equal(out[:size], x)
    assert torch.equal(out[size : size + count], x[:count])
    assert (out[size + count :] == 9).all()


@pytest.mark.parametrize(("dtype", "block", "items", "slices"), EXCHANGE_SHAPES)
def test_exchange(dtype, block, items, slices):
    size = block * items
    x = some(size, dtype)
    ranks = torch.randperm(size, generator=torch.Generator().manual_seed(size))
    out = torch.zeros(6, size, dtype=dtype)
    kernels[exchange_name(dtype, block, items, slices)][1, block](x, ranks.int(), out)
    scattered = torch.empty_like(x)
    scattered[ranks] = x
    right = [
        x.view(items, block).T,
        x.view(block, items).T,
        x.view(-1, items, 32).transpose(1, 2),
        x.view(-1, 32, items).transpose(1, 2),
        scattered,
        scattered.view(items, block).T,
    ]
    for made, wanted in zip(out, right, strict=True):
        assert torch.equal(made, wanted.reshape(size))


@pytest.mark.parametrize(("dtype", "block", "items"), SHUFFLE_SHAPES)
def test_shuffle(dtype, block, items):
    size = block * items
    x = some(size, dtype)
    out = torch.zeros(2 * size + 2 * block, dtype=dtype)
    kernels[shuffle_name(dtype, block, items)][1, block](x, out)
    up, down, offset, turned = out.split([size, size, block, block])
    first = x.view(block, items)[:, 0]
    assert torch.equal(up, torch.cat([x[:1], x[:-1]]))
    assert torch.equal(down, torch.cat([x[1:], x[-1:]]))
    assert torch.equal(offset, torch.cat([first[:2] * 0, first[:-2]]))
    assert torch.equal(turned, first.roll(-3))
