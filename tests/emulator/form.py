"""One small kernel for each form of a PTX instruction, and the inputs that it is run on.

A form is a line of PTX with `$d $e $f $g` for its results, `$a $b $c $x` for its operands, one of
each a thread, and `$p $q` for what the C++ around it supplies. Inputs follow from the instruction
and the kinds of its operands.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[Any]

COUNT = 256  # elements, and threads, of a form
BLOCK = 128
GROUP = 40  # forms in one source

# What a register of each class is in C++, and the integer that holds its pattern.
CPP = {"h": "short", "r": "int", "l": "long long", "f": "float", "d": "double"}
PATTERN = {"h": np.uint16, "r": np.uint32, "l": np.uint64, "f": np.uint32, "d": np.uint64}
TORCH = {"h": np.int16, "r": np.int32, "l": np.int64, "f": np.float32, "d": np.float64}


@dataclass(frozen=True)
class Bound:
    """How far an answer may be from the exact one: the largest of the three counts."""

    ulp: float = 0.0
    relative: float = 0.0
    absolute: float = 0.0


@dataclass(frozen=True)
class Form:
    """One form of an instruction.

    Attributes:
        name: unique, and starts as the instruction does.
        text: PTX.
        results: the kind of each result; see KINDS.
        operands: the kind of each operand.
        capability: the least compute capability, as 10 * major + minor.
        bound: what the manual allows; exact if None.
        nan_bits: a NaN must have the recorded pattern; else any NaN will do.
        setup: C++ before the PTX, which may name and change the operands a, b, c, x.
        after: C++ behind it, which may set the results d, e, f, g.
        extra: constraint and C++ expression of each of $p and $q.
        globals_: C++ outside the kernel.
    """

    name: str
    text: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    capability: int = 80
    bound: Bound | None = None
    nan_bits: bool = False
    setup: str = ""
    after: str = ""
    extra: tuple[tuple[str, str], ...] = ()
    globals_: str = ""

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return "form_" + re.sub(r"\W+", "_", self.name).strip("_")

    @cached_property
    def source(self) -> str:
        """The kernel's CUDA C++."""
        result = KINDS[self.results[0]].register
        classes = [KINDS[kind].register for kind in self.operands]
        named = list(zip("abcx", classes, strict=False))
        parameters = [f"const {CPP[register]}* {name}_" for name, register in named]
        parameters += [f"{CPP[result]}* r", "int n"]
        outputs = "defg"[: len(self.results)]
        asm_outputs = [name for name in outputs if f"${name}" in self.text]
        asm_inputs = [(register, name) for name, register in named if f"${name}" in self.text]
        places = asm_outputs + [name for _, name in asm_inputs] + list("pq"[: len(self.extra)])
        asm = self.text.replace("%", "%%")
        asm = re.sub(r"\$([a-z])\b", lambda found: f"%{places.index(found[1])}", asm)
        inputs = [f'"{code}"({value})' for code, value in [*asm_inputs, *self.extra]]
        lines = [
            f'extern "C" __global__ void {self.kernel}({", ".join(parameters)}) {{',
            "  const int i = blockIdx.x * blockDim.x + threadIdx.x;",
            "  if (i >= n) return;",
            *(
                f"  [[maybe_unused]] {CPP[register]} {name} = {name}_[i];"
                for name, register in named
            ),
            *(f"  {CPP[result]} {name} = 0;" for name in outputs),
            *([f"  {self.setup}"] if self.setup else []),
            f'  asm volatile("{{ {asm} }}"',
            "               : " + ", ".join(f'"={result}"({name})' for name in asm_outputs),
            "               : " + ", ".join(inputs) + ' : "memory");',
            *([f"  {self.after}"] if self.after else []),
            *(f"  r[{len(outputs)} * i + {k}] = {name};" for k, name in enumerate(outputs)),
            "}",
        ]
        return "\n".join([*([self.globals_] if self.globals_ else []), *lines])

    @cached_property
    def inputs(self) -> list[Bits]:
        """The patterns of each operand, COUNT of them."""
        # Those of one instruction share their inputs: their answers, much alike, pack well.
        rng = Random(" ".join([self.name.partition(".")[0], *self.operands]))
        kinds = [KINDS[kind] for kind in self.operands]
        cross = _cross([kind.edges for kind in kinds], rng)
        rest = COUNT - len(cross[0])
        columns = [
            np.concatenate([edges, kind.draw(rng, rest)]).astype(PATTERN[kind.register])
            for edges, kind in zip(cross, kinds, strict=True)
        ]
        if self.name.startswith(("fma", "mad")) and self.operands[0] in _FLOATS:
            _cancel(columns, _FLOATS[self.operands[0]])
        return columns

    @property
    def digest(self) -> int:
        """What the answers depend on: the kernel and its inputs."""
        seen = zlib.crc32(self.source.encode())
        for column in self.inputs:
            seen = zlib.crc32(column.tobytes(), seen)
        return seen

    def run(self, module: Any, device: str) -> Bits:
        """The patterns of the results, one row a thread. Raises what the launch raises."""
        import torch

        registers = [KINDS[kind].register for kind in self.operands]
        tensors = [
            torch.from_numpy(column.view(TORCH[register]).copy()).to(device)
            for column, register in zip(self.inputs, registers, strict=True)
        ]
        result = KINDS[self.results[0]].register
        shape = (COUNT, len(self.results))
        output = torch.from_numpy(np.zeros(shape, TORCH[result])).to(device)
        launch = module.kernel(self.kernel)[COUNT // BLOCK, BLOCK]
        launch(*tensors, output, COUNT)
        return output.cpu().numpy().view(PATTERN[result])


class Random:
    """Numbers that are the same under every version of numpy, which default_rng's are not."""

    def __init__(self, seed: str) -> None:
        self._raw: Any = np.random.PCG64(zlib.crc32(seed.encode()))

    def bits(self, count: int, width: int = 64) -> Bits:
        """Patterns of some width."""
        raw: Bits = self._raw.random_raw(count)
        bits: Bits = (raw >> np.uint64(64 - width)).astype(f"u{width // 8}")
        return bits

    def between(self, low: int, high: int, count: int) -> NDArray[np.int64]:
        """Integers, both ends included."""
        offsets: NDArray[np.int64] = (self.bits(count, 32) % np.uint32(high - low + 1)).astype(
            np.int64
        )
        return low + offsets

    def uniform(self, low: float, high: float, count: int) -> NDArray[np.float64]:
        """Real numbers."""
        unit: NDArray[np.float64] = (self.bits(count) >> np.uint64(11)).astype(np.float64) / 2.0**53
        return low + (high - low) * unit

    def choice(self, values: Bits, count: int) -> Bits:
        """Some of these values, which may come again."""
        return values[self.between(0, len(values) - 1, count)]

    def permuted(self, values: Bits) -> Bits:
        """These values in another order."""
        return values[np.argsort(self.bits(len(values)), kind="stable")]


def make_module(forms: Sequence[Form], architecture: str | None = None) -> Any:
    """The cudademo.Module of some forms, compiled together."""
    import cudademo

    return cudademo.module(
        "\n\n".join(form.source for form in forms),
        architecture=architecture,
        kernels=[form.kernel for form in forms],
    )


def _cross(edges: list[Bits], rng: Random) -> list[Bits]:
    """Combinations of edge values: the first ones of each fully, and of the others a sample."""
    if not all(len(column) for column in edges):
        return [column[:0] for column in edges]
    if len(edges) == 1:
        return [edges[0][:192]]
    first = {2: 8, 3: 4}.get(len(edges), 3)
    grids = np.meshgrid(*(column[:first] for column in edges), indexing="ij")
    sample = 112 - grids[0].size
    return [
        np.concatenate([grid.ravel(), rng.choice(column, sample)])
        for grid, column in zip(grids, edges, strict=True)
    ]


def _cancel(columns: list[Bits], real: Any) -> None:
    """Let the third operand nearly undo the product of the others, in an eighth of the elements."""
    a, b, c = (column.view(real)[-COUNT // 8 :] for column in columns)
    with np.errstate(all="ignore"):
        product = -(a * b)
    c[:] = np.where(np.isnan(product), c, product)


# Kinds of operands and results.


@dataclass(frozen=True)
class Kind:
    """What an operand is: its register class, its edge values, and how others are drawn."""

    register: str
    edges: Bits
    draw: Callable[[Random, int], Bits]


_FLOATS: dict[str, type] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def _patterns(values: Iterable[int], width: int) -> Bits:
    mask = (1 << width) - 1
    distinct = dict.fromkeys(value & mask for value in values)
    return np.array(list(distinct), np.uint64).astype(f"u{max(width, 8) // 8}")


def _integer(register: str, width: int, narrow: int | None = None) -> Kind:
    """Integers of some width; `narrow` is that of the part of the register that counts."""
    part = narrow or width
    least, most = -(1 << (part - 1)), (1 << (part - 1)) - 1
    values = [0, 1, -1, least, most, 2, -2, most - 1, least + 1, 3, 7, 10, -10, part - 1, part]
    values += [0x5555555555555555, 0x3333333333333333, -0x5555555555555556, 0x0123456789ABCDEF]
    for power in (16, 8, 4, 15, 24, 31, 32, 33, 48, 62, 63, 5, 12, 20, 28, 40, 56):
        if power < part:
            values += [1 << power, (1 << power) - 1, -(1 << power), (1 << power) + 1]

    def draw(rng: Random, count: int) -> Bits:
        bits = rng.bits(count, width)
        small = rng.between(0, 6, count).astype(bits.dtype)
        sign = rng.between(0, 1, count)
        shifted = (bits >> rng.between(0, width - 1, count).astype(bits.dtype)) + small
        signed = np.where(sign == 1, ~shifted, shifted)
        return np.where(np.arange(count) % 2 == 0, bits, signed)

    return Kind(register, _patterns(values, width), draw)


def _range(register: str, values: Iterable[int], low: int, high: int) -> Kind:
    """Small integers, `low` to `high` at random."""
    width = 8 * np.dtype(PATTERN[register]).itemsize

    def draw(rng: Random, count: int) -> Bits:
        return rng.between(low, high, count).astype(f"u{width // 8}")

    return Kind(register, _patterns(values, width), draw)


def _float_edges(real: Any) -> Bits:
    info = np.finfo(real)
    tiny, least, most = info.smallest_normal, info.smallest_subnormal, info.max
    unit = 2.0**info.nmant
    first = [0.0, -1.0, np.inf, np.nan, -0.0, 1.0, -np.inf, least]
    first += [-least, tiny - least, least - tiny, tiny, -tiny, most, -most, 2 * least, 3 * least]
    first += [0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, 2.0, 3.0, 1 / 3, np.pi, 10.0, -10.0]
    first += [1 + 1 / unit, 1 - 0.5 / unit, -1 - 1 / unit, unit, unit + 1, unit / 2 + 0.5, 2 * unit]
    limits = [126.5, 127.0, 127.5, 128.0, 128.5, 254.5, 255.0, 255.5, 256.0, 32767.0, 32767.5]
    limits += [32768.0, 32769.0, 65504.0, 65519.0, 65520.0, 65535.0, 65535.5, 65536.0]
    limits += [448.0, 464.0, 480.0, 57344.0, 61440.0, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25]
    limits += [2.0**-14, 2.0**-9, 2.0**-10, 2.0**-16, 2.0**-17]
    for power in (31, 32, 63, 64):
        limits += (
            [2.0**power, float(np.nextafter(real(2.0**power), real(0)))]
            if (power < info.maxexp)
            else []
        )
    if real is np.float64:
        limits += [2.0**31 - 0.5, 2.0**31 - 1, 2.0**32 - 0.5, 2.0**32 - 1, 2.0**128, 2.0**-126]
        limits += [2.0**128 - 2.0**103, 2.0**128 - 2.0**104, 2.0**-149, 2.0**-150, 1.1 * 2.0**-150]
        limits += [1 + 2.0**-24, 1 + 3 * 2.0**-24, 1 + 2.0**-24 + 2.0**-50, 1 + 2.0**-11]
    if real is np.float32:
        limits += [1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-12]
    with np.errstate(all="ignore"):
        values = np.array([*first, *(sign * value for value in limits for sign in (1, -1))], real)
    bits = values.view(f"u{values.itemsize}")
    exponent = int(np.array(np.inf, real).view(bits.dtype))
    top = 1 << (8 * values.itemsize - 1)
    # NaN with payloads: quiet, signalling, negative.
    others = [exponent | exponent >> 1 | 5, exponent | 1, top | exponent | 3, top | 2 * top - 1]
    numbers = [int(value) for value in bits]
    return _patterns([*numbers[:17], *others, *numbers[17:]], 8 * values.itemsize)


def _float(register: str, real: Any) -> Kind:
    width = 8 * np.dtype(real).itemsize

    def draw(rng: Random, count: int) -> Bits:
        bits = rng.bits(count, width)
        spread = 2.0 ** rng.between(-6, 8, count)
        ordinary = (rng.uniform(-2, 2, count) * spread).astype(real).view(bits.dtype)
        return np.where(np.arange(count) % 2 == 0, bits, ordinary)

    return Kind(register, _float_edges(real), draw)


def _bfloat(register: str) -> Kind:
    whole = _float("f", np.float32)
    rounding = [
        (int(bits) >> 16) | (0x0040 if int(bits) & 0x7FFFFFFF > 0x7F800000 else 0)
        for bits in whole.edges
    ]
    edges = _patterns([*rounding, 1, 0x8001, 0x7F, 0x807F, 0x80, 0x7F7F, 0xFF7F], 16)
    return Kind(
        register, edges, lambda rng, count: (whole.draw(rng, count) >> 16).astype(np.uint16)
    )


def _pair(half: Kind) -> Kind:
    """Two of a 16-bit kind in one 32-bit register."""
    low = half.edges.astype(np.uint32)
    high = np.roll(low, -1)

    def draw(rng: Random, count: int) -> Bits:
        upper = rng.permuted(half.draw(rng, count)).astype(np.uint32)
        return half.draw(rng, count).astype(np.uint32) | upper << 16

    return Kind("r", np.concatenate([low | high << 16, low | low << 16]), draw)


def _interval(real: Any, low: float, high: float, specials: Sequence[float]) -> Kind:
    """Numbers of an interval, evenly, after some given ones."""
    values = np.array(specials, real)
    bits = values.view(f"u{values.itemsize}")

    def draw(rng: Random, count: int) -> Bits:
        numbers = rng.uniform(low, high, count).astype(real)
        return numbers.view(bits.dtype)

    register = {2: "h", 4: "f", 8: "d"}[values.itemsize]
    return Kind(register, bits, draw)


def _divisor() -> Kind:
    """Those for which div.approx has a bound, or an exact answer."""
    edges = [1.0, -1.0, 3.0, np.inf, -np.inf, np.nan, 0.0, -0.0, 2.0**126, 2.0**-126, -(2.0**-126)]
    edges += [1.5 * 2.0**126, -1.9 * 2.0**127, 10.0, 0.1, 7.0, np.pi, 2.0**125, 2.0**-125]

    def draw(rng: Random, count: int) -> Bits:
        power = np.where(np.arange(count) % 2 == 0, rng.between(-125, 124, count), 0)
        sign = 1 - 2 * rng.between(0, 1, count)
        return (sign * rng.uniform(1, 2, count) * 2.0**power).astype(np.float32).view(np.uint32)

    return Kind("f", np.array(edges, np.float32).view(np.uint32), draw)


def _bytes_pair() -> Kind:
    """Two 8-bit numbers; over the elements each takes every pattern."""
    low = np.arange(256, dtype=np.uint16)

    def draw(rng: Random, count: int) -> Bits:
        upper = rng.permuted(low)
        return np.resize(np.roll(low, -160) | upper << 8, count)

    return Kind("h", low | low[::-1] << 8, draw)


def _by_warp(draw_warp: Callable[[Random, int], Bits], dtype: type = np.uint32) -> Kind:
    """Values of which each warp draws its 32 in its own way; the number of the warp is given."""

    def draw(rng: Random, count: int) -> Bits:
        return np.concatenate([draw_warp(rng, warp) for warp in range(count // 32)]).astype(dtype)

    return Kind("r" if dtype is np.uint32 else "l", np.zeros(0, dtype), draw)


def _votes(rng: Random, warp: int) -> Bits:
    one = np.zeros(32, np.uint32)
    one[rng.between(0, 31, 1)] = 1
    return [one * 0, one * 0 + 1, one, 1 - one][warp] if warp < 4 else rng.bits(32, 32) & 1


def _few(rng: Random, warp: int) -> Bits:
    some = rng.bits(4)
    return np.full(32, some[0]) if warp % 4 == 0 else rng.choice(some[: 1 + warp % 4], 32)


_ANGLES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1.0, -1.0, 0.5, 1.5707964, -1.5707964]
_EXPONENTS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 10.0, -10.0, 0.25, 3.75]
_S16, _F16, _BF16 = _integer("h", 16), _float("h", np.float16), _bfloat("h")
_SHIFTS = [0, 1, 31, 32, 33, 15, 16, 17, 63, 64, 65, 255, 256, 0xFFFFFFFF, 0x80000000, 7, 8, 24]

KINDS = {
    **{kind: _integer("r", 32, 8) for kind in ("s8", "u8")},
    **dict.fromkeys(("s16", "u16", "b16"), _S16),
    **{kind: _integer("r", 32) for kind in ("s32", "u32", "b32")},
    **{kind: _integer("l", 64) for kind in ("s64", "u64", "b64")},
    **{kind: _pair(_S16) for kind in ("s16x2", "u16x2")},
    **{kind: _bytes_pair() for kind in ("e4m3x2", "e5m2x2")},
    "f16": _F16,
    "bf16": _BF16,
    "f16x2": _pair(_F16),
    "bf16x2": _pair(_BF16),
    "f32": _float("f", np.float32),
    "f64": _float("d", np.float64),
    "tf32": _integer("r", 32),
    "count": _range("r", _SHIFTS, 0, 70),
    "lane": _range("r", [0, 1, 31, 32, 16, 15, 7, 8, 5, 33], 0, 34),
    "base": _range("r", [0, 31, 1, 16, 30, 15], 0, 31),
    "nth": _range("r", [1, 0, -1, 2, -2, 31, 32, 33, -32, 8], -20, 20),
    "flag": _range("r", [0, 1], 0, 1),
    "vote": _by_warp(_votes),
    "few32": _by_warp(_few),
    "few64": _by_warp(_few, np.uint64),
    "angle": _interval(np.float32, -2 * np.pi, 2 * np.pi, _ANGLES),
    "wide angle": _interval(np.float32, -100 * np.pi, 100 * np.pi, _ANGLES),
    "exponent": _interval(
        np.float32, -140, 130, [*_EXPONENTS, 128.0, -126.0, 200.0, -200.0, 1e-40]
    ),
    "slope": _interval(np.float32, -6, 6, [*_EXPONENTS, 1e-40, -1e-40, 1e-3, 100.0, 0.1]),
    "exponent16": _interval(np.float16, -13, 15, [*_EXPONENTS, 6e-8]),
    "slope16": _interval(np.float16, -4, 4, [*_EXPONENTS, 6e-8, -6e-8, 1e-3, 100.0, 0.1]),
    "divisor": _divisor(),
}
for _name in ("exponent16", "slope16"):
    KINDS[_name + "x2"] = _pair(KINDS[_name])

# What families of forms write with.

PREDICATES = ".reg .pred p, q, t; "
ONE = "selp.b32 $d, 1, 0, p;"  # the result is p
TWO = "selp.b32 $d, 1, 0, p; @q or.b32 $d, $d, 2;"  # the result is p, and q above it
SHARED = "(unsigned)__cvta_generic_to_shared(&{})"
GLOBAL = "__cvta_generic_to_global({})"


def plain(name: str, result: str, *operands: str, **more: Any) -> Form:
    """A form with one result, its operands in order."""
    places = ", ".join("$" + place for place in "dabcx"[: len(operands) + 1])
    return Form(name, f"{name} {places};", (result,), operands, **more)


def groups(forms: Iterable[Form]) -> Iterator[list[Form]]:
    """The forms in lots that are compiled together, those of one compute capability each."""
    lots: dict[int, list[Form]] = {}
    for form in forms:
        lots.setdefault(form.capability, []).append(form)
    for _, lot in sorted(lots.items()):
        for start in range(0, len(lot), GROUP):
            yield lot[start : start + GROUP]
