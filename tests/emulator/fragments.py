"""How mma divides its matrices among the lanes of a warp, after the PTX manual's tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[Any]
# From a lane's group (lane / 4), its place there (lane % 4) and an element's number to its place.
Layout = Callable[[int, int, int], tuple[int, int]]

WIDTHS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8,
    "s8": 8, "u8": 8, "s4": 4, "u4": 4, "s32": 32,
}  # fmt: skip


class Layouts(NamedTuple):
    """Of the operands of one shape, and how many elements a lane has of each."""

    a: Layout
    a_count: int
    b: Layout
    b_count: int


LAYOUTS = {
    ("m16n8k8", 16): Layouts(
        lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)), 4,
        lambda g, t, i: (t * 2 + i, g), 2,
    ),
    ("m16n8k16", 16): Layouts(
        lambda g, t, i: (
            g if i < 2 or 4 <= i < 6 else g + 8, t * 2 + (i & 1) + (8 if i >= 4 else 0),
        ), 8,
        lambda g, t, i: (t * 2 + (i & 1) + (8 if i >= 2 else 0), g), 4,
    ),
    ("m16n8k4", 32): Layouts(
        lambda g, t, i: (g if i == 0 else g + 8, t), 2, lambda g, t, i: (t, g), 1
    ),
    ("m16n8k8", 32): Layouts(
        lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4), 4,
        lambda g, t, i: (t if i == 0 else t + 4, g), 2,
    ),
    ("m8n8k4", 64): Layouts(lambda g, t, i: (g, t), 1, lambda g, t, i: (t, g), 1),
    ("m16n8k4", 64): Layouts(
        lambda g, t, i: (g if i == 0 else g + 8, t), 2, lambda g, t, i: (t, g), 1
    ),
    ("m16n8k8", 64): Layouts(
        lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4), 4,
        lambda g, t, i: (t if i == 0 else t + 4, g), 2,
    ),
    ("m16n8k16", 64): Layouts(
        lambda g, t, i: (g, i * 2 + t) if i % 2 == 0 else (g + 8, i * 2 - 2 + t), 8,
        lambda g, t, i: (t + 4 * i, g), 4,
    ),
    ("m8n8k16", 8): Layouts(
        lambda g, t, i: (g, t * 4 + i), 4, lambda g, t, i: (t * 4 + i, g), 4
    ),
    ("m16n8k16", 8): Layouts(
        lambda g, t, i: (g if i < 4 else g + 8, t * 4 + (i & 3)), 8,
        lambda g, t, i: (t * 4 + i, g), 4,
    ),
    ("m16n8k32", 8): Layouts(
        lambda g, t, i: (
            g if i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (16 if i >= 8 else 0),
        ), 16,
        lambda g, t, i: (t * 4 + (i & 3) + (16 if i >= 4 else 0), g), 8,
    ),
    ("m8n8k32", 4): Layouts(
        lambda g, t, i: (g, t * 8 + i), 8, lambda g, t, i: (t * 8 + i, g), 8
    ),
    ("m16n8k32", 4): Layouts(
        lambda g, t, i: (g if i < 8 else g + 8, t * 8 + (i & 7)), 16,
        lambda g, t, i: (t * 8 + i, g), 8,
    ),
    ("m16n8k64", 4): Layouts(
        lambda g, t, i: (
            g if i < 8 or 16 <= i < 24 else g + 8, t * 8 + (i & 7) + (32 if i >= 16 else 0),
        ), 32,
        lambda g, t, i: (t * 8 + (i & 7) + (32 if i >= 8 else 0), g), 16,
    ),
}  # fmt: skip


def extents(shape: str) -> tuple[int, int, int]:
    """The m, n and k of "m16n8k8"."""
    m, _, rest = shape[1:].partition("n")
    n, _, k = rest.partition("k")
    return int(m), int(n), int(k)


def accumulator(g: int, t: int, i: int) -> tuple[int, int]:
    """Where element `i` of a lane's part of the result lies."""
    return g if i < 2 else g + 8, t * 2 + (i & 1)


def layout_of(part: str, shape: str, kind: str) -> tuple[Layout, int, tuple[int, int]]:
    """The layout of "a", "b" or "c", a lane's elements, and the matrix's extents."""
    m, n, k = extents(shape)
    if part == "c":
        return accumulator, m * n // 32, (m, n)
    layouts = LAYOUTS[shape, WIDTHS[kind]]
    if part == "a":
        return layouts.a, layouts.a_count, (m, k)
    return layouts.b, layouts.b_count, (k, n)


def to_registers(part: str, shape: str, kind: str, patterns: Bits) -> Bits:
    """The registers of each lane, one row a lane, for a matrix of elements' patterns."""
    layout, count, _ = layout_of(part, shape, kind)
    width = WIDTHS[kind]
    each = max(32 // width, 1)
    made = np.zeros((32, count // each), np.uint64 if width == 64 else np.uint32)
    for lane in range(32):
        for i in range(count):
            bits = int(patterns[layout(lane // 4, lane % 4, i)]) & ((1 << width) - 1)
            made[lane, i // each] |= made.dtype.type(bits << (i % each * width))
    return made


def from_registers(part: str, shape: str, kind: str, registers: Bits) -> Bits:
    """The matrix of elements' patterns that these registers hold."""
    layout, count, matrix = layout_of(part, shape, kind)
    width = WIDTHS[kind]
    each = max(32 // width, 1)
    made = np.zeros(matrix, np.uint64)
    for lane in range(32):
        for i in range(count):
            word = int(registers[lane, i // each])
            made[layout(lane // 4, lane % 4, i)] = word >> (i % each * width) & ((1 << width) - 1)
    return made
