"""Scratch memory for kernels that count their blocks: zero at first, and zero again after each.

Launches on one stream run one after another and share one workspace. A CUDA graph may run beside
them, so each capture takes one that is its own for good, from a stock that is laid in outside of
captures: zeroing one inside would be work that every replay repeats.
"""

from __future__ import annotations

from collections import defaultdict

import torch

from . import _core

_STOCK = 16

_of_stream: dict[tuple[int, int], torch.Tensor] = {}
_of_capture: dict[tuple[int, int], torch.Tensor] = {}
_stock: defaultdict[int, list[torch.Tensor]] = defaultdict(list)


def workspace(device: int, size: int) -> torch.Tensor:
    """A workspace for a launch on the current stream of a device.

    Args:
        device: the ordinal of the current device.
        size: bytes; always the same for one device.
    """
    stream: int = torch._C._cuda_getCurrentRawStream(device)  # absent from a CPU build of torch
    capture = _core.capture_id(stream)
    if capture:
        return _for_capture(device, size, (capture, stream))
    known = _of_stream.get((device, stream))
    if known is None:
        known = _of_stream[(device, stream)] = _zeros(device, size)
    if not _stock[device]:
        _stock[device] = list(_zeros(device, _STOCK, size))
        torch.cuda.current_stream(device).synchronize()  # zero, whoever replays a graph and when
    return known


def _for_capture(device: int, size: int, key: tuple[int, int]) -> torch.Tensor:
    known = _of_capture.get(key)
    if known is None:
        stock = _stock[device]
        known = stock.pop() if stock else _zeros(device, size)
        _of_capture[key] = known
    return known


def _zeros(device: int, *shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.uint8, device=f"cuda:{device}")
