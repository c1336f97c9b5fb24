"""
The core of cudademo in C++: compile, keep, load and launch. Not a public interface.
"""

from __future__ import annotations
import collections.abc
import os
import pathlib
import typing

import torch

_Dim = int | tuple[int, ...] | list[int]
__all__: list[str] = [
    "Binary",
    "Cache",
    "EagerPair",
    "EagerTotal",
    "KernelBase",
    "Launcher",
    "Nvrtc",
    "Parameter",
    "Plan",
    "Resources",
    "capture_id",
    "compile",
    "configure_emulator",
    "cpp_type",
    "device_capability",
    "devices",
    "driver_version",
    "emulating",
    "emulator_executed",
    "emulator_options",
    "emulator_ordinal",
    "loaded_library",
    "make_plan",
    "reachable",
    "set_emulating",
    "set_reachable",
]
emulator_ordinal: int

class Parameter:
    """
    One parameter of a kernel.
    """
    @property
    def accepts(self) -> str:
        """
        The dtypes of arrays that a pointer takes, in words.
        """
    @property
    def dtype(self) -> str:
        """
        torch's name of a scalar's type.
        """
    @property
    def kind(self) -> str:
        """
        'pointer', 'scalar' or 'bytes' (a struct by value).
        """
    @property
    def name(self) -> str:
        """
        The source's own name, or ''.
        """
    @name.setter
    def name(self, arg0: str) -> None: ...
    @property
    def size(self) -> int:
        """
        Bytes.
        """
    @property
    def type(self) -> str:
        """
        As C++ spells it: 'float const*'.
        """
    @property
    def writes(self) -> bool:
        """
        True for a pointer to non-const.
        """

class Binary:
    """
    What one compile brought forth.
    """
    def lowered_name(self, kernel: str) -> str: ...
    def parameters(self, kernel: str) -> list[Parameter]: ...
    @property
    def architecture(self) -> str: ...
    @property
    def cubin(self) -> bytes: ...
    @property
    def kernels(self) -> list[str]: ...
    @property
    def log(self) -> str: ...
    @property
    def ptx(self) -> str: ...

class Nvrtc:
    """
    An opened NVRTC library.
    """
    def __init__(self, path: str) -> None: ...
    @property
    def architectures(self) -> list[int]: ...
    @property
    def path(self) -> str: ...
    @property
    def version(self) -> tuple[int, int]: ...

class Cache:
    """
    The on-disk store of binaries. Its methods raise nothing.
    """
    def __init__(self, folder: os.PathLike[str] | str | bytes) -> None: ...
    def load(self, digest: str, key: bytes) -> tuple[Binary | None, str]:
        """
        (Binary or None, what went wrong or '').
        """
    def path_of(self, digest: str) -> pathlib.Path: ...
    def store(self, digest: str, key: bytes, binary: Binary) -> str:
        """
        What went wrong, or ''.
        """

class Resources:
    """
    What one kernel takes of a device.
    """
    @property
    def constant_bytes(self) -> int: ...
    @property
    def local_bytes(self) -> int:
        """
        Of a thread: spills and arrays.
        """
    @property
    def max_threads_per_block(self) -> int: ...
    @property
    def registers(self) -> int:
        """
        Of a thread.
        """
    @property
    def shared_bytes(self) -> int:
        """
        Static, of a block.
        """

class Plan:
    """
    One kernel on one device.
    """
    @property
    def device(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> list[Parameter]: ...
    @property
    def resources(self) -> Resources: ...
    def max_active_blocks(self, block_threads: int, shared_bytes: int) -> int: ...

class KernelBase:
    """The base of cudademo.Kernel: kernel[grid, block] -> Launcher."""
    def __init__(self, name: str, bound: tuple[int, ...], block_bound: bool) -> None: ...
    def __getitem__(self, config: tuple[_Dim, _Dim] | tuple[_Dim, _Dim, int]) -> Launcher: ...
    def _prepare(
        self, dtypes: tuple[str, ...], block: tuple[int, int, int], device: int
    ) -> Plan: ...

class Launcher:
    """A kernel with its grid and block: call it with the arguments."""
    def __call__(
        self, *arguments: typing.Any, stream: typing.Any = None, cooperative: bool = False
    ) -> None: ...

class EagerPair:
    """Called with two tensors: the result, or None where the call is not a simple one."""
    def __init__(
        self,
        kernel: KernelBase,
        empty_like: typing.Callable[..., torch.Tensor],
        dtypes: tuple[str, ...],
        block: int,
        with_gradient: typing.Callable[..., torch.Tensor],
    ) -> None: ...
    def __call__(self, a: object, b: object) -> torch.Tensor | None: ...
    def forward(self, a: object, b: object) -> torch.Tensor | None:
        """As a call, without asking torch for a gradient."""

class EagerTotal:
    """Called with a tensor: its sum, or None where the call is not a simple one."""
    def __init__(
        self,
        rule_for: typing.Callable[[str, int], tuple[typing.Any, ...]],
        workspace_for: typing.Callable[[int], torch.Tensor],
        empty_like: typing.Callable[..., torch.Tensor],
        dtypes: tuple[str, ...],
        with_gradient: typing.Callable[..., torch.Tensor],
    ) -> None: ...
    def __call__(self, x: object) -> torch.Tensor | None: ...
    def forward(self, x: object) -> torch.Tensor | None:
        """As a call, without asking torch for a gradient."""

def capture_id(stream: typing.SupportsInt | typing.SupportsIndex) -> int:
    """
    The number of the CUDA graph capture under way on a stream; 0 for none.
    """

def compile(
    nvrtc: Nvrtc,
    source: str,
    name: str,
    architecture: str,
    headers: collections.abc.Mapping[str, str],
    options: collections.abc.Sequence[str],
    kernels: collections.abc.Sequence[str],
) -> Binary: ...
def configure_emulator(
    checks: bool,
    seed: typing.SupportsInt | typing.SupportsIndex,
    budget: typing.SupportsInt | typing.SupportsIndex,
    threads: typing.SupportsInt | typing.SupportsIndex,
    capability: tuple[int, int],
) -> None: ...
def cpp_type(dtype: str) -> tuple[str, str]: ...
def device_capability(device: typing.SupportsInt | typing.SupportsIndex) -> tuple[int, int]: ...
def devices() -> list[tuple[str, tuple[int, int]]]: ...
def driver_version() -> tuple[int, int]: ...
def emulating() -> bool:
    """
    True while kernels without arrays run on the emulator.
    """

def emulator_executed() -> int:
    """
    Instructions executed by the emulator's threads, in this process so far.
    """

def emulator_options() -> tuple[bool, int, int, int, tuple[int, int]]:
    """
    (checks, seed, budget, threads, (major, minor)) of the emulator.
    """

def loaded_library(stem: str) -> str | None: ...
def make_plan(
    digest: str,
    binary: Binary,
    kernel: str,
    name: str,
    device: typing.SupportsInt | typing.SupportsIndex,
    parameter_names: collections.abc.Sequence[str],
) -> Plan: ...
def reachable() -> tuple[typing.Any, ...]:
    """
    Arrays that launches on the emulator may touch beside their arguments.
    """

def set_emulating(on: bool) -> None: ...
def set_reachable(arrays: tuple[typing.Any, ...]) -> None: ...
