"""Dimensions of strided arrays, merged and ordered for a kernel."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def collapse(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """The fewest dimensions that describe the same elements, the innermost first.

    Args:
        shape: of all arrays alike.
        strides: of each array, in elements. The first array's decide the order.

    Returns:
        The sizes, and each array's strides over them. One dimension at least.

    >>> collapse((2, 3, 4), [(12, 4, 1)])
    ([24], [[1]])
    >>> collapse((2, 3), [(1, 2), (0, 1)])
    ([2, 3], [[1, 2], [0, 1]])
    """
    dims = [dim for dim, size in enumerate(shape) if size != 1]
    dims.sort(key=lambda dim: [abs(array[dim]) for array in strides] + [-dim])
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in strides]
    for dim in dims:
        fits = sizes and all(
            array[dim] == mine[-1] * sizes[-1] for array, mine in zip(strides, merged, strict=True)
        )
        if fits:
            sizes[-1] *= shape[dim]
            continue
        sizes.append(shape[dim])
        for array, mine in zip(strides, merged, strict=True):
            mine.append(array[dim])
    if not sizes:
        return [1], [[1] for _ in strides]
    return sizes, merged


def layout(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> bytes:
    """The bytes of a `Layout<Dims, Arrays>` of kernels/layout.cuh."""
    numbers = [*sizes, *(stride for array in strides for stride in array)]
    return struct.pack(f"{len(numbers)}q", *numbers)


def index_type(elements: int) -> str:
    """The C++ type that numbers this many elements; the narrow one divides faster."""
    return "unsigned" if elements < 1 << 31 else "unsigned long long"
