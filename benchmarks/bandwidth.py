"""GPU time of the two operators over sizes and dtypes, as bandwidth, beside torch and CUB.

A graph's replays are timed, so that the host's part stays out. The traffic counted is what the
operation has to move: each input read once, each output written once.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import math
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import peers
import subject
import torch
from measure import (
    Budget,
    Missing,
    Row,
    captured,
    interleaved,
    rate,
    require_gpu,
    skipped,
    speedup,
    synchronise,
    tabulated,
)

SUITE = "bandwidth"
EXPONENTS = (14, 17, 20, 23, 26, 29)
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
TORCH = "torch"
CUB = "CUB"

Operation = Callable[[], torch.Tensor]


def run(budget: Budget) -> Iterator[Row]:
    """Microseconds and GB/s of each operation at each size, and the ratio to torch's speed."""
    require_gpu()
    ours: Any = importlib.import_module("cudademo")
    for short, dtype in DTYPES.items():
        for exponent in EXPONENTS:
            n = 1 << exponent
            generator = torch.Generator(device="cuda").manual_seed(exponent)
            a, b = (torch.randn(n, device="cuda", generator=generator).to(dtype) for _ in "ab")
            adds = {
                TORCH: functools.partial(torch.add, a, b),
                peers.OURS: functools.partial(ours.sum_double_op, a, b),
            }
            case = f"sum_double {short} 2^{exponent}"
            is_right = functools.partial(_check_add, expected=torch.add(a, b))
            yield from _compare(case, adds, is_right, 3 * a.nbytes, budget)
            sums: dict[str, Operation] = {
                TORCH: a.sum,
                peers.OURS: functools.partial(ours.sum_single_op, a),
            }
            case = f"sum_single {short} 2^{exponent}"
            try:
                sums[CUB] = _cub_sum(a, short)
            except Missing as error:
                yield skipped(SUITE, case, CUB, error)
            is_right = functools.partial(_check_sum, x=a)
            yield from _compare(case, sums, is_right, a.nbytes, budget)
            del a, b, adds, sums, is_right
            torch.cuda.empty_cache()


def _compare(
    case: str,
    operations: Mapping[str, Operation],
    is_right: Callable[[torch.Tensor], bool],
    traffic_bytes: int,
    budget: Budget,
) -> Iterator[Row]:
    for who, operation in operations.items():
        if not is_right(operation()):
            raise AssertionError(f"{case}: a wrong result from {who}")
    # A replay should last for about a millisecond at least; a launch takes about five microseconds.
    repeats = max(4, min(200, math.ceil(2e9 / traffic_bytes)))
    timed = {who: captured(operation, repeats) for who, operation in operations.items()}
    samples = interleaved(timed, budget.gpu_rounds, synchronise)
    rows, failures = tabulated(SUITE, case, samples, "median")
    yield from failures
    for row in rows.values():
        yield row
        yield rate(row, traffic_bytes * 1e-3, "GB/s")
        yield speedup(row, rows[TORCH], TORCH)


def _check_add(got: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.equal(got, expected)


def _check_sum(got: torch.Tensor, x: torch.Tensor) -> bool:
    """Right to the result's rounding, and to that of float sums of some thousand terms before."""
    exact = x.sum(dtype=torch.float64)
    rounding = torch.finfo(got.dtype).eps * exact.abs()
    before = 64 * torch.finfo(torch.float32).eps * math.sqrt(x.numel())
    return bool((got.double().reshape(()) - exact).abs() <= rounding + before)


def _cub_sum(x: torch.Tensor, short: str) -> Operation:
    """CUB's DeviceReduce::Sum of `x`, with its scratch memory laid in."""
    function = getattr(_cub_library(), f"cub_sum_{short}")
    function.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.c_void_p,
                         ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]  # fmt: skip
    scratch_bytes = ctypes.c_size_t()
    out = torch.empty(1, device=x.device, dtype=x.dtype)

    def call(scratch: int | None) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        status = function(
            scratch, ctypes.byref(scratch_bytes), x.data_ptr(), out.data_ptr(), x.numel(), stream
        )
        if status != 0:
            raise RuntimeError(f"cub::DeviceReduce: cudaError {status}")

    call(None)
    scratch = torch.empty(scratch_bytes.value, device=x.device, dtype=torch.uint8)

    def total() -> torch.Tensor:
        call(scratch.data_ptr())
        return out

    return total


@functools.cache
def _cub_library() -> ctypes.CDLL:
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        raise Missing("no nvcc")
    source = Path(__file__).with_name("cub_sum.cu")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "cub_sum.so")
        command = [
            nvcc, "-O3", "-std=c++17", f"-arch={subject.architecture()}", "-shared",
            "-Xcompiler", "-fPIC", "--cudart", "shared", "-o", str(library), str(source),
        ]  # fmt: skip
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            raise Missing(f"nvcc: {built.stderr.strip().splitlines()[-1]}")
        return ctypes.CDLL(str(library))
