"""Blocks that all run at once, and wait for one another: the emulator's cooperative launch."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

import cudademo

np = pytest.importorskip("numpy")

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


@pytest.mark.parametrize(("blocks", "threads"), [(1, 32), (5, 48), (16, 128)])
def test_the_blocks_of_a_cooperative_launch_wait_for_one_another(blocks: int, threads: int) -> None:
    driver = ctypes.CDLL(str(Path(cudademo._core.__file__).parent / "libcudademo_emulator.so"))
    ptx = cudademo.kernel(SOURCE, "steps", architecture="compute_80").ptx().encode()
    library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuLibraryLoadData(ctypes.byref(library), ptx, None, None, 0, None, None, 0) == 0
    assert driver.cuLibraryGetKernel(ctypes.byref(kernel), library, b"steps") == 0
    count = blocks * threads
    given = np.arange(count, dtype=np.int32) ** 2 % 1000
    x, y = ctypes.c_uint64(), ctypes.c_uint64()
    for place in (x, y):
        assert driver.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(4 * count)) == 0
    driver.cuMemcpyHtoD_v2(x, given.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(4 * count))
    steps = ctypes.c_int(4)
    arguments = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in (x, y, steps)))
    extents = (blocks, 1, 1, threads, 1, 1, 0)
    launched = driver.cuLaunchCooperativeKernel(kernel, *extents, None, arguments)
    assert launched == 0
    found = np.zeros_like(given)
    driver.cuMemcpyDtoH_v2(found.ctypes.data_as(ctypes.c_void_p), x, ctypes.c_size_t(4 * count))
    wanted = given
    for _ in range(4):
        wanted = wanted + np.roll(wanted, -threads)
    assert np.array_equal(found, wanted)
    # Blocks that do not all run at once have no barrier: cooperative_groups traps.
    assert driver.cuLaunchKernel(kernel, *extents, None, arguments, None) != 0
    for place in (x, y):
        driver.cuMemFree_v2(place)
    driver.cuLibraryUnload(library)
