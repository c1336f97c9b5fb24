"""The tutorial's two operators, `sum_single_op` and `sum_double_op`, complete.

On CUDA tensors they run the kernels in `kernels/`; on others, torch's own operation. As
`torch.ops.cudademo.sum_single` and `.sum_double` they are operators of torch, with gradients,
batching rules, and shapes for tracing. Plain calls go around torch's dispatcher, which costs more
than the launch.
"""

from __future__ import annotations

import torch
from torch.compiler import is_dynamo_compiling

from . import sum_double, sum_single

__all__ = ["sum_double_op", "sum_single_op"]


def sum_double_op(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The element-wise sum of two tensors, as `a + b`.

    Args:
        a: any shape, of any dtype that torch adds.
        b: a shape that broadcasts with `a`'s; on the same device.

    Returns:
        A tensor of the broadcast shape and of torch's common dtype.

    Raises:
        TypeError: an argument is not a tensor.
        RuntimeError: the shapes do not broadcast, or torch does not add these dtypes.

    Example:
        >>> sum_double_op(torch.ones(2, 3), torch.ones(3)).shape
        torch.Size([2, 3])
    """
    if not is_dynamo_compiling():
        result = sum_double.quick(a, b)
        if result is None:
            result = sum_double.eager(a, b)
        return sum_double.dispatched(a, b) if result is None else result
    return torch.ops.cudademo.sum_double(a, b)  # type: ignore[no-any-return]


def sum_single_op(x: torch.Tensor) -> torch.Tensor:
    """The sum of all elements, as `x.sum()` in a tensor of one element.

    Accumulates wider than the dtype, in a tree, in the same order each time.

    Args:
        x: any shape, of any dtype that torch sums.

    Returns:
        A tensor of shape [1]; int64 for integers and bool, else of the dtype of `x`.

    Raises:
        TypeError: the argument is not a tensor.
        RuntimeError: torch does not sum this dtype.

    Example:
        >>> sum_single_op(torch.ones(2, 3))
        tensor([6.])
    """
    if not is_dynamo_compiling():
        result = sum_single.quick(x)
        if result is None:
            result = sum_single.eager(x)
        return sum_single.dispatched(x) if result is None else result
    return torch.ops.cudademo.sum_single(x)  # type: ignore[no-any-return]


sum_double.register()
sum_single.register()
