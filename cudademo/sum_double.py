"""The operator `cudademo::sum_double`: its launches, its gradient, its registration."""

from __future__ import annotations

import functools
from typing import Any

import torch

from . import _core, emulation, plain, resources
from .kernel import Kernel, Module, ceil_div, load
from .specialisation import dtype_of, torch_name
from .strides import collapse, index_type, layout

_BLOCK = 256


def eager(a: Any, b: Any) -> torch.Tensor | None:
    """The sum, for plain CUDA tensors outside of all transforms and tracing; else None."""
    if not plain.are_plain(a, b):
        return None
    if plain.derive(a, b):
        return _apply(a, b)  # type: ignore[no-any-return, no-untyped-call]
    return forward(a, b)


def forward(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The sum of two CUDA tensors, without a gradient."""
    out = quick.forward(a, b)
    return _forward_any(a, b) if out is None else out


def broadcast_shapes(*shapes: torch.Size) -> torch.Size:
    """As torch.broadcast_shapes, which has no types."""
    return torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call, no-any-return]


def _launch_dense(
    a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, n: int, pack_size: int
) -> None:
    if (a.data_ptr() | b.data_ptr() | out.data_ptr()) % 16:
        kernel, threads = _dense_kernel(aligned=False), n
    else:
        kernel, threads = _dense_kernel(aligned=True), ceil_div(n, pack_size)
    kernel[ceil_div(threads, _BLOCK), _BLOCK](a, b, out, n)


def _forward_any(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    dtype = torch.result_type(a, b)
    if _pack_size(dtype) == 0 and not dtype.is_complex:
        return torch.add(a, b)  # which says that it does not add these
    device = _device_of(a, b)
    if dtype is torch.complex32:
        wide = [_widened(x, device) for x in (a, b)]
        return _forward_any(*wide).to(dtype)
    shape = broadcast_shapes(a.shape, b.shape)
    a, b = (_operand(x, dtype, device) for x in (a, b))
    if a.device != b.device:
        return torch.add(a, b)  # likewise
    out = _output_like(a, b, shape, dtype)
    if out.numel() == 0:
        return out
    operands = [x.expand(shape).resolve_conj().resolve_neg() for x in (a, b)]
    if dtype.is_complex:
        pairs = [torch.view_as_real(x.to(dtype)) for x in (out, *operands)]
        _launch_strided(*pairs)
    else:
        _launch_strided(out, *operands)
    return out


def _launch_strided(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    sizes, merged = collapse(out.shape, [out.stride(), a.stride(), b.stride()])
    n = out.numel()
    if merged == [[1], [1], [1]] and a.dtype is b.dtype is out.dtype:
        _launch_dense(a, b, out, n, _pack_size(out.dtype))
        return
    kernel = _strided_kernel(len(sizes), index_type(n))
    kernel[ceil_div(n, _BLOCK), _BLOCK](a, b, out, layout(sizes, merged), n)


def _output_like(
    a: torch.Tensor, b: torch.Tensor, shape: torch.Size, dtype: torch.dtype
) -> torch.Tensor:
    """An output laid out as the operand that has its shape; the same when traced as when run."""
    for like in (a, b):
        if like.shape == shape:
            return torch.empty_like(like, dtype=dtype)
    return torch.empty(shape, dtype=dtype, device=a.device)


def _widened(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    """An operand of a complex32 sum, which torch takes in complex64; a CPU number unrounded."""
    if x.device == device:
        x = x.to(torch.complex32)
    return x.to(device, torch.complex64)


def _operand(x: torch.Tensor, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """`x` where and as the kernel can take it: a number of the CPU's keeps more than 16 bits."""
    half = dtype in (torch.float16, torch.bfloat16)
    if x.device != device and x.dim() == 0:
        return x.to(device, torch.float32 if half else dtype)
    if half and x.dtype in (torch.float32, torch.float64):
        return x.to(dtype)  # of no dimensions, or the result would be as wide
    return x


def _device_of(a: torch.Tensor, b: torch.Tensor) -> torch.device:
    """Where the sum is computed: a CPU tensor without dimensions counts as a number."""
    for number, other in ((a, b), (b, a)):
        if number.dim() == 0 and not number.is_cuda:
            return other.device
    return a.device


@functools.cache
def _pack_size(dtype: torch.dtype) -> int:
    """How many elements a pack of 16 bytes holds; 0 for dtypes that the kernels do not add."""
    return 16 // dtype.itemsize if dtype in _ADDED else 0


_ADDED = {
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
}  # fmt: skip


def kernel_for(a: torch.Tensor) -> Kernel:
    """The kernel that adds dense tensors like `a`, specialised for its dtype."""
    kernel = _dense_kernel(aligned=True)
    return kernel if a.is_cuda or emulation.active() else kernel.specialize(T=a.dtype)


@functools.cache
def _module() -> Module:
    return load(resources.folder("kernels") / "sum_double.cu")


@functools.cache
def _dense_kernel(aligned: bool) -> Kernel:
    return _module().kernel("sum_double<T, Aligned>", T=dtype_of(0), Aligned=aligned)


@functools.cache
def _strided_kernel(dims: int, index: str) -> Kernel:
    return _module().kernel(
        "sum_double_strided<C, A, B, Index, Dims>",
        C=dtype_of(2),
        A=dtype_of(0),
        B=dtype_of(1),
        Index=index,
        Dims=dims,
    )


def _gradient(grad: torch.Tensor, meta: tuple[torch.Size, torch.dtype] | None) -> torch.Tensor:
    """The gradient of one operand: summed over what was broadcast, in the operand's dtype.

    `meta` is the operand's shape and dtype; None where they are the result's.
    """
    if meta is None:
        return grad
    shape, dtype = meta
    if grad.shape != shape:
        grad = grad.sum_to_size(shape)
    if grad.dtype is not dtype:
        if grad.dtype.is_complex and not dtype.is_complex:
            grad = grad.real
        grad = grad.to(dtype)
    return grad


class _SumDouble(torch.autograd.Function):
    """The gradient outside of torch's dispatcher."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = quick.forward(a, b)
        if out is not None:
            return out  # all of one shape and dtype: the gradient is handed on as it comes
        ctx.metas = (a.shape, a.dtype), (b.shape, b.dtype)
        return _forward_any(a, b)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return _gradients(ctx, grad)

    @staticmethod
    def jvp(ctx: Any, a: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor:
        tangents = [t for t in (a, b) if t is not None]
        total = sum(tangents[1:], tangents[0])
        metas = getattr(ctx, "metas", None)
        return total.expand(broadcast_shapes(*(shape for shape, _ in metas))) if metas else total


# The base class's own apply: autograd.Function.apply adds functorch's checks, which eager has made.
_apply = super(torch.autograd.Function, _SumDouble).apply

# The way for dense tensors of one shape and dtype, in C++.
quick = _core.EagerPair(
    _dense_kernel(aligned=True),
    torch.empty_like,
    tuple(torch_name(dtype) for dtype in _ADDED),
    _BLOCK,
    _apply,
)


def _gradients(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    metas = getattr(ctx, "metas", (None, None))
    return tuple(
        _gradient(grad, meta) if needed else None
        for meta, needed in zip(metas, ctx.needs_input_grad, strict=True)
    )


def _setup_context(ctx: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
    ctx.metas = tuple((x.shape, x.dtype) for x in inputs)


def _fake(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    dtype = torch.result_type(a, b)
    shape = broadcast_shapes(a.shape, b.shape)
    if a.device != b.device:
        device = _device_of(a, b)
        a, b = (x.to(device) for x in (a, b))
    return _output_like(a, b, shape, dtype)


def _batch(
    info: Any, in_dims: tuple[int | None, int | None], a: torch.Tensor, b: torch.Tensor
) -> tuple[torch.Tensor, int]:
    """The batch goes first, and the other dimensions are aligned from the right."""
    moved = [
        x if dim is None else x.movedim(dim, 0) for x, dim in zip((a, b), in_dims, strict=True)
    ]
    ranks = [x.dim() - (dim is not None) for x, dim in zip(moved, in_dims, strict=True)]
    aligned = [
        x if dim is None else x.reshape(x.shape[0], *[1] * (max(ranks) - rank), *x.shape[1:])
        for x, dim, rank in zip(moved, in_dims, ranks, strict=True)
    ]
    return dispatched(*aligned), 0


class _Transformed(_SumDouble):
    """The gradient inside of torch.func's transforms, which the dispatcher's does not know."""

    @staticmethod
    def forward(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return dispatched(a, b)

    setup_context = staticmethod(_setup_context)
    vmap = staticmethod(_batch)


def dispatched(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The sum by torch's dispatcher, or by the transforms of torch.func that are active."""
    if plain.is_transforming():
        return _Transformed.apply(a, b)  # type: ignore[no-any-return, no-untyped-call]
    return torch.ops.cudademo.sum_double(a, b)  # type: ignore[no-any-return]


def register() -> None:
    """Make it an operator of torch. Called once, by the package."""
    name = "cudademo::sum_double"
    torch.library.define(name, "(Tensor a, Tensor b) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
    torch.library.impl(name, "cuda", forward)
    torch.library.impl(name, "cpu", _on_cpu)
    torch.library.register_fake(name, _fake)
    torch.library.register_autograd(name, _gradients, setup_context=_setup_context)
    torch.library.register_vmap(name, _batch)


def _on_cpu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if emulation.active():
        return _forward_any(a, b)
    dtype = torch.result_type(a, b)
    out = _output_like(a, b, broadcast_shapes(a.shape, b.shape), dtype)
    return torch.add(a, b, out=out)
