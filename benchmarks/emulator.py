"""The emulator: instructions a second of one core, and how long adding two arrays takes.

An instruction is one of the PTX, executed by one thread; the emulator counts them as it runs. A
rate is over the processor time of the one thread of the host that runs the launch, so that others
on the machine take little from it. The times of an addition are by the clock on the wall.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from measure import Budget, Row, Timed, interleaved, rate, tabulated

import cudademo

SUITE = "emulator"
RATE = "M instructions/s"
COUNT = "instructions"
ELEMENTS = 1 << 20
SIDE = 128  # of the matrices
KEYS = 1 << 15
WITH_CHECKS = {"checks off": False, "checks on": True}

_TILE = 16
_SORT_BLOCK, _SORT_ITEMS = 256, 4

PRODUCT = r"""
template <int Tile>
__global__ void product(const float* a, const float* b, float* c, int n) {
  __shared__ float left[Tile][Tile], right[Tile][Tile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * Tile + y, column = blockIdx.x * Tile + x;
  float sum = 0;
  for (int k = 0; k < n; k += Tile) {
    left[y][x] = a[row * n + k + x];
    right[y][x] = b[(k + y) * n + column];
    __syncthreads();
    for (int i = 0; i < Tile; ++i) sum += left[y][i] * right[i][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}"""

SORT = r"""
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_store.cuh>

template <int Block, int Items>
__global__ void sort(const int* in, int* out) {
  using Load = cub::BlockLoad<int, Block, Items, cub::BLOCK_LOAD_TRANSPOSE>;
  using Sort = cub::BlockRadixSort<int, Block, Items>;
  using Store = cub::BlockStore<int, Block, Items, cub::BLOCK_STORE_TRANSPOSE>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Sort::TempStorage sort;
    typename Store::TempStorage store;
  } shared;
  const int offset = blockIdx.x * Block * Items;
  int items[Items];
  Load(shared.load).Load(in + offset, items);
  __syncthreads();
  Sort(shared.sort).Sort(items);
  __syncthreads();
  Store(shared.store).Store(out + offset, items);
}"""


class Program(NamedTuple):
    """What is launched: a call that returns its result, and the result that is right."""

    case: str
    call: Callable[[], torch.Tensor]
    expected: torch.Tensor


def run(budget: Budget) -> Iterator[Row]:
    """Instructions of each program and their rate on one core; milliseconds of an addition."""
    programs = (_sum_double(), _sum_single(), _product(), _sort())
    for program in programs:
        counts = {who: _executed(program, on) for who, on in WITH_CHECKS.items()}
        timed = {who: _timed(program, on, 1, time.thread_time) for who, on in WITH_CHECKS.items()}
        samples = interleaved(timed, budget.emulator_rounds)
        rows, failures = tabulated(SUITE, program.case, samples)
        yield from failures
        for who, row in rows.items():
            count = counts[who]
            yield Row(SUITE, program.case, who, COUNT, count, "count", "lower", 1, count, count)
            yield row
            yield rate(row, count, RATE)
    yield from _additions(programs[0], budget)


def _additions(addition: Program, budget: Budget) -> Iterator[Row]:
    """By the wall's clock, on one core and on all."""
    for cores in sorted({1, len(os.sched_getaffinity(0))}):
        timed = {
            who: _timed(addition, on, cores, time.perf_counter) for who, on in WITH_CHECKS.items()
        }
        case = f"{addition.case}, launch to finish, {cores} core{'s' if cores > 1 else ''}"
        rows, failures = tabulated(SUITE, case, interleaved(timed, budget.emulator_rounds))
        yield from rows.values()
        yield from failures


def _executed(program: Program, checks: bool) -> int:
    """Instructions of one call, whose result is looked at as well."""
    with cudademo.use_emulator(checks=checks, threads=1) as emulator:
        got = program.call()
        if not torch.equal(got, program.expected):
            raise AssertionError(f"{program.case}: a wrong result")
        return int(emulator.executed)


def _timed(program: Program, checks: bool, threads: int, clock: Callable[[], float]) -> Timed:
    def timed() -> float:
        with cudademo.use_emulator(checks=checks, threads=threads):
            start = clock()
            program.call()
            return clock() - start

    return timed


def _sum_double() -> Program:
    a, b = _whole(ELEMENTS, seed=1), _whole(ELEMENTS, seed=2)
    call = functools.partial(cudademo.sum_double_op, a, b)
    return Program(f"sum_double f32 {_power(ELEMENTS)}", call, a + b)


def _sum_single() -> Program:
    x = _whole(ELEMENTS, seed=3)
    call = functools.partial(cudademo.sum_single_op, x)
    return Program(f"sum_single f32 {_power(ELEMENTS)}", call, x.sum().reshape(1))


def _product() -> Program:
    a, b = (_whole(SIDE * SIDE, seed).view(SIDE, SIDE) for seed in (4, 5))
    c = torch.empty_like(a)
    kernel = cudademo.kernel(PRODUCT, f"product<{_TILE}>")
    tiles = SIDE // _TILE

    def call() -> torch.Tensor:
        kernel[(tiles, tiles), (_TILE, _TILE)](a, b, c, SIDE)
        return c

    return Program(f"matrix product f32 {SIDE}x{SIDE}, tiles of {_TILE}", call, a @ b)


def _sort() -> Program:
    generator = torch.Generator().manual_seed(6)
    keys = torch.randint(-(1 << 31), 1 << 31, (KEYS,), dtype=torch.int32, generator=generator)
    out = torch.empty_like(keys)
    kernel = cudademo.kernel(SORT, f"sort<{_SORT_BLOCK}, {_SORT_ITEMS}>")
    of_block = _SORT_BLOCK * _SORT_ITEMS

    def call() -> torch.Tensor:
        kernel[KEYS // of_block, _SORT_BLOCK](keys, out)
        return out

    expected = keys.view(-1, of_block).sort(dim=1).values.flatten()
    return Program(f"CUB radix sort i32 {_power(KEYS)}, {of_block} a block", call, expected)


def _whole(count: int, seed: int) -> torch.Tensor:
    """Small whole numbers, whose sums and products are exact in any order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-8, 8, (count,), generator=generator).float()


def _power(count: int) -> str:
    return f"2^{count.bit_length() - 1}"
