"""The operator `cudademo::sum_single`: its launches, its gradient, its registration."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, NamedTuple

import torch

from . import _core, emulation, plain, resources, workspace
from .kernel import Kernel, Module, ceil_div, load
from .specialisation import Binding, dtype_of, torch_name
from .strides import collapse, index_type, layout

_THREAD_BYTES = 4 * 16  # what a thread of the kernel loads at once
_STRIDED_BLOCK = 256
_MOST_BLOCKS = 8  # a multiprocessor


class _Tier(NamedTuple):
    """How dense arrays up to a size are summed. Which is the fastest was measured on an H200."""

    most_bytes: int
    kernel: Kernel
    block: int
    bytes_per_block: int
    most_blocks: int


class _Types(NamedTuple):
    """How a dtype is summed: C++ types, the result's dtype, values an element."""

    sum: str
    out: str
    result: torch.dtype
    components: int


_INTEGER = _Types("long long", "long long", torch.int64, 1)
_TYPES = {
    torch.bool: _INTEGER,
    torch.uint8: _INTEGER,
    torch.int8: _INTEGER,
    torch.int16: _INTEGER,
    torch.int32: _INTEGER,
    torch.int64: _INTEGER,
    torch.uint16: _INTEGER,
    torch.uint32: _INTEGER,
    torch.uint64: _INTEGER,
    torch.float16: _Types("float", "__half", torch.float16, 1),
    torch.bfloat16: _Types("float", "__nv_bfloat16", torch.bfloat16, 1),
    torch.float32: _Types("double", "float", torch.float32, 1),
    torch.float64: _Types("double", "double", torch.float64, 1),
    torch.complex32: _Types("float", "__half", torch.complex32, 2),
    torch.complex64: _Types("double", "float", torch.complex64, 2),
    torch.complex128: _Types("double", "double", torch.complex128, 2),
}


def eager(x: Any) -> torch.Tensor | None:
    """The sum, for a plain CUDA tensor outside of all transforms and tracing; else None."""
    if not plain.are_plain(x):
        return None
    if plain.derive(x):
        return _apply(x)  # type: ignore[no-any-return, no-untyped-call]
    return forward(x)


def forward(x: torch.Tensor) -> torch.Tensor:
    """The sum of a CUDA tensor in shape [1], without a gradient."""
    out = quick.forward(x)
    return _forward_any(x) if out is None else out


def _forward_any(x: torch.Tensor) -> torch.Tensor:
    types = _TYPES.get(x.dtype)
    if types is None:
        return torch.sum(x).reshape(1)  # which says that it does not sum these
    n = x.numel()
    if n == 0:
        return x.new_zeros(1, dtype=types.result)
    out = x.new_empty(1, dtype=types.result)
    result = out
    if types.components == 2:
        x, result = torch.view_as_real(x.resolve_conj()), torch.view_as_real(out)
    elif x.is_neg():
        x = x.resolve_neg()
    if x.is_contiguous():
        _launch_dense(x, n * types.components, result, types)
    else:
        _launch_strided(x, n, result, types)
    return out


def _rule(dtype: str, device: int) -> tuple[torch.Tensor, tuple[_Tier, ...]]:
    """How the C++ side sums this dtype: a tensor like the result, and the tiers."""
    types = _TYPES[getattr(torch, dtype)]
    where = torch.device("cuda", device)
    return torch.empty(1, dtype=types.result, device=where), _tiers(types, where)


@functools.cache
def _tiers(types: _Types, device: torch.device) -> tuple[_Tier, ...]:
    cached_bytes = sys.maxsize
    if device.type == "cuda":
        cached_bytes = int(torch.cuda.get_device_properties(device).L2_cache_size)
    most_blocks = _most_blocks(device)

    def tier(most_bytes: int, block: int, most_blocks: int, streaming: bool = False) -> _Tier:
        kernel = _dense_kernel(types, block, streaming)
        return _Tier(most_bytes, kernel, block, block * _THREAD_BYTES, most_blocks)

    return (
        tier(1024 * _THREAD_BYTES, 1024, 1),
        tier(cached_bytes, 256, most_blocks),
        tier(sys.maxsize, 512, most_blocks // 4, streaming=True),
    )


def _tier_for(types: _Types, device: torch.device, size: int) -> _Tier:
    return next(tier for tier in _tiers(types, device) if size <= tier.most_bytes)


def _launch_dense(x: torch.Tensor, n: int, out: torch.Tensor, types: _Types) -> None:
    size = n * x.element_size()
    tier = _tier_for(types, x.device, size)
    grid = min(ceil_div(size, tier.bytes_per_block), tier.most_blocks)
    with _current(x.device):
        tier.kernel[grid, tier.block](x, n, out, _workspace(x.device))


def _launch_strided(x: torch.Tensor, n: int, out: torch.Tensor, types: _Types) -> None:
    shape, stride = x.shape, x.stride()
    if types.components == 2:  # the kernel counts in whole complex numbers
        shape, stride = shape[:-1], tuple(s // 2 for s in stride[:-1])
    sizes, merged = collapse(shape, [stride])
    if merged == [[1]]:
        _launch_dense(x, n * types.components, out, types)
        return
    kernel = _strided_kernel(types, len(sizes), index_type(n))
    grid = min(ceil_div(n, _STRIDED_BLOCK), _most_blocks(x.device))
    with _current(x.device):
        kernel[grid, _STRIDED_BLOCK](x, layout(sizes, merged), n, out, _workspace(x.device))


@functools.cache
def _most_blocks(device: torch.device) -> int:
    if device.type == "cpu":
        return _MOST_BLOCKS
    count = torch.cuda.get_device_properties(device).multi_processor_count
    return _MOST_BLOCKS * int(count)


def _workspace(device: torch.device) -> torch.Tensor:
    """A ticket in 16 bytes, then two shares of 8 bytes for each block."""
    size = 16 + 16 * _most_blocks(device)
    if device.type == "cpu":
        return torch.zeros(size, dtype=torch.uint8)
    return workspace.workspace(device.index, size)


def _current(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Makes a GPU the current device; the CPU is always there."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def kernel_for(x: torch.Tensor) -> Kernel:
    """The kernel that sums dense real tensors like `x`, specialised for its dtype."""
    types = _TYPES[x.dtype]
    if not x.is_cuda and not emulation.active():
        return _dense_kernel(types, 256, streaming=False).specialize(T=x.dtype)
    return _tier_for(types, x.device, x.nbytes).kernel


@functools.cache
def _module() -> Module:
    return load(resources.folder("kernels") / "sum_single.cu")


@functools.cache
def _dense_kernel(types: _Types, block: int, streaming: bool) -> Kernel:
    return _kernel("sum_single", types, Block=block, Streaming=streaming)


@functools.cache
def _strided_kernel(types: _Types, dims: int, index: str) -> Kernel:
    return _kernel("sum_single_strided", types, Block=_STRIDED_BLOCK, Index=index, Dims=dims)


def _kernel(name: str, types: _Types, **more: int | str) -> Kernel:
    """A kernel of the file, whose first four parameters are the types, in order."""
    first: dict[str, Binding] = {
        "T": dtype_of(0),
        "Sum": types.sum,
        "Out": types.out,
        "Components": types.components,
    }
    return _module().kernel(f"{name}<{', '.join([*first, *more])}>", **first, **more)


class _SumSingle(torch.autograd.Function):
    """The gradient outside of torch's dispatcher."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.shape = x.shape
        return forward(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return _gradient(ctx, grad)

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        return tangent.sum().reshape(1)


# The base class's own apply: autograd.Function.apply adds functorch's checks, which eager has made.
_apply = super(torch.autograd.Function, _SumSingle).apply

# The way for dense real tensors, in C++.
quick = _core.EagerTotal(
    _rule,
    lambda device: _workspace(torch.device("cuda", device)),
    torch.empty_like,
    tuple(torch_name(dtype) for dtype, types in _TYPES.items() if types.components == 1),
    _apply,
)


def _gradient(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    return grad.reshape(()).expand(ctx.shape)


def _setup_context(ctx: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
    ctx.shape = inputs[0].shape


def _fake(x: torch.Tensor) -> torch.Tensor:
    types = _TYPES.get(x.dtype)
    return x.new_empty(1, dtype=types.result if types else x.dtype)


def _batch(info: Any, in_dims: tuple[int], x: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Many sums at once are torch's own row sum, whatever the batch."""
    return x.movedim(in_dims[0], 0).reshape(info.batch_size, -1).sum(1, keepdim=True), 0


class _Transformed(_SumSingle):
    """The gradient inside of torch.func's transforms, which the dispatcher's does not know."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return dispatched(x)

    setup_context = staticmethod(_setup_context)
    vmap = staticmethod(_batch)


def dispatched(x: torch.Tensor) -> torch.Tensor:
    """The sum by torch's dispatcher, or by the transforms of torch.func that are active."""
    if plain.is_transforming():
        return _Transformed.apply(x)  # type: ignore[no-any-return, no-untyped-call]
    return torch.ops.cudademo.sum_single(x)  # type: ignore[no-any-return]


def _on_cpu(x: torch.Tensor) -> torch.Tensor:
    return _forward_any(x) if emulation.active() else torch.sum(x).reshape(1)


def register() -> None:
    """Make it an operator of torch. Called once, by the package."""
    name = "cudademo::sum_single"
    torch.library.define(name, "(Tensor x) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
    torch.library.impl(name, "cuda", forward)
    torch.library.impl(name, "cpu", _on_cpu)
    torch.library.register_fake(name, _fake)
    torch.library.register_autograd(name, _gradient, setup_context=_setup_context)
    torch.library.register_vmap(name, _batch)
