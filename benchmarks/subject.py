"""The one kernel that every competitor launches, and the tensors that it runs on."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch

KERNEL_NAME = "add_arrays"
ELEMENTS = 10_000
BLOCK = 256
GRID = (ELEMENTS + BLOCK - 1) // BLOCK

SOURCE = r"""
extern "C" __global__ void add_arrays(const float* a, const float* b, float* c, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
"""

# For interfaces that can only pass a Python int as a 32-bit one.
SOURCE_INT32 = SOURCE.replace("long long n", "int n")


class Arrays(NamedTuple):
    """What the kernel takes: two inputs, one output, the number of elements."""

    a: torch.Tensor
    b: torch.Tensor
    c: torch.Tensor
    n: int


def arrays() -> Arrays:
    """Random inputs and an output full of NaN, on the GPU and finished."""
    generator = torch.Generator(device="cuda").manual_seed(1)
    a = torch.randn(ELEMENTS, device="cuda", generator=generator)
    b = torch.randn(ELEMENTS, device="cuda", generator=generator)
    c = torch.full_like(a, float("nan"))
    torch.cuda.synchronize()
    return Arrays(a, b, c, ELEMENTS)


def check(arrays: Arrays) -> None:
    """Raise AssertionError unless `c` holds `a + b`; poison `c` again for the next competitor."""
    expected = arrays.a.double() + arrays.b.double()
    torch.testing.assert_close(arrays.c.double(), expected, rtol=1.2e-7, atol=0.0)
    arrays.c.fill_(float("nan"))
    torch.cuda.synchronize()


def architecture() -> str:
    """The current device's real architecture, such as `sm_90`."""
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def nvrtc_options() -> list[str]:
    """What every NVRTC user here is asked to pass on: `--no-cache` where NVRTC knows it.

    run.py sets the variable; NVRTC has had a compile cache of its own since 12.9, and with it
    a 'cold' compile would not be one.
    """
    return os.environ.get("BENCH_NVRTC_OPTIONS", "").split()
