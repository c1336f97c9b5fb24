"""A fault planted in a whole source, and the same source without it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import cudademo
from cudademo import EmulatorError


class Planted(NamedTuple):
    """Source of a kernel `k(float* x)` with an @ where the fault is or is not."""

    kind: str
    text: str  # of the message
    source: str
    faulty: str  # has, or makes, the line marked FAULT
    mended: str
    block: int = 32
    capability: tuple[int, int] = (8, 0)


def marked_line(source: str) -> int:
    """The line of the source that is marked FAULT."""
    (line,) = (number for number, text in enumerate(source.split("\n"), 1) if "FAULT" in text)
    return line


def run(planted: Planted, part: str) -> Any:
    """Launch it on 256 numbers, of which the first is 0, the second 1 and so on."""
    import torch

    x = torch.arange(256, dtype=torch.float32)
    with cudademo.use_emulator(True, budget=1 << 20, capability=planted.capability):
        cudademo.kernel(planted.source.replace("@", part), "k")[1, planted.block](x)
    return x


def assert_is_found(planted: Planted) -> None:
    """The fault is found, at the line marked FAULT."""
    with pytest.raises(EmulatorError) as caught:
        run(planted, planted.faulty)
    line = marked_line(planted.source.replace("@", planted.faulty))
    assert planted.text in str(caught.value)
    assert (caught.value.kind, caught.value.line) == (planted.kind, line), caught.value
