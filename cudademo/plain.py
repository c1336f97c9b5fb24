"""Tensors and calls that torch's dispatcher need not know of.

The core asks the same in C++, for the calls that it takes itself: core/python/torch_state.hpp.
"""

from __future__ import annotations

import torch
from torch._C import _are_functorch_transforms_active, _len_torch_dispatch_stack
from torch.autograd import forward_ad

_TENSORS = (torch.Tensor, torch.nn.Parameter)


def are_plain(*tensors: object) -> bool:
    """True for CUDA tensors of torch's own types, outside of all transforms and tracing."""
    for x in tensors:
        if type(x) not in _TENSORS or not x.is_cuda:  # type: ignore[attr-defined]
            return False
    return not (_len_torch_dispatch_stack() or is_transforming())


def is_transforming() -> bool:
    """True inside vmap, grad and the other transforms of torch.func."""
    return _are_functorch_transforms_active()


def derive(*tensors: torch.Tensor) -> bool:
    """True where a derivative of an operation on them is to be recorded, backward or forward."""
    if forward_ad._current_level >= 0:
        return True
    for x in tensors:
        if x.requires_grad:
            return torch.is_grad_enabled()
    return False
