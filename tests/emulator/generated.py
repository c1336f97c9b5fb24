"""Random CUDA C++ kernels whose every result is defined: integers of all widths, floats whose
rounding is spelt out, branches, loops, switches, local arrays, structs, calls and recursion, shared
memory with barriers, shuffles and votes where all lanes are, and atomics that commute.

A program follows from its number alone. It reads COUNT 64-bit words, and writes as many and four
totals. What C++ leaves open is kept out: sums are of unsigned numbers, shifts and indices are
masked, divisors are never zero, a float becomes an integer only within its range, and a NaN has
no bits.
"""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

COUNT = 128  # threads, and words
BLOCK = 64
GROUP = 10  # programs in one source
NUMBERS = range(100)

PRELUDE = """
using i8 = signed char; using u8 = unsigned char; using i16 = short; using u16 = unsigned short;
using i32 = int; using u32 = unsigned; using i64 = long long; using u64 = unsigned long long;
using f32 = float; using f64 = double;
struct Triple { i32 a; u64 b; i16 c[3]; };
template <typename T> __device__ T over(T a, T b) { return b == 0 || b == T(-1) ? a : a / b; }
template <typename T> __device__ T rest(T a, T b) { return b == 0 || b == T(-1) ? a : a % b; }
__device__ i64 whole(f64 x) { return fabs(x) < 1e15 ? (i64)x : 77; }
template <typename T> __device__ u64 bits(T x) { return (u64)x; }
__device__ u64 bits(f32 x) { return x == x ? __float_as_uint(x) : 1; }
__device__ u64 bits(f64 x) { return x == x ? (u64)__double_as_longlong(x) : 2; }
"""

INTEGERS = {"i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64}
FLOATS = {"f32": "f", "f64": "d"}
TYPES = [*INTEGERS, "i32", "u32", "i64", "u64", *FLOATS]  # the usual ones more often


class _Writer:
    """Writes one program. Names in scope are by type; statements nest up to a depth."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(number)
        self._number = number
        self._names: dict[str, list[str]] = {}
        self._made = 0
        self._calls = True  # functions may be called here
        self._constant: set[str] = set()

    def below(self, bound: int) -> int:
        # Of all that random has, only random() is promised to stay the same.
        return int(self._random.random() * bound)

    def pick(self, choices: Sequence[str]) -> str:
        return choices[self.below(len(choices))]

    # ---- expressions ----

    def literal(self, kind: str) -> str:
        if kind in FLOATS:
            value = (self.below(4001) - 2000) / 2.0 ** self.below(12)
            return f"{kind}({value!r})"
        edges = [0, 1, 2, 3, 7, 31, 127, 128, 255, 32767, 65535, 0x7FFFFFFF, 0x80000000, 2**63 - 1]
        value = edges[self.below(len(edges))] if self.below(2) else self.below(1000)
        return f"{kind}({value}ull)"

    def leaf(self, kind: str) -> str:
        names = self._names.get(kind, [])
        if names and self.below(5):
            return self.pick(names)
        others = [name for other in TYPES for name in self._names.get(other, [])]
        if not others or self.below(4) == 0:
            return self.literal(kind)
        other = self.pick(others)
        source = next(known for known in TYPES if other in self._names.get(known, []))
        return self.cast(kind, source, other)

    def cast(self, to: str, source: str, text: str) -> str:
        if to in INTEGERS and source in FLOATS:
            return f"{to}(whole({text}))"
        return f"{to}({text})"

    def value(self, kind: str, depth: int = 2) -> str:
        if depth == 0 or self.below(6) == 0:
            return self.leaf(kind)
        if kind in FLOATS:
            return self._real(kind, depth)
        return self._integer(kind, depth)

    def _real(self, kind: str, depth: int) -> str:
        a, b, c = (self.value(kind, depth - 1) for _ in range(3))
        letter = FLOATS[kind]
        choice = self.below(8)
        if choice < 3:
            return f"__{letter}{self.pick(['add', 'sub', 'mul'])}_rn({a}, {b})"
        if choice == 3:
            return f"__{'fmaf' if kind == 'f32' else 'fma'}_rn({a}, {b}, {c})"
        if choice == 4:
            return f"({self.condition(depth - 1)} ? {a} : {b})"
        if choice == 5:
            source = self.pick(list(INTEGERS))
            return f"{kind}({self.value(source, depth - 1)})"
        if choice == 6:
            return (
                f"__{letter}{self.pick(['add', 'mul'])}_{self.pick(['rz', 'ru', 'rd'])}({a}, {b})"
            )
        return f"__{letter}div_rn({a}, {b})"

    def _integer(self, kind: str, depth: int) -> str:
        width = INTEGERS[kind]
        wide = "u64" if width == 64 else "u32"
        a, b = self.value(kind, depth - 1), self.value(kind, depth - 1)
        choice = self.below(16)
        if choice < 5:
            return f"{kind}({wide}({a}) {self.pick('+-*&|^')} {wide}({b}))"
        if choice == 5:
            return f"{kind}({wide}({a}) << ({wide}({b}) & {width - 1}))"
        if choice == 6:
            return f"{kind}({a} >> ({wide}({b}) & {width - 1}))"
        if choice == 7:
            return f"{self.pick(['over', 'rest'])}<{kind}>({a}, {b})"
        if choice == 8:
            return f"({self.condition(depth - 1)} ? {a} : {b})"
        if choice == 9:
            return f"{kind}(~{wide}({a}))"
        if choice == 10:
            call = self.pick(["__popc", "__clz", "__ffs", "__brev"])
            return f"{kind}({call}{'ll' if wide == 'u64' else ''}({wide}({a})))"
        if choice == 11:
            return f"{kind}({self.pick(['min', 'max'])}({kind}({a}), {kind}({b})))"
        if choice == 12:
            return f"{kind}({self.condition(depth - 1)})"
        if choice == 13 and "local" in self._names.get("array", []):
            return f"{kind}(local[{self.value('u32', depth - 1)} & 7])"
        if choice == 14 and self._calls and depth > 1:
            name = self.pick(["mix", "climb", "turn"]) + f"_{self._number}"
            return f"{kind}({name}({self.value('i32', 1)}, {self.value('u64', 1)}))"
        source = self.pick(TYPES)
        return self.cast(kind, source, self.value(source, depth - 1))

    def condition(self, depth: int) -> str:
        kind = self.pick(TYPES)
        sign = self.pick(["<", "<=", ">", ">=", "==", "!="])
        text = f"({self.value(kind, depth)} {sign} {self.value(kind, depth)})"
        if depth > 1 and self.below(4) == 0:
            return f"({text} {self.pick(['&&', '||'])} {self.condition(depth - 1)})"
        return text

    # ---- statements ----

    def new(self) -> str:
        self._made += 1
        return f"v{self._made}"

    def declare(self) -> Iterator[str]:
        kind = self.pick(TYPES)
        text = self.value(kind)
        name = self.new()
        self._names.setdefault(kind, []).append(name)
        yield f"{kind} {name} = {text};"

    def assign(self) -> Iterator[str]:
        changeable = [
            (kind, name)
            for kind, names in self._names.items()
            for name in names
            if kind != "array" and name not in self._constant
        ]
        kind, name = changeable[self.below(len(changeable))]
        yield f"{name} = {self.value(kind)};"

    def block(self, depth: int, count: int) -> Iterator[str]:
        """Statements that may diverge; what they declare is theirs."""
        before = {kind: list(names) for kind, names in self._names.items()}
        for _ in range(count):
            yield from ("  " + line for line in self.statement(depth))
        self._names = before

    def statement(self, depth: int) -> Iterator[str]:
        choice = self.below(10 if depth > 0 else 5)
        if choice < 2:
            yield from self.declare()
        elif choice < 4:
            yield from self.assign()
        elif choice == 4:
            if "local" in self._names.get("array", []):
                yield f"local[{self.value('u32', 2)} & 7] = {self.value('i32', 2)};"
            else:
                yield from self.assign()
        elif choice < 7:
            yield f"if ({self.condition(2)}) {{"
            yield from self.block(depth - 1, 1 + self.below(3))
            if self.below(2):
                yield "} else {"
                yield from self.block(depth - 1, 1 + self.below(2))
            yield "}"
        elif choice < 9:
            name = self.new()
            yield f"for (u32 {name} = 0; {name} < ({self.value('u32', 1)} & 7); ++{name}) {{"
            self._names.setdefault("u32", []).append(name)
            self._constant.add(name)
            yield from self.block(depth - 1, 1 + self.below(3))
            self._names["u32"].remove(name)
            if self.below(3) == 0:
                yield f"  if ({self.condition(1)}) {self.pick(['break', 'continue'])};"
            yield "}"
        else:
            yield f"switch ({self.value('u32', 2)} & 3) {{"
            for case in range(3):
                yield f"case {case}: {{"
                yield from self.block(depth - 1, 1)
                yield "}" + (" break;" if self.below(3) else "")
            yield "default: {"
            yield from self.block(depth - 1, 1)
            yield "} }"

    def together(self) -> Iterator[str]:
        """What all threads of the block do."""
        choice = self.below(5)
        if choice == 0:
            name = self.new()
            yield f"__syncthreads(); exchanged[t] = {self.value('i64', 2)}; __syncthreads();"
            yield f"i64 {name} = exchanged[{self.value('u32', 1)} & {BLOCK - 1}];"
            self._names.setdefault("i64", []).append(name)
        elif choice == 1:
            kind = self.pick(["i32", "u32", "i64", "f32", "f64"])
            text = self.value(kind, 2)
            by = f"__shfl_{self.pick(['up', 'down', 'xor'])}_sync(~0u, {text}, {1 + self.below(16)}"
            width = ["", ", 16", ", 8"][self.below(3)]
            name = self.new()
            yield f"{kind} {name} = {by}{width});"
            self._names.setdefault(kind, []).append(name)
        elif choice == 2:
            name = self.new()
            call = self.pick(["__ballot_sync", "__any_sync", "__all_sync"])
            yield f"u32 {name} = {call}(~0u, {self.condition(2)});"
            self._names.setdefault("u32", []).append(name)
        elif choice == 3:
            call = self.pick(["Add", "Xor", "Or", "And", "Max", "Min"])
            place = {"Add": 0, "Xor": 1, "Or": 2, "And": 3, "Max": 4, "Min": 5}[call]
            yield f"if ({self.condition(1)}) atomic{call}(&sums[{place}], {self.value('u32', 2)});"
        else:
            place = self.below(4)
            call = ["Add", "Max", "Min", "Xor"][place]
            text = self.value("u64", 2)
            yield f"if ({self.condition(1)}) atomic{call}(&totals[{place}], {text});"

    # ---- the program ----

    def functions(self) -> Iterator[str]:
        n = self._number
        self._calls = False
        head = "__device__ __noinline__ u64"
        for name in ("mix", "turn"):
            self._names = {"i32": ["a"], "u64": ["b"]}
            yield f"{head} {name}_{n}(i32 a, u64 b) {{"
            if name == "turn":
                yield "  Triple x{a, b, {1, i16(a), i16(b)}};"
                self._names |= {"i32": ["a", "x.a"], "u64": ["b", "x.b"], "i16": ["x.c[1]"]}
            yield from self.block(1, 2)
            yield f"  return {self.value('u64', 2)};"
            yield "}"
        self._names = {"i32": ["a"], "u64": ["b"]}
        yield f"{head} climb_{n}(i32 a, u64 b) {{"
        yield "  const i32 left = a & 7;"
        yield f"  if (left == 0) return {self.value('u64', 1)};"
        yield from self.block(1, 1)
        yield f"  return {self.value('u64', 1)} + 3 * climb_{n}(left - 1, {self.value('u64', 1)});"
        yield "}"
        self._calls = True

    def lines(self) -> Iterator[str]:
        yield from self.functions()
        yield f'extern "C" __global__ void program_{self._number}('
        yield "    const i64* in, i64* out, u64* totals) {"
        yield f"  __shared__ i64 exchanged[{BLOCK}];"
        yield "  __shared__ u32 sums[6];"
        yield "  const u32 t = threadIdx.x, i = blockIdx.x * blockDim.x + t;"
        yield "  if (t < 6) sums[t] = t == 3 || t == 5 ? ~0u : 0;"
        yield "  __syncthreads();"
        yield "  i64 x = in[i]; i32 y = i32(x); u8 z = u8(x >> 32);"
        yield "  f32 f = f32(i16(x)); f64 g = f64(y);"
        yield "  i32 local[8] = {1, y, 3, z, 5, 6, 7, 8};"
        self._names = {
            "i64": ["x"], "i32": ["y"], "u8": ["z"], "f32": ["f"], "f64": ["g"], "u32": ["t", "i"],
            "array": ["local"],
        }  # fmt: skip
        self._constant |= {"t", "i"}
        for _ in range(5 + self.below(4)):
            step = self.together() if self.below(3) == 0 else self.statement(2)
            yield from ("  " + line for line in step)
        yield "  __syncthreads();"
        yield "  u64 h = sums[0] + 3ull * sums[1] + 5ull * sums[2] + 7ull * sums[3];"
        yield "  h = h * 31 + sums[4] + 11ull * sums[5];"
        for kind, names in self._names.items():
            if kind != "array":
                yield from (f"  h = h * 31 + bits({name});" for name in names)
        yield "  for (int k = 0; k < 8; ++k) h = h * 31 + u32(local[k]);"
        yield "  out[i] = i64(h);"
        yield "}"


@dataclass(frozen=True)
class Program:
    """One kernel, by its number."""

    number: int

    @property
    def kernel(self) -> str:
        return f"program_{self.number}"

    @cached_property
    def source(self) -> str:
        """CUDA C++, without the prelude."""
        return "\n".join(_Writer(self.number).lines())

    @cached_property
    def inputs(self) -> NDArray[np.int64]:
        generator = random.Random(-1 - self.number)
        words = [
            int(generator.random() * 2**64) >> int(generator.random() * 64) for _ in range(COUNT)
        ]
        return np.array(words, np.uint64).view(np.int64)

    @cached_property
    def digest(self) -> int:
        """What the answers depend on."""
        return zlib.crc32(self.inputs.tobytes(), zlib.crc32((PRELUDE + self.source).encode()))

    def run(self, module: Any, device: str) -> NDArray[np.int64]:
        """The words of all threads, and the totals behind them."""
        import torch

        given = torch.from_numpy(self.inputs.copy()).to(device)
        out = torch.zeros(COUNT, dtype=torch.int64, device=device)
        totals = torch.tensor([0, 0, -1, 0], dtype=torch.int64, device=device).view(torch.uint64)
        module.kernel(self.kernel)[COUNT // BLOCK, BLOCK](given, out, totals)
        return np.concatenate([out.cpu().numpy(), totals.view(torch.int64).cpu().numpy()])


PROGRAMS = [Program(number) for number in NUMBERS]


def groups() -> Iterator[list[Program]]:
    """The programs in lots that are compiled together."""
    for start in range(0, len(PROGRAMS), GROUP):
        yield PROGRAMS[start : start + GROUP]


def make_module(group: Sequence[Program], options: Sequence[str] = ()) -> Any:
    """The cudademo.Module of some programs."""
    import cudademo

    return cudademo.module(
        PRELUDE + "\n\n".join(program.source for program in group),
        options=["--disable-warnings", *options],  # of what is never read
        kernels=[program.kernel for program in group],
    )


def compiled(options: Sequence[str] = ()) -> dict[str, Any]:
    """The module of each kernel, by its name, compiled in as many threads as are processors."""
    made = [(group, make_module(group, options)) for group in groups()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda pair: pair[1].kernel(pair[0][0].kernel).ptx(), made))
    return {program.kernel: module for group, module in made for program in group}
