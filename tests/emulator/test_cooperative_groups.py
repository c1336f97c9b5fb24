"""cooperative_groups on the emulator, against torch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from instantiations import Instantiations  # noqa: E402

BLOCK = 128
SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

template <class T, int Width>
__global__ void tiles(const T* x, T* sums, T* least, T* inclusive, T* exclusive, T* shuffled) {
  auto tile = cg::tiled_partition<Width>(cg::this_thread_block());
  const int i = cg::this_grid().thread_rank();
  const T own = x[i];
  sums[i] = cg::reduce(tile, own, cg::plus<T>());
  least[i] = cg::reduce(tile, own, cg::less<T>());
  inclusive[i] = cg::inclusive_scan(tile, own, cg::plus<T>());
  exclusive[i] = cg::exclusive_scan(tile, own, cg::plus<T>());
  T other = tile.shfl_xor(own, Width / 2);
  other += tile.shfl(own, 0) + tile.shfl_up(own, 1) + tile.shfl_down(own, 1);
  shuffled[i] = other;
}

template <int Width>
__global__ void votes(const int* x, unsigned* out) {
  auto tile = cg::tiled_partition<Width>(cg::this_thread_block());
  const int i = threadIdx.x;
  unsigned* row = out + 8 * i;
  row[0] = tile.thread_rank();
  row[1] = tile.meta_group_rank();
  row[2] = tile.meta_group_size();
  row[3] = tile.any(x[i] > 2);
  row[4] = tile.all(x[i] > 0);
  row[5] = tile.ballot(x[i] & 1);
  row[6] = tile.match_any(x[i]);
  row[7] = tile.size();
}

template <int Width>
__global__ void partitions(const int* x, int* labelled, int* binary, int* together, int* first) {
  auto tile = cg::tiled_partition<Width>(cg::this_thread_block());
  const int i = threadIdx.x;
  auto same = cg::labeled_partition(tile, x[i]);
  labelled[i] = cg::reduce(same, i, cg::plus<int>()) * 100 + same.size();
  auto half = cg::binary_partition(tile, x[i] > 1);
  binary[i] = cg::reduce(half, x[i], cg::plus<int>()) * 100 + half.thread_rank();
  together[i] = -1;
  if (x[i] != 1) {
    auto some = cg::coalesced_threads();
    together[i] = cg::reduce(some, 1, cg::plus<int>()) * 100 + some.thread_rank();
    first[i] = some.shfl(i, 0);
    some.sync();
  }
}

extern "C" __global__ void everyone(int* out) {
  cg::thread_block block = cg::this_thread_block();
  __shared__ int total;
  if (block.thread_rank() == 0) total = 0;
  block.sync();
  cg::invoke_one(block, [&] { atomicAdd(&total, 5); });
  auto token = block.barrier_arrive();
  block.barrier_wait(std::move(token));
  cg::coalesced_group active = cg::coalesced_threads();
  if (active.thread_rank() == 0) atomicAdd(&total, active.size());
  block.sync();
  const dim3 at = block.thread_index(), size = block.dim_threads();
  out[block.thread_rank()] = total + 1000 * (at.x + at.y * size.x);
}
"""
WIDTHS = [32, 16, 4, 2]
TYPES = {torch.int32: "int", torch.float32: "float", torch.int64: "long long"}
kernels = Instantiations()
kernels.add(
    SOURCE,
    [f"tiles<{cpp}, {width}>" for cpp in TYPES.values() for width in WIDTHS]
    + [f"{name}<{width}>" for name in ("votes", "partitions") for width in WIDTHS]
    + ["everyone"],
)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_tiles_reduce_scan_and_shuffle(width, dtype):
    x = torch.randint(-50, 50, (2 * BLOCK,), generator=torch.Generator().manual_seed(width)).to(
        dtype
    )
    sums, least, inclusive, exclusive, shuffled = (torch.zeros_like(x) for _ in range(5))
    out = (sums, least, inclusive, exclusive, shuffled)
    kernels[f"tiles<{TYPES[dtype]}, {width}>"][2, BLOCK](x, *out)
    rows = x.view(-1, width)
    assert torch.equal(sums, rows.sum(1, keepdim=True).to(dtype).expand_as(rows).flatten())
    assert torch.equal(least, rows.min(1, keepdim=True).values.expand_as(rows).flatten())
    right = rows.cumsum(1).to(dtype)
    assert torch.equal(inclusive, right.flatten())
    assert torch.equal(exclusive, (right - rows).flatten())
    lane = torch.arange(width)
    up, down = (lane - 1).clamp(min=0), (lane + 1).clamp(max=width - 1)
    moved = rows[:, lane ^ (width // 2)] + rows[:, :1] + rows[:, up] + rows[:, down]
    assert torch.equal(shuffled, moved.flatten())


@pytest.mark.parametrize("width", WIDTHS)
def test_tiles_vote(width):
    x = torch.randint(0, 4, (BLOCK,), generator=torch.Generator().manual_seed(width)).int()
    out = torch.zeros(BLOCK, 8, dtype=torch.int32)
    kernels[f"votes<{width}>"][1, BLOCK](x, out.view(torch.uint32))
    rows = x.view(-1, width)
    weights = 2 ** torch.arange(width)
    lane = torch.arange(BLOCK)
    right = [
        lane % width,
        lane // width,
        torch.full((BLOCK,), BLOCK // width),
        (rows > 2).any(1).long().repeat_interleave(width),
        (rows > 0).all(1).long().repeat_interleave(width),
        ((rows & 1) * weights).sum(1).repeat_interleave(width),
        ((rows[:, :, None] == rows[:, None, :]) * weights).sum(2).flatten(),
        torch.full((BLOCK,), width),
    ]
    assert torch.equal(out.long() & 0xFFFFFFFF, torch.stack(right, 1))


@pytest.mark.parametrize("width", WIDTHS)
def test_groups_form_by_label_by_predicate_and_by_branch(width):
    x = torch.randint(0, 4, (BLOCK,), generator=torch.Generator().manual_seed(7 + width)).int()
    labelled, binary, together, first = (torch.zeros(BLOCK, dtype=torch.int32) for _ in range(4))
    kernels[f"partitions<{width}>"][1, BLOCK](x, labelled, binary, together, first)
    values = x.tolist()
    for i, value in enumerate(values):
        tile = range(i // width * width, i // width * width + width)
        same = [k for k in tile if values[k] == value]
        assert labelled[i] == sum(same) * 100 + len(same)
        half = [k for k in tile if (values[k] > 1) == (value > 1)]
        assert binary[i] == sum(values[k] for k in half) * 100 + half.index(i)
        warp = range(i // 32 * 32, i // 32 * 32 + 32)
        some = [k for k in warp if values[k] != 1]
        assert together[i] == (len(some) * 100 + some.index(i) if value != 1 else -1)
        assert first[i] == (some[0] if value != 1 else 0)


def test_a_block_synchronises_and_counts_itself():
    out = torch.zeros(96, dtype=torch.int32)
    kernels["everyone"][1, (24, 4)](out)
    assert out.tolist() == [5 + 96 + 1000 * i for i in range(96)]
