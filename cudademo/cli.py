"""The command line: `cudademo demo`, `cudademo doctor`, `cudademo ptx`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import Error

if TYPE_CHECKING:
    import torch

    from .kernel import Kernel

_ELEMENTS = 10_000
_ROUNDS = 1_000
_EMULATED_ROUNDS = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, or 1 for a fault, whose text goes to stderr."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        status: int = given.run(given)
    except (Error, OSError, TypeError) as error:
        print(f"cudademo: {error}", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cudademo", description="CUDA C++ kernels on torch tensors, compiled at run time."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="run and time the two operators of the tutorial")
    demo.set_defaults(run=_demo)

    doctor = commands.add_parser("doctor", help="check driver, GPUs, torch, NVRTC, headers, cache")
    doctor.set_defaults(run=_doctor)

    ptx = commands.add_parser(
        "ptx",
        help="print the PTX of a kernel",
        description="Print the PTX of a kernel, compiled for the first GPU, or for sm_90.",
        epilog="example: cudademo ptx axpy.cu 'axpy<T, BLOCK>' T=bfloat16 BLOCK=256",
    )
    ptx.add_argument("file", type=Path, help="a .cu file")
    ptx.add_argument("name", help="the kernel's name expression")
    ptx.add_argument(
        "bindings", nargs="*", metavar="NAME=VALUE", help="a dtype of torch, a number, or C++ text"
    )
    ptx.add_argument("--arch", help="the target, such as sm_90a")
    ptx.set_defaults(run=_ptx)
    return parser


def _doctor(_: argparse.Namespace) -> int:
    from . import doctor

    return doctor.run()


def _ptx(given: argparse.Namespace) -> int:
    from .kernel import load

    bindings = {}
    for text in given.bindings:
        name, separator, value = text.partition("=")
        if not separator:
            raise TypeError(f"a binding is NAME=VALUE, not {text!r}")
        bindings[name] = _binding(value)
    module = load(given.file, architecture=given.arch)
    print(module.kernel(given.name, **bindings).ptx())
    return 0


def _binding(text: str) -> torch.dtype | int | str:
    """`bfloat16` is a dtype, `256` a number, and all else is C++."""
    import torch

    dtype = getattr(torch, text, None)
    if isinstance(dtype, torch.dtype):
        return dtype
    return int(text) if text.lstrip("-").isdigit() else text


def _demo(_: argparse.Namespace) -> int:
    """The tutorial's test: two arrays of ones, both operators, asserted and timed."""
    import torch

    from . import sum_double, sum_single, use_emulator

    on_gpu = torch.cuda.is_available()
    device = "cuda" if on_gpu else "cpu"
    a = torch.ones(_ELEMENTS, device=device)
    b = torch.ones(_ELEMENTS, device=device)
    if not on_gpu:
        print("No GPU: the kernels run on the CPU, by the emulator.\n")
        use_emulator()

    from .ops import sum_double_op, sum_single_op

    rounds = _ROUNDS if on_gpu else _EMULATED_ROUNDS
    single = _timed(lambda: sum_single_op(a), torch.full((1,), float(_ELEMENTS)), rounds)
    print(f"Average time cost of sum_single is {single:.4f} ms")
    double = _timed(lambda: sum_double_op(a, b), torch.full((_ELEMENTS,), 2.0), rounds)
    print(f"Average time cost of sum_double is {double:.4f} ms\n")

    for kernel in (sum_single.kernel_for(a), sum_double.kernel_for(a)):
        _show(kernel)
    return 0


def _timed(operation: Callable[[], torch.Tensor], expected: torch.Tensor, rounds: int) -> float:
    """Check the result, then the mean time of one call in milliseconds, launch to finish."""
    import torch

    torch.testing.assert_close(operation().cpu(), expected)

    def settle() -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    settle()
    start = time.perf_counter()
    for _ in range(rounds):
        operation()
    settle()
    return (time.perf_counter() - start) / rounds * 1e3


def _show(kernel: Kernel) -> None:
    """What was compiled, for what, from where, and the first line of its PTX."""
    from .inspect import entry_line

    variant = kernel.latest()
    binary = variant.compiled.binary
    print(f"{variant.expression}")
    print(f"  for {binary.architecture}, from the {variant.compiled.origin}, ", end="")
    print(f"in {variant.compiled.seconds * 1e3:.1f} ms: {len(binary.cubin)} bytes of machine code")
    print(f"  {entry_line(binary.ptx, binary.lowered_name(variant.expression))}")
