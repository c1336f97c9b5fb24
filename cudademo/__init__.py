r"""CUDA C++ kernels on torch tensors, compiled at run time.

>>> import cudademo
>>> source = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }"
>>> twice = cudademo.kernel(source, "twice")  # compiled at the first twice[grid, block](x)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    from . import _core as _core
except ImportError as error:
    raise ImportError(
        f"{error}. The C++ core is not beside {__file__}: if that is a checkout, install it "
        "(pip install . or pip install -e .), and import cudademo from another folder"
    ) from None

from .emulation import use_emulator
from .errors import (
    ArgumentError,
    CacheWarning,
    CompileError,
    Diagnostic,
    EmulatorError,
    Error,
    LaunchError,
    ToolchainError,
    ToolchainWarning,
)
from .kernel import Kernel, Module, Signature, ceil_div, kernel, load, module
from .specialisation import block_dim, dtype_of

if TYPE_CHECKING:
    from .ops import sum_double_op, sum_single_op
    from .templating import template

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "CacheWarning",
    "CompileError",
    "Diagnostic",
    "EmulatorError",
    "Error",
    "Kernel",
    "LaunchError",
    "Module",
    "Signature",
    "ToolchainError",
    "ToolchainWarning",
    "block_dim",
    "ceil_div",
    "dtype_of",
    "kernel",
    "load",
    "module",
    "sum_double_op",
    "sum_single_op",
    "template",
    "use_emulator",
]

# Fetched at first use: the operators import torch, the templates Jinja2.
_LATE = {"sum_double_op": "ops", "sum_single_op": "ops", "template": "templating"}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_LATE[name]}", __name__), name)
    globals()[name] = value  # in place of a submodule of the same name, too
    return value
