"""Forms of the matrix instructions, and of the asynchronous copies and barriers.

Most inputs are small integers, of which every sum is exact in whatever order hardware adds them;
the others have a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from form import BLOCK, GLOBAL, KINDS, PREDICATES, SHARED, Bits, Bound, Form, Kind, Random

_ALL = "0x1f, 0xffffffff"


def _small(real: Any, limit: int) -> Callable[[Random, int], Bits]:
    def draw(rng: Random, count: int) -> Bits:
        numbers = rng.between(-limit, limit, count).astype(real)
        return numbers.view(f"u{numbers.itemsize}")

    return draw


def _unit(real: Any) -> Callable[[Random, int], Bits]:
    def draw(rng: Random, count: int) -> Bits:
        numbers = rng.uniform(-1, 1, count).astype(real)
        return numbers.view(f"u{numbers.itemsize}")

    return draw


def _upper_half(draw: Callable[[Random, int], Bits]) -> Callable[[Random, int], Bits]:
    """bf16 from f32: exact for small integers."""
    return lambda rng, count: (draw(rng, count) >> 16).astype(np.uint16)


def _fp8(fraction: int, limit: int) -> Callable[[Random, int], Bits]:
    """Integers in e4m3 (of 3 bits of fraction) or e5m2 (of 2), from the upper bits of f16."""

    def draw(rng: Random, count: int) -> Bits:
        numbers = rng.between(-limit, limit, count).astype(np.float16).view(np.uint16)
        if fraction == 2:
            return (numbers >> 8).astype(np.uint8)
        sign = numbers >> 8 & 0x80
        magnitude = numbers & 0x7FFF
        moved = np.where(magnitude == 0, 0, (magnitude >> 7) - (8 << 3))  # the bias is 7, not 15
        return (sign | moved).astype(np.uint8)

    return draw


def _packed(draw: Callable[[Random, int], Bits], each: int) -> Kind:
    """Some numbers in one 32-bit register."""

    def packed(rng: Random, count: int) -> Bits:
        parts = draw(rng, count * each)
        return parts.view(np.uint32)

    return Kind("r", np.zeros(0, np.uint32), packed)


def _single(register: str, draw: Callable[[Random, int], Bits]) -> Kind:
    width = {"r": np.uint32, "f": np.uint32, "d": np.uint64}[register]
    return Kind(register, np.zeros(0, width), draw)


KINDS.update({
    "small f16x2": _packed(_small(np.float16, 8), 2),
    "small bf16x2": _packed(_upper_half(_small(np.float32, 8)), 2),
    "small tf32": _single("r", _small(np.float32, 8)),
    "small e4m3x4": _packed(_fp8(3, 8), 4),
    "small e5m2x4": _packed(_fp8(2, 4), 4),
    "small f32": _single("f", _small(np.float32, 8)),
    "small f64": _single("d", _small(np.float64, 8)),
    "unit f16x2": _packed(_unit(np.float16), 2),
    "unit bf16x2": _packed(_upper_half(_unit(np.float32)), 2),
    "unit tf32": _single("r", lambda rng, count: _unit(np.float32)(rng, count) & 0xFFFFE000),
    "unit f32": _single("f", _unit(np.float32)),
    "unit f64": _single("d", _unit(np.float64)),
    "bytes": _single("r", lambda rng, count: rng.bits(count, 32)),
})  # fmt: skip


def _spread(name: str, place: str, kind: str, count: int) -> tuple[str, str]:
    """PTX that fills `count` registers from one, of other lanes; and the list of them."""
    bits = "f64" if KINDS[kind].register == "d" else "b32"
    registers = [f"{name}{i}" for i in range(count)]
    text = f".reg .{bits} {name}<{count}>; mov.{bits} {name}0, {place}; "
    for i in range(1, count):
        if bits == "b32":
            text += f"shfl.sync.bfly.b32 {name}{i}, {place}, {(5 * i) % 32}, {_ALL}; "
        elif i % 2:
            text += f"neg.f64 {name}{i}, {name}{i - 1}; "
        else:
            text += f"add.f64 {name}{i}, {name}{i - 1}, {name}{i - 1}; "
    return text, "{" + ", ".join(registers) + "}"


def _mma(
    shape: str, kinds: str, inputs: tuple[str, str, str], counts: tuple[int, int, int, int],
    more: str = "", **extra: Any,
) -> Form:  # fmt: skip
    """A product. `counts` are the registers of a, b, c and the result."""
    parts = [
        _spread("r" + place, "$" + place, kind, count)
        for place, kind, count in zip("abc", inputs, counts, strict=False)
    ]
    targets = "{" + ", ".join("$" + name for name in "defg"[: counts[3]]) + "}"
    operation = f"mma.sync.aligned.{shape}.row.col.{kinds}{more}"
    lists = ", ".join([targets, *(names for _, names in parts)])
    result = {"f16": "f16x2"}.get(kinds.partition(".")[0], kinds.partition(".")[0])
    name = f"{operation} {inputs[0].partition(' ')[0]}"
    text = "".join(text for text, _ in parts) + f"{operation} {lists};"
    return Form(name, text, (result,) * counts[3], inputs, **extra)


def products() -> Iterator[Form]:
    """Forms of mma."""
    for shape, a, b in (("m16n8k8", 2, 1), ("m16n8k16", 4, 2)):
        for size in ("small", "unit"):
            near = None if size == "small" else Bound(absolute=2.0**-17)
            rough = None if size == "small" else Bound(absolute=2.0**-7)
            for kind in ("f16", "bf16"):
                pair = f"{size} {kind}x2"
                inputs = (pair, pair, f"{size} f32")
                yield _mma(shape, f"f32.{kind}.{kind}.f32", inputs, (a, b, 4, 4), bound=near)
            pair = f"{size} f16x2"
            yield _mma(shape, "f16.f16.f16.f16", (pair,) * 3, (a, b, 2, 2), bound=rough)
    for shape, a, b in (("m16n8k4", 2, 1), ("m16n8k8", 4, 2)):
        for size in ("small", "unit"):
            near = None if size == "small" else Bound(absolute=2.0**-17)
            inputs = (f"{size} tf32", f"{size} tf32", f"{size} f32")
            yield _mma(shape, "f32.tf32.tf32.f32", inputs, (a, b, 4, 4), bound=near)
    for shape, a, b, c in (
        ("m8n8k4", 1, 1, 2), ("m16n8k4", 2, 1, 4), ("m16n8k8", 4, 2, 4), ("m16n8k16", 8, 4, 4),
    ):  # fmt: skip
        capability = 80 if shape == "m8n8k4" else 90
        for size in ("small", "unit"):
            near = None if size == "small" else Bound(absolute=2.0**-44)
            inputs = (f"{size} f64",) * 3
            yield _mma(
                shape, "f64.f64.f64.f64", inputs, (a, b, c, c), bound=near, capability=capability
            )
    for shape, a, b, c in (("m8n8k16", 1, 1, 2), ("m16n8k16", 2, 1, 4), ("m16n8k32", 4, 2, 4)):
        for left in ("s8", "u8"):
            for right in ("s8", "u8"):
                for more in ("", ".satfinite"):
                    inputs = ("bytes", "bytes", "s32")
                    yield _mma(shape, f"s32.{left}.{right}.s32", inputs, (a, b, c, c), more)
    for shape, a, b, c in (("m8n8k32", 1, 1, 2), ("m16n8k32", 2, 1, 4), ("m16n8k64", 4, 2, 4)):
        for left in ("s4", "u4"):
            inputs = ("bytes", "bytes", "s32")
            yield _mma(shape, f"s32.{left}.s4.s32", inputs, (a, b, c, c))
    for left in ("e4m3", "e5m2"):
        for right in ("e4m3", "e5m2"):
            inputs = (f"small {left}x4", f"small {right}x4", "small f32")
            kinds = f"f32.{left}.{right}.f32"
            yield _mma("m16n8k32", kinds, inputs, (4, 2, 4, 4), capability=90)
    for a_layout in ("row", "col"):
        for b_layout in ("row", "col"):
            parts = [
                _spread("r" + p, "$" + p, "small f16x2", n)
                for p, n in zip("abc", (2, 2, 4), strict=True)
            ]
            name = f"mma.sync.aligned.m8n8k4.{a_layout}.{b_layout}.f16.f16.f16.f16"
            lists = ", ".join(["{$d, $e, $f, $g}", *(names for _, names in parts)])
            text = "".join(text for text, _ in parts) + f"{name} {lists};"
            yield Form(name, text, ("f16x2",) * 4, ("small f16x2",) * 3)


def moves() -> Iterator[Form]:
    """Forms of ldmatrix, stmatrix, movmatrix, and of wmma as a whole."""
    name = "movmatrix.sync.aligned.m8n8.trans.b16"
    yield Form(name, f"{name} $d, $a;", ("b32",), ("b32",))
    # Each lane writes the 16 bytes of a row, and gives the address of another lane's.
    rows = (
        f"__shared__ alignas(16) int rows[{BLOCK} * 4]; int* row = rows + threadIdx.x * 4; "
        "row[0] = a; row[1] = b; row[2] = a ^ b; row[3] = ~a; __syncwarp();"
    )
    address = ("r", SHARED.format("rows[(threadIdx.x ^ 13) * 4]"))
    for count, targets in ((1, "{$d}"), (2, "{$d, $e}"), (4, "{$d, $e, $f, $g}")):
        for more in ("", ".trans"):
            name = f"ldmatrix.sync.aligned.m8n8.x{count}{more}.shared.b16"
            yield Form(
                name, f"{name} {targets}, [$p];", ("b32",) * count, ("b32", "b32"), setup=rows,
                extra=(address,),
            )  # fmt: skip
    for count, values in ((1, "{$a}"), (2, "{$a, $b}"), (4, "{$a, $b, $c, $x}")):
        for more in ("", ".trans"):
            name = f"stmatrix.sync.aligned.m8n8.x{count}{more}.shared.b16"
            yield Form(
                name, f"{name} [$p], {values};", ("b32",) * 4, ("b32",) * 4, capability=90,
                setup=f"__shared__ alignas(16) int rows[{BLOCK} * 4]; "
                "int* row = rows + threadIdx.x * 4; "
                "row[0] = row[1] = row[2] = row[3] = 0; __syncwarp();",
                after="__syncwarp(); d = row[0]; e = row[1]; f = row[2]; g = row[3];",
                extra=(address,),
            )  # fmt: skip
    for shape, kind, result, registers, inputs in (
        ("m16n16k16", "f16", "f32", 8, "small f16x2"),
        ("m16n16k16", "bf16", "f32", 4, "small bf16x2"),
        ("m16n16k8", "tf32", "f32", 4, "small tf32"),
        ("m16n16k16", "s8", "s32", 2, "bytes"),
    ):
        for left in ("row", "col"):
            for right in ("row", "col"):
                yield _wmma(shape, kind, result, registers, inputs, left, right)


def _wmma(
    shape: str, kind: str, result: str, registers: int, inputs: str, left: str, right: str
) -> Form:
    """Loads both operands from one tile, and stores the product behind it: half of it is kept."""
    bits = {"f32": "f32", "s32": "b32"}[result]
    a, b, c = (
        "{" + ", ".join(f"{name}{i}" for i in range(count)) + "}"
        for name, count in (("wa", registers), ("wb", registers), ("wc", 8))
    )
    k = 8 if kind == "tf32" else 16
    types = f"{result}.{result}" if kind == "f16" else f"{result}.{kind}.{kind}.{result}"
    text = f".reg .b32 wa<{registers}>, wb<{registers}>; .reg .{bits} wc<8>; "
    text += "".join(f"mov.{bits} wc{i}, {'0f00000000' if bits == 'f32' else 0}; " for i in range(8))
    strides = (k if left == "row" else 16, 16 if right == "row" else k)
    text += (
        f"wmma.load.a.sync.aligned.{left}.{shape}.shared.{kind} {a}, [$p], {strides[0]}; "
        f"wmma.load.b.sync.aligned.{right}.{shape}.shared.{kind} {b}, [$p], {strides[1]}; "
        f"wmma.mma.sync.aligned.{left}.{right}.{shape}.{types} {c}, {a}, {b}, {c}; "
        f"wmma.store.d.sync.aligned.row.{shape}.shared.{result} [$q], {c}, 16;"
    )
    cpp = {"f32": "float", "s32": "int"}[result]
    return Form(
        f"wmma.{left}.{right}.{shape}.{types}",
        text,
        (result,) * 4,
        (inputs,) * 4,
        setup=f"__shared__ alignas(32) int tiles[{BLOCK // 32}][128]; "
        f"__shared__ alignas(32) {cpp} sums[{BLOCK // 32}][256]; "
        "int* tile = tiles[threadIdx.x / 32]; const int lane = threadIdx.x % 32; "
        "tile[lane] = a; tile[lane + 32] = b; tile[lane + 64] = c; tile[lane + 96] = x; "
        f"{cpp}* sum = sums[threadIdx.x / 32]; __syncwarp();",
        after="__syncwarp(); d = sum[lane]; e = sum[lane + 77]; f = sum[lane + 133]; "
        "g = sum[255 - lane];",
        extra=(("r", SHARED.format("*tile")), ("r", SHARED.format("*sum"))),
    )


def copies() -> Iterator[Form]:
    """Forms of cp.async and its waits."""
    cell = (
        f"__shared__ alignas(16) int cells[{BLOCK} * 4]; int* cell = cells + threadIdx.x * 4; "
        "cell[0] = cell[1] = cell[2] = cell[3] = 7;"
    )
    after = "d = cell[0]; e = cell[1]; f = cell[2]; g = cell[3];"
    place = ("r", SHARED.format("*cell"))
    for cache, size, more in (
        ("ca", 4, ""), ("ca", 8, ""), ("ca", 16, ""), ("cg", 16, ""), ("cg", 16, ".L2::128B"),
    ):  # fmt: skip
        name = f"cp.async.{cache}.shared.global{more}"
        source = ("l", GLOBAL.format(f"a_ + (i & ~{size // 4 - 1})"))
        common: dict[str, Any] = {"setup": cell, "after": after, "extra": (place, source)}
        for wait in ("wait_all", "commit_group; cp.async.wait_group 0"):
            text = f"{name} [$p], [$q], {size}; cp.async.{wait};"
            yield Form(f"{name} {size} {wait}", text, ("b32",) * 4, ("b32",), **common)
        text = (
            f".reg .b32 bytes; min.u32 bytes, $b, {size}; "
            f"{name} [$p], [$q], {size}, bytes; cp.async.wait_all;"
        )
        yield Form(f"{name} {size} of some", text, ("b32",) * 4, ("b32", "lane"), **common)
        text = (
            f"{PREDICATES} setp.ne.b32 p, $b, 0; {name} [$p], [$q], {size}, p; cp.async.wait_all;"
        )
        yield Form(f"{name} {size} ignored", text, ("b32",) * 4, ("b32", "flag"), **common)


def barriers() -> Iterator[Form]:
    """Forms of mbarrier: each thread has its own."""
    setup = (
        f"__shared__ alignas(8) unsigned long long barriers[{BLOCK}]; "
        "unsigned long long* barrier = barriers + threadIdx.x;"
    )
    place = ("r", SHARED.format("*barrier"))
    begin = PREDICATES + ".reg .b64 state, later; mbarrier.init.shared.b64 [$p], 3; "
    arrive = "mbarrier.arrive.shared.b64 state, [$p]; "
    count = "mbarrier.pending_count.b64 {}, {}; "
    test = "mbarrier.test_wait.shared.b64 p, [$p], {}; selp.b32 {}, 1, 0, p; "
    parity = "mbarrier.test_wait.parity.shared.b64 p, [$p], {}; selp.b32 {}, 1, 0, p; "
    sequences = {
        "mbarrier.arrive": arrive
        + count.format("$d", "state")
        + "mbarrier.arrive.shared.b64 later, [$p]; "
        + count.format("$e", "later")
        + test.format("state", "$f")
        + "mbarrier.arrive.shared.b64 later, [$p]; "
        + test.format("state", "$g"),
        "mbarrier.arrive.noComplete": "mbarrier.arrive.noComplete.shared.b64 state, [$p], 2; "
        + count.format("$d", "state")
        + "mbarrier.arrive.shared.b64 later, [$p]; "
        + count.format("$e", "later")
        + test.format("state", "$f")
        + "mbarrier.arrive.shared.b64 later, [$p]; "
        + count.format("$g", "later"),
        "mbarrier.arrive_drop": "mbarrier.arrive_drop.shared.b64 state, [$p]; "
        + arrive * 3
        + count.format("$d", "state")
        + arrive
        + count.format("$e", "state")
        + test.format("state", "$f")
        + "mbarrier.arrive.shared.b64 later, [$p]; "
        + count.format("$g", "later"),
        "mbarrier.test_wait.parity": parity.format(0, "$d")
        + parity.format(1, "$e")
        + arrive * 3
        + parity.format(0, "$f")
        + parity.format(1, "$g"),
    }
    for name, text in sequences.items():
        yield Form(name, begin + text, ("b32",) * 4, ("b32",), setup=setup, extra=(place,))
    newer = {
        "mbarrier.arrive count": "mbarrier.arrive.shared::cta.b64 state, [$p], 2; "
        + count.format("$d", "state")
        + "mbarrier.arrive.release.cta.shared::cta.b64 later, [$p], 1; "
        + count.format("$e", "later")
        + "mbarrier.try_wait.shared::cta.b64 p, [$p], state; selp.b32 $f, 1, 0, p; "
        + "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [$p], 0; selp.b32 $g, 1, 0, p;",
        "mbarrier.expect_tx": "mbarrier.arrive.expect_tx.shared::cta.b64 state, [$p], 96; "
        + arrive * 2
        + test.format("state", "$d")
        + "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [$p], 64; "
        + test.format("state", "$e")
        + "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [$p], 32; "
        + test.format("state", "$f")
        + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$p], 16; "
        + arrive
        + count.format("$g", "state"),
    }
    for name, text in newer.items():
        yield Form(
            name, begin + text, ("b32",) * 4, ("b32",), setup=setup, extra=(place,), capability=90
        )
    # A copy that an mbarrier waits for; what it gives is read behind the wait.
    for more, arrivals in (("", 3), (".noinc", 2)):
        text = (
            begin
            + "cp.async.ca.shared.global [$q], [%rd_source], 4; "
            + f"cp.async.mbarrier.arrive{more}.shared.b64 [$p]; "
            + arrive * arrivals
        )
        text = text.replace("%rd_source", "source")
        wait = "again: mbarrier.test_wait.shared.b64 p, [$p], state; @!p bra again; "
        source = ".reg .b64 source; cvta.to.global.u64 source, $b; "
        yield Form(
            f"cp.async.mbarrier.arrive{more}",
            source + text + wait + "ld.shared.b32 $d, [$q];",
            ("b32",),
            ("b32", "b64"),
            setup=f"{setup} __shared__ int cells[{BLOCK}]; b = (long long)(a_ + i);",
            extra=(place, ("r", SHARED.format("cells[threadIdx.x]"))),
        )


def matrix_forms() -> Iterator[Form]:
    """All of them."""
    for family in (products, moves, copies, barriers):
        yield from family()
