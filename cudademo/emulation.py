"""Kernels on the CPU: when they run there, and how."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from . import _core

log = logging.getLogger("cudademo")

_BUDGET = 1 << 28


class use_emulator:  # noqa: N801, as torch.set_grad_enabled
    """Run the operators on CPU tensors through their kernels: a switch, or a context.

    A kernel that is given arrays in the CPU's memory runs on the emulator anyway. With this the
    package's operators do so as well, instead of torch's own, and so do kernels without any array.
    `CUDADEMO_EMULATOR=1` in the environment is the same for a whole process.

    The emulator interprets the PTX that NVRTC made: exact, slow, and watched. A fault raises
    EmulatorError, with the thread, the array and the line of the source.

    Args:
        on: False puts the operators back to torch's own.
        checks: also find races on shared and global memory (of arrays up to some 450 MB in all),
            reads of memory that nobody wrote, and barriers that not all threads come to; and know
            the arrays of earlier launches, by name and whether they are gone. Bounds and
            alignment are always checked.
        seed: permutes the order of blocks and warps, to find what depends on it; 0 leaves it.
        capability: the compute capability that kernels are compiled for.
        budget: instructions of a block, after which it counts as an endless loop.
        threads: of the host; 0 for as many as there are cores.
        reachable: arrays in the CPU's memory, of any dtype and shape, that kernels may touch beside
            their arguments: what they reach through a pointer in memory, such as an int64 tensor
            of `data_ptr()`s, or one kept in a `__device__` variable. Kept alive meanwhile.

    Raises:
        TypeError: something in `reachable` is no array in the CPU's memory.

    Example:
        >>> import torch
        >>> from cudademo import sum_double_op
        >>> with use_emulator() as emulator:
        ...     sum_double_op(torch.ones(2), torch.ones(2))
        tensor([2., 2.])
        >>> emulator.executed > 0
        True
    """

    def __init__(
        self,
        on: bool = True,
        *,
        checks: bool = True,
        seed: int = 0,
        capability: tuple[int, int] = (8, 0),
        budget: int = _BUDGET,
        threads: int = 0,
        reachable: Iterable[Any] = (),
    ) -> None:
        self._before = (_core.emulating(), _core.emulator_options(), _core.reachable())
        self._executed_before = _core.emulator_executed()
        _core.set_reachable(tuple(reachable))
        _core.configure_emulator(checks, seed, budget, threads, capability)
        _core.set_emulating(on)

    @property
    def executed(self) -> int:
        """Instructions that threads have executed since this was made, in all of the process.

        An instruction of the PTX counts once for each thread that executed it: not for those whose
        guard was false. One that waits for other threads of its warp may count again as it resumes.
        """
        return _core.emulator_executed() - self._executed_before

    def __enter__(self) -> use_emulator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        on, options, reachable = self._before
        _core.set_reachable(reachable)
        _core.configure_emulator(*options)
        _core.set_emulating(on)


def active() -> bool:
    """True while the operators take CPU tensors to the emulator."""
    return _core.emulating()


def target() -> str:
    """The architecture that kernels are compiled for: a virtual one, as the emulator takes PTX."""
    major, minor = _core.emulator_options()[4]
    return f"compute_{major}{minor}"


@functools.cache
def announce() -> None:
    """Say once in a process, in a line, that kernels are being emulated."""
    log.warning("kernels are being emulated on the CPU: the same results, slowly")


if os.environ.get("CUDADEMO_EMULATOR", "0") not in ("", "0"):
    _core.set_emulating(True)
