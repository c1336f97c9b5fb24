"""What a template parameter of a kernel is bound to, and how that reads in C++."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

from . import _core

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class DtypeOf:
    """Bound to the C++ type of the dtype of the launch's argument at `position`."""

    position: int


@dataclass(frozen=True)
class BlockDim:
    """Bound to the number of threads in the launch's block, or to its extent along one axis."""

    axis: str | None = None

    @property
    def x(self) -> BlockDim:
        """The block's extent along x."""
        return BlockDim("x")

    @property
    def y(self) -> BlockDim:
        """The block's extent along y."""
        return BlockDim("y")

    @property
    def z(self) -> BlockDim:
        """The block's extent along z."""
        return BlockDim("z")

    def value(self, block: tuple[int, int, int]) -> int:
        """What it comes to for a block."""
        if self.axis is None:
            return block[0] * block[1] * block[2]
        return block["xyz".index(self.axis)]


@dataclass(frozen=True)
class DtypeName:
    """A dtype by torch's name for it, such as `bfloat16`: it needs no torch."""

    name: str


Value = Union["torch.dtype", DtypeName, int, bool, str]
Binding = Union[DtypeOf, BlockDim, Value]  # noqa: UP007

block_dim = BlockDim()


def dtype_of(position: int) -> DtypeOf:
    """Bind a template parameter to the dtype of the launch's argument at `position`, from 0.

    `torch.bfloat16` becomes `__nv_bfloat16`, and its header is included by itself.
    """
    if not isinstance(position, int) or position < 0:
        raise ValueError(f"the position of an argument counts from 0, not {position!r}")
    return DtypeOf(position)


@dataclass(frozen=True)
class Specialisation:
    """A name expression without free parameters, and the headers that its types need."""

    expression: str
    headers: tuple[str, ...] = ()


def free(bindings: Mapping[str, Binding]) -> list[str]:
    """The names that a launch has yet to settle."""
    return [name for name, value in bindings.items() if isinstance(value, (DtypeOf, BlockDim))]


def check(expression: str, bindings: Mapping[str, Binding]) -> None:
    """Raise where a name is not a parameter of the expression, or a value has no C++ form."""
    words = set(re.findall(r"\w+", expression))
    for name, value in bindings.items():
        if name not in words:
            raise TypeError(f"{expression} has no parameter {name}: it is bound to {value!r}")
        if not isinstance(value, (DtypeOf, BlockDim)):
            _cpp(name, value)


def specialise(expression: str, bindings: Mapping[str, Binding]) -> Specialisation:
    """Put values in the place of names.

    >>> specialise("axpy<T, BLOCK>", {"T": "float", "BLOCK": 256}).expression
    'axpy<float, 256>'
    """
    texts: dict[str, str] = {}
    headers: dict[str, None] = {}
    for name, value in bindings.items():
        texts[name], header = _cpp(name, value)
        if header:
            headers[header] = None
    replaced = re.sub(r"\w+", lambda word: texts.get(word[0], word[0]), expression)
    return Specialisation(replaced, tuple(headers))


def _cpp(name: str, value: Binding) -> tuple[str, str]:
    """The C++ text of a value and the header that it needs, or ''."""
    if isinstance(value, bool):
        return ("true" if value else "false"), ""
    if isinstance(value, (int, str)):
        return str(value), ""
    dtype = value.name if isinstance(value, DtypeName) else torch_name(value)
    if dtype:
        cpp_type, header = _core.cpp_type(dtype)
        if cpp_type:
            return cpp_type, header
        raise TypeError(f"{name}: CUDA C++ has no type for {dtype}")
    raise TypeError(
        f"{name} is bound to {value!r}: expected cudademo.dtype_of(...), cudademo.block_dim, "
        "a torch.dtype, an int, a bool, or C++ text as a str"
    )


def torch_name(value: object) -> str:
    """`float32` for torch.float32; '' for what is no dtype."""
    kind, _, name = str(value).partition(".")
    return name if kind == "torch" and type(value).__name__ == "dtype" else ""
