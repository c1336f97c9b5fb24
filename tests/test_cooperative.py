"""Launches whose blocks all run at once and wait for one another, on the emulator and on a GPU."""

from __future__ import annotations

import pytest
import torch

import cudademo
from cudademo import ArgumentError, EmulatorError, LaunchError

SOURCE = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
// Each step adds to a number its neighbour in the next block.
extern "C" __global__ void steps(int* x, int* y, int count) {
  auto grid = cg::this_grid();
  const int i = grid.thread_rank();
  for (int step = 0; step < count; ++step) {
    y[i] = x[i] + x[(i + blockDim.x) % grid.size()];
    grid.sync();
    x[i] = y[i];
    grid.sync();
  }
}"""
SIZED = """
template <typename T, int BLOCK>
__global__ void sized(T* x) {
  __shared__ T s[BLOCK];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[BLOCK - 1 - threadIdx.x];
}"""


@pytest.mark.parametrize(("blocks", "threads"), [(1, 32), (5, 48), (16, 128)])
def test_the_blocks_of_a_cooperative_launch_wait_for_one_another(
    kernel_device: str, blocks: int, threads: int
) -> None:
    kernel = cudademo.kernel(SOURCE, "steps")
    given = torch.arange(blocks * threads, dtype=torch.int32, device=kernel_device) ** 2 % 1000
    x = given.clone()
    kernel[blocks, threads](x, torch.empty_like(x), 4, cooperative=True)
    wanted = given
    for _ in range(4):
        wanted = wanted + wanted.roll(-threads)
    assert torch.equal(x, wanted)


def test_the_largest_cooperative_grid_runs_and_no_larger_one(kernel_device: str) -> None:
    kernel = cudademo.kernel(SOURCE, "steps")
    most = kernel.max_active_blocks(256, device=kernel_device)
    x = torch.ones(256 * (most + 1), dtype=torch.int32, device=kernel_device)
    kernel[most, 256](x[: 256 * most], torch.empty_like(x), 1, cooperative=True)
    assert (x[: 256 * most] == 2).all()
    with pytest.raises(LaunchError, match=f"at most {most} of this kernel") as caught:
        kernel[most + 1, 256](x, torch.empty_like(x), 1, cooperative=True)
    assert caught.value.name == "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"
    assert caught.value.call == "cuLaunchCooperativeKernel"
    assert ", cooperative" in str(caught.value)


def test_a_grid_has_no_barrier_where_its_blocks_do_not_all_run_at_once() -> None:
    x = torch.zeros(64, dtype=torch.int32)
    with pytest.raises(EmulatorError):
        cudademo.kernel(SOURCE, "steps")[2, 32](x, torch.empty_like(x), 1)


def test_active_blocks_are_bounded_by_threads_and_by_shared_memory(kernel_device: str) -> None:
    bindings = {"T": cudademo.dtype_of(0), "BLOCK": cudademo.block_dim}
    kernel = cudademo.kernel(SIZED, "sized<T, BLOCK>", **bindings)
    few = kernel.max_active_blocks(1024, device=kernel_device, T=torch.float32)
    more = kernel.max_active_blocks((128, 2), device=kernel_device, T=torch.float32)
    assert 0 < few < more
    assert kernel.max_active_blocks(256, 100 * 1024, device=kernel_device, T=torch.float32) < more
    assert len(kernel.variants) == 2  # for blocks of 1024 and of 256 threads
    with pytest.raises(LaunchError, match="shared memory"):
        kernel.max_active_blocks(256, 1 << 30, device=kernel_device, T=torch.float32)
    with pytest.raises(TypeError, match="up to three"):
        kernel.max_active_blocks((1, 1, 1, 1), device=kernel_device, T=torch.float32)
    with pytest.raises(TypeError, match="a value for T"):
        kernel.max_active_blocks(256, device=kernel_device)


def test_a_launch_has_two_keywords() -> None:
    kernel = cudademo.kernel(SOURCE, "steps")
    x = torch.zeros(32, dtype=torch.int32)
    with pytest.raises(ArgumentError, match="stream= and cooperative="):
        kernel[1, 32](x, x, 0, cooperate=True)  # type: ignore[call-arg]
