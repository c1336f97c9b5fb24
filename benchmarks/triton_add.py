"""The subject kernel in Triton, which reads a kernel's source from its file."""

# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def add_arrays(a, b, c, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(c + i, tl.load(a + i, mask=inside) + tl.load(b + i, mask=inside), mask=inside)
