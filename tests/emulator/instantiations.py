"""Templates and all that a file of tests makes of them, compiled ahead and side by side.

Most of a compile goes into the headers, so a source is compiled once for many name expressions; and
NVRTC runs without the GIL, so that one source is compiled while another's kernels run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import cudademo
from cudademo.emulation import target


class Instantiations:
    """The kernels of some sources, by name expression."""

    def __init__(self) -> None:
        self._modules: dict[str, Any] = {}
        self._compiles: list[tuple[Any, str]] = []
        self._started: dict[int, Future[str]] = {}

    def add(self, source: str, expressions: Iterable[str]) -> None:
        """Say what is wanted of a source, before the first kernel is taken."""
        names = list(dict.fromkeys(expressions))
        module = cudademo.module(source, architecture=target(), kernels=names)
        self._modules.update(dict.fromkeys(names, module))
        self._compiles.append((module, names[0]))

    def __getitem__(self, expression: str) -> Any:
        """The kernel, once its source is compiled; the first asked for starts all compiles."""
        if not self._started:
            pool = ThreadPoolExecutor(os.cpu_count())
            for module, first in self._compiles:
                self._started[id(module)] = pool.submit(module.kernel(first).ptx)
            pool.shutdown(wait=False)
        module = self._modules[expression]
        self._started[id(module)].result()
        return module.kernel(expression)
