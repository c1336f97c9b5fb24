"""What CUB's block primitives sort, count and compare on the emulator, against torch."""

from __future__ import annotations

import pytest

import cudademo

torch = pytest.importorskip("torch")

from instantiations import Instantiations  # noqa: E402
from test_cub_blocks import CPP, some  # noqa: E402

kernels = Instantiations()

# ---- radix sort ----

RADIX = r"""
#include <cub/block/block_radix_sort.cuh>

template <class T, int Block, int Items>
__global__ void sort(const T* in, T* out, int first_bit, int last_bit) {
  using Sort = cub::BlockRadixSort<T, Block, Items>;
  __shared__ typename Sort::TempStorage shared;
  T items[Items];
  const int offset = blockIdx.x * Block * Items + threadIdx.x * Items;
  for (int i = 0; i < Items; ++i) items[i] = in[offset + i];
  Sort(shared).Sort(items, first_bit, last_bit);
  for (int i = 0; i < Items; ++i) out[offset + i] = items[i];
}

template <class T, class V, int Block, int Items>
__global__ void sort_pairs(const T* in, T* out, V* places) {
  using Sort = cub::BlockRadixSort<T, Block, Items, V>;
  __shared__ typename Sort::TempStorage shared;
  T items[Items];
  V values[Items];
  const int first = threadIdx.x * Items;
  for (int i = 0; i < Items; ++i) items[i] = in[first + i], values[i] = first + i;
  Sort(shared).SortDescendingBlockedToStriped(items, values);
  for (int i = 0; i < Items; ++i) {
    out[i * Block + threadIdx.x] = items[i];
    places[i * Block + threadIdx.x] = values[i];
  }
}
"""
SORTS = [
    (torch.int32, 32, 1),
    (torch.int64, 128, 3),
    (torch.uint8, 64, 4),
    (torch.int16, 1024, 1),
    (torch.float32, 256, 4),
    (torch.float64, 96, 2),
]
PAIRS = [(torch.int32, 64, 3), (torch.float32, 128, 2), (torch.int16, 32, 5)]


def sort_name(dtype: torch.dtype, block: int, items: int) -> str:
    return f"sort<{CPP[dtype]}, {block}, {items}>"


def pairs_name(dtype: torch.dtype, block: int, items: int) -> str:
    return f"sort_pairs<{CPP[dtype]}, int, {block}, {items}>"


kernels.add(RADIX, [sort_name(*one) for one in SORTS] + [pairs_name(*one) for one in PAIRS])


@pytest.mark.parametrize(("dtype", "block", "items"), SORTS)
def test_radix_sort(dtype, block, items):
    blocks, bits = 2, 8 * dtype.itemsize
    x = some(blocks * block * items, dtype)
    out = torch.empty_like(x)
    kernels[sort_name(dtype, block, items)][blocks, block](x, out, 0, bits)
    assert torch.equal(out, x.view(blocks, -1).sort(1).values.flatten())


def test_radix_sort_by_some_bits_is_stable():
    x = some(32, torch.int32) & 0xFFFF
    out = torch.empty_like(x)
    kernels[sort_name(torch.int32, 32, 1)][1, 32](x, out, 4, 9)
    assert torch.equal(out, x[(x >> 4 & 31).sort(stable=True).indices])


@pytest.mark.parametrize(("dtype", "block", "items"), PAIRS)
def test_radix_sort_of_pairs_downwards(dtype, block, items):
    x = (some(block * items, dtype) * 4).to(torch.int16).to(dtype)  # with equal keys
    out, places = torch.empty_like(x), torch.zeros(block * items, dtype=torch.int32)
    kernels[pairs_name(dtype, block, items)][1, block](x, out, places)
    right = x.sort(descending=True, stable=True)
    assert torch.equal(out, right.values)
    assert torch.equal(places.long(), right.indices)


# ---- merge sort, histograms, neighbours ----

# MERGING: CUB's merge reads one item past the second of its two lists, which it then does not use.

ORDER = r"""
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_merge_sort.cuh>

template <class T, int Block, int Items>
__global__ void merge_sort(const T* in, T* out, int* places, int n, T beyond) {
  using Sort = cub::BlockMergeSort<T, Block, Items, int>;
  __shared__ typename Sort::TempStorage shared;
  T keys[Items];
  int values[Items];
  const int first = threadIdx.x * Items;
  for (int i = 0; i < Items; ++i) {
    keys[i] = first + i < n ? in[first + i] : beyond;
    values[i] = first + i;
  }
  const auto less = [](T a, T b) { return a < b; };
  Sort(shared).StableSort(keys, values, less, n, beyond);
  for (int i = 0; i < Items; ++i) out[first + i] = keys[i], places[first + i] = values[i];
}

template <class T, int Block, int Items, int Bins, cub::BlockHistogramAlgorithm Algorithm>
__global__ void histogram(const T* in, int* out) {
  using Histogram = cub::BlockHistogram<T, Block, Items, Bins, Algorithm>;
  __shared__ typename Histogram::TempStorage shared;
  __shared__ int counts[Bins];
  T items[Items];
  for (int i = 0; i < Items; ++i) items[i] = in[threadIdx.x * Items + i];
  Histogram(shared).Histogram(items, counts);
  __syncthreads();
  Histogram(shared).Composite(items, counts);
  __syncthreads();
  for (int i = threadIdx.x; i < Bins; i += Block) out[i] = counts[i];
}

struct Differs {
  template <class T>
  __device__ bool operator()(const T& a, const T& b) const { return a != b; }
};
struct Minus {
  template <class T>
  __device__ T operator()(const T& a, const T& b) const { return a - b; }
};

template <class T, int Block, int Items>
__global__ void neighbours(const T* in, int* heads, int* tails, T* left, T* right, T* part, int n) {
  using Flags = cub::BlockDiscontinuity<T, Block>;
  using Difference = cub::BlockAdjacentDifference<T, Block>;
  __shared__ typename Flags::TempStorage flags;
  __shared__ typename Difference::TempStorage difference;
  T items[Items], made[Items];
  int first_of[Items], last_of[Items];
  const int first = threadIdx.x * Items;
  for (int i = 0; i < Items; ++i) items[i] = in[first + i];
  Flags(flags).FlagHeadsAndTails(first_of, last_of, items, Differs());
  for (int i = 0; i < Items; ++i) heads[first + i] = first_of[i], tails[first + i] = last_of[i];
  Difference(difference).SubtractLeft(items, made, Minus());
  for (int i = 0; i < Items; ++i) left[first + i] = made[i];
  __syncthreads();
  Difference(difference).SubtractRight(items, made, Minus());
  for (int i = 0; i < Items; ++i) right[first + i] = made[i];
  __syncthreads();
  Difference(difference).SubtractLeftPartialTile(items, made, Minus(), n);
  for (int i = 0; i < Items; ++i) part[first + i] = made[i];
}
"""
MERGES = [(torch.int32, 32, 1), (torch.float64, 64, 3), (torch.int16, 256, 2)]
HISTOGRAMS = [(torch.uint8, 128, 6, 256), (torch.int32, 96, 3, 40)]
NEIGHBOURS = [(torch.int32, 64, 3), (torch.float32, 256, 1), (torch.int64, 96, 4)]


def merge_name(dtype: torch.dtype, block: int, items: int) -> str:
    return f"merge_sort<{CPP[dtype]}, {block}, {items}>"


def histogram_name(algorithm: str, dtype: torch.dtype, block: int, items: int, bins: int) -> str:
    sizes = f"{block}, {items}, {bins}"
    return f"histogram<{CPP[dtype]}, {sizes}, cub::BLOCK_HISTO_{algorithm}>"


def neighbours_name(dtype: torch.dtype, block: int, items: int) -> str:
    return f"neighbours<{CPP[dtype]}, {block}, {items}>"


kernels.add(
    ORDER,
    [merge_name(*one) for one in MERGES]
    + [histogram_name(how, *one) for how in ("SORT", "ATOMIC") for one in HISTOGRAMS]
    + [neighbours_name(*one) for one in NEIGHBOURS],
)


@pytest.mark.parametrize("missing", [0, 5])
@pytest.mark.parametrize(("dtype", "block", "items"), MERGES)
def test_merge_sort(dtype, block, items, missing):
    size = block * items
    count = size - missing
    x = (some(size, dtype) * 2).to(torch.int16).to(dtype)  # with equal keys
    beyond = float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max
    out, places = torch.empty_like(x), torch.zeros(size, dtype=torch.int32)
    with cudademo.use_emulator(cudademo._core.emulating(), checks=False):  # see MERGING
        kernels[merge_name(dtype, block, items)][1, block](x, out, places, count, beyond)
    right = x[:count].sort(stable=True)
    assert torch.equal(out[:count], right.values)
    assert torch.equal(places[:count].long(), right.indices)


@pytest.mark.parametrize(("dtype", "block", "items", "bins"), HISTOGRAMS)
@pytest.mark.parametrize("algorithm", ["SORT", "ATOMIC"])
def test_histogram(algorithm, dtype, block, items, bins):
    x = (some(block * items, dtype).long() % bins).to(dtype)
    out = torch.zeros(bins, dtype=torch.int32)
    kernels[histogram_name(algorithm, dtype, block, items, bins)][1, block](x, out)
    assert torch.equal(out.long(), 2 * torch.bincount(x.long(), minlength=bins))


@pytest.mark.parametrize(("dtype", "block", "items"), NEIGHBOURS)
def test_neighbours(dtype, block, items):
    size = block * items
    count = size - 2
    x = torch.randint(0, 3, (size,), generator=torch.Generator().manual_seed(size)).to(dtype)
    heads, tails = (torch.zeros(size, dtype=torch.int32) for _ in range(2))
    left, right, part = (torch.zeros_like(x) for _ in range(3))
    out = (heads, tails, left, right, part)
    kernels[neighbours_name(dtype, block, items)][1, block](x, *out, count)
    one = torch.ones(1, dtype=torch.bool)
    assert torch.equal(heads.bool(), torch.cat([one, x[1:] != x[:-1]]))
    assert torch.equal(tails.bool(), torch.cat([x[1:] != x[:-1], one]))
    assert torch.equal(left, torch.cat([x[:1], x[1:] - x[:-1]]))
    assert torch.equal(right, torch.cat([x[:-1] - x[1:], x[-1:]]))
    assert torch.equal(part, torch.cat([left[:count], x[count:]]))
