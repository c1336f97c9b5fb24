"""CUB's primitives of a warp and of a thread on the emulator, against torch."""

from __future__ import annotations

import pytest

import cudademo

torch = pytest.importorskip("torch")

from instantiations import Instantiations  # noqa: E402
from test_cub_blocks import CPP, some  # noqa: E402

BLOCK = 64
kernels = Instantiations()

SUMS = r"""
#include <cub/thread/thread_reduce.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cuda/functional>

template <class T, int Width>
__global__ void reduce(const T* in, const int* flags, T* sums, T* largest, T* some, T* runs,
                       int n) {
  using Reduce = cub::WarpReduce<T, Width>;
  __shared__ typename Reduce::TempStorage shared[64 / Width];
  const int group = threadIdx.x / Width;
  const T own = in[threadIdx.x];
  const T sum = Reduce(shared[group]).Sum(own);
  __syncwarp(__activemask());
  const T most = Reduce(shared[group]).Reduce(own, cuda::maximum<>{});
  __syncwarp(__activemask());
  const T first = Reduce(shared[group]).Sum(own, n);
  __syncwarp(__activemask());
  const T run = Reduce(shared[group]).HeadSegmentedSum(own, flags[threadIdx.x]);
  if (threadIdx.x % Width == 0) sums[group] = sum, largest[group] = most, some[group] = first;
  if (flags[threadIdx.x]) runs[threadIdx.x] = run;
}

template <class T, int Width>
__global__ void scan(const T* in, T* sums, T* before, T* largest, T* totals, T* first) {
  using Scan = cub::WarpScan<T, Width>;
  __shared__ typename Scan::TempStorage shared[64 / Width];
  Scan scan(shared[threadIdx.x / Width]);
  const T own = in[threadIdx.x];
  T made, total;
  scan.InclusiveSum(own, made, total), sums[threadIdx.x] = made, totals[threadIdx.x] = total;
  __syncwarp();
  scan.ExclusiveSum(own, made), before[threadIdx.x] = made;
  __syncwarp();
  scan.InclusiveScan(own, made, cuda::maximum<>{}), largest[threadIdx.x] = made;
  __syncwarp();
  first[threadIdx.x] = scan.Broadcast(own, Width - 1);
}

template <class T, int Items>
__global__ void in_thread(const T* in, T* sums, T* smallest, T* largest) {
  T items[Items];
  for (int i = 0; i < Items; ++i) items[i] = in[threadIdx.x * Items + i];
  sums[threadIdx.x] = cub::ThreadReduce(items, cuda::std::plus<>{});
  smallest[threadIdx.x] = cub::ThreadReduce(items, cuda::minimum<>{}, T(0));
  largest[threadIdx.x] = cub::ThreadReduce(items, cuda::maximum<>{});
}
"""
REDUCTIONS = [
    (torch.int32, 32),
    (torch.float32, 16),
    (torch.int64, 8),
    (torch.float64, 4),
    (torch.int32, 12),
]
SCANS = [(torch.int32, 32), (torch.float64, 16), (torch.int64, 8), (torch.int32, 2)]
THREADS = [(torch.int32, 5), (torch.int16, 8), (torch.float64, 3), (torch.float32, 1)]

MOVES = r"""
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_store.cuh>

template <class T, int Items, int Width>
__global__ void move(const T* in, T* striped, T* scattered, T* copied, int n) {
  using Load = cub::WarpLoad<T, Items, cub::WARP_LOAD_TRANSPOSE, Width>;
  using Store = cub::WarpStore<T, Items, cub::WARP_STORE_TRANSPOSE, Width>;
  using Exchange = cub::WarpExchange<T, Items, Width>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
    typename Exchange::TempStorage exchange;
  } all[64 / Width];
  auto& shared = all[threadIdx.x / Width];
  const int tile = threadIdx.x / Width * Width * Items, lane = threadIdx.x % Width;
  T items[Items], made[Items];
  int ranks[Items];
  Load(shared.load).Load(in + tile, items, n, T(3));
  __syncwarp();
  for (int i = 0; i < Items; ++i) ranks[i] = Width * Items - 1 - (lane * Items + i);
  Exchange(shared.exchange).BlockedToStriped(items, made);
  for (int i = 0; i < Items; ++i) striped[tile + lane * Items + i] = made[i];
  __syncwarp();
  Exchange(shared.exchange).ScatterToStriped(items, made, ranks);
  for (int i = 0; i < Items; ++i) scattered[tile + i * Width + lane] = made[i];
  __syncwarp();
  Store(shared.store).Store(copied + tile, items, n);
}

template <class T, int Items, int Width>
__global__ void sort(const T* in, T* out, int* places) {
  using Sort = cub::WarpMergeSort<T, Items, Width, int>;
  __shared__ typename Sort::TempStorage shared[64 / Width];
  T keys[Items];
  int values[Items];
  for (int i = 0; i < Items; ++i) {
    values[i] = threadIdx.x * Items + i;
    keys[i] = in[values[i]];
  }
  Sort(shared[threadIdx.x / Width]).StableSort(keys, values, [](T a, T b) { return b < a; });
  for (int i = 0; i < Items; ++i) {
    out[threadIdx.x * Items + i] = keys[i];
    places[threadIdx.x * Items + i] = values[i];
  }
}
"""
TILES = [(torch.int32, 4, 32), (torch.float64, 2, 16), (torch.int16, 3, 8)]


def name(kernel: str, dtype: torch.dtype, *numbers: int) -> str:
    return f"{kernel}<{', '.join([CPP[dtype], *map(str, numbers)])}>"


kernels.add(
    SUMS,
    [name("reduce", *one) for one in REDUCTIONS]
    + [name("scan", *one) for one in SCANS]
    + [name("in_thread", *one) for one in THREADS],
)
kernels.add(MOVES, [name(kernel, *one) for kernel in ("move", "sort") for one in TILES])


@pytest.mark.parametrize(("dtype", "width"), REDUCTIONS)
def test_reduce(dtype, width):
    # A width that is no power of two is for the first lanes of a warp alone.
    block = BLOCK if BLOCK % width == 0 else width
    groups, count = block // width, width - 1
    x = some(block, dtype) if dtype.is_floating_point else some(block, dtype) // 64
    flags = torch.zeros(groups, width, dtype=torch.int32)
    flags[:, [0, width // 2]] = 1
    sums, largest, part = (torch.zeros(groups, dtype=dtype) for _ in range(3))
    runs = torch.zeros_like(x)
    out = (sums, largest, part, runs)
    kernels[name("reduce", dtype, width)][1, block](x, flags.flatten(), *out, count)
    rows = x.view(groups, width)
    torch.testing.assert_close(sums, rows.sum(1).to(dtype))
    assert torch.equal(largest, rows.max(1).values)
    torch.testing.assert_close(part, rows[:, :count].sum(1).to(dtype))
    halves = [rows[:, : width // 2].sum(1), rows[:, width // 2 :].sum(1)]
    found = runs.view(groups, width)[:, [0, width // 2]]
    torch.testing.assert_close(found, torch.stack(halves, 1).to(dtype))


@pytest.mark.parametrize(("dtype", "width"), SCANS)
def test_scan(dtype, width):
    x = some(BLOCK, dtype)
    sums, before, largest, totals, last = (torch.zeros_like(x) for _ in range(5))
    out = (sums, before, largest, totals, last)
    kernels[name("scan", dtype, width)][1, BLOCK](x, *out)
    rows = x.view(-1, width)
    right = rows.cumsum(1, dtype=dtype)
    torch.testing.assert_close(sums, right.flatten())
    shifted = torch.cat([right[:, :1] * 0, right[:, :-1]], 1)
    torch.testing.assert_close(before, shifted.flatten())
    assert torch.equal(largest, rows.cummax(1).values.flatten())
    torch.testing.assert_close(totals, right[:, -1:].expand(-1, width).flatten())
    assert torch.equal(last, rows[:, -1:].expand(-1, width).flatten())


@pytest.mark.parametrize(("dtype", "items"), THREADS)
def test_of_one_thread(dtype, items):
    x = some(32 * items, dtype)
    sums, smallest, largest = (torch.zeros(32, dtype=dtype) for _ in range(3))
    kernels[name("in_thread", dtype, items)][1, 32](x, sums, smallest, largest)
    rows = x.view(32, items)
    torch.testing.assert_close(sums, rows.sum(1).to(dtype))
    assert torch.equal(smallest, rows.min(1).values.clamp(max=0))
    assert torch.equal(largest, rows.max(1).values)


@pytest.mark.parametrize(("dtype", "items", "width"), TILES)
def test_load_exchange_and_store(dtype, items, width):
    tile = items * width
    count = tile - 3
    x = some(BLOCK * items, dtype)
    striped, scattered = (torch.zeros_like(x) for _ in range(2))
    copied = torch.full_like(x, 9)
    kernels[name("move", dtype, items, width)][1, BLOCK](x, striped, scattered, copied, count)
    rows = x.view(-1, tile).clone()
    rows[:, count:] = 3
    assert torch.equal(striped.view(-1, width, items), rows.view(-1, items, width).transpose(1, 2))
    assert torch.equal(scattered.view(-1, tile), rows.flip(1))
    rows[:, count:] = 9
    assert torch.equal(copied.view(-1, tile), rows)


@pytest.mark.parametrize(("dtype", "items", "width"), TILES)
def test_merge_sort_downwards(dtype, items, width):
    x = (some(BLOCK * items, dtype) * 2).to(torch.int16).to(dtype)
    out, places = torch.zeros_like(x), torch.zeros(BLOCK * items, dtype=torch.int32)
    # CUB's merge reads one item past the second of its two lists, which it then does not use.
    with cudademo.use_emulator(cudademo._core.emulating(), checks=False):
        kernels[name("sort", dtype, items, width)][1, BLOCK](x, out, places)
    right = x.view(-1, items * width).sort(dim=1, descending=True, stable=True)
    start = torch.arange(0, BLOCK * items, items * width)[:, None]
    assert torch.equal(out, right.values.flatten())
    assert torch.equal(places.long(), (right.indices + start).flatten())
