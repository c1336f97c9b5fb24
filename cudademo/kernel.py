"""Kernels as a user meets them: made from a source, specialised and launched by a call."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _core, compilation, declarations, emulation, inspect, specialisation
from .compilation import Compiled, Source
from .errors import Error
from .specialisation import Binding, BlockDim, DtypeName, DtypeOf, Specialisation

__all__ = ["Kernel", "Module", "Signature", "Variant", "ceil_div", "kernel", "load", "module"]


def kernel(
    source: str,
    name: str,
    *,
    options: Sequence[str] = (),
    defines: Mapping[str, object] | None = None,
    include_dirs: Iterable[str | Path] = (),
    headers: Mapping[str, str] | None = None,
    architecture: str | None = None,
    **bindings: Binding,
) -> Kernel:
    """A kernel of a source given as text. Nothing is compiled until its first launch.

    Args:
        source: CUDA C++.
        name: the kernel's name expression: `"scale"`, `"ns::scale<float>"`, or with names bound
            below, `"scale<T, BLOCK>"`.
        options: NVRTC's own, such as `["--use_fast_math"]`.
        defines: macros and their values.
        include_dirs: folders of your own headers; CUDA's are found by themselves.
        headers: headers given as text, by the name that they are included under.
        architecture: the target, such as `"sm_90a"`; by default that of the tensors' device.
        **bindings: for each bound name `dtype_of(...)`, `block_dim`, a `torch.dtype`, an int, a
            bool, or C++ text.

    Raises:
        TypeError: for a binding that the name has no place for, or a value without C++ form.

    Example:
        >>> scale = kernel(
        ...     "template <typename T> __global__ void scale(T* x, T a) { x[threadIdx.x] *= a; }",
        ...     "scale<T>",
        ...     T="float",
        ... )
        >>> print(scale.signature())
        scale<float>(float* x, float a)
    """
    return module(
        source,
        options=options,
        defines=defines,
        include_dirs=include_dirs,
        headers=headers,
        architecture=architecture,
    ).kernel(name, **bindings)


def module(
    source: str,
    *,
    options: Sequence[str] = (),
    defines: Mapping[str, object] | None = None,
    include_dirs: Iterable[str | Path] = (),
    headers: Mapping[str, str] | None = None,
    architecture: str | None = None,
    kernels: Sequence[str] = (),
) -> Module:
    """Many kernels from one source given as text.

    Arguments as in `kernel`; `kernels` are name expressions that are compiled together, at the
    first use of one of them.
    """
    made = compilation.make_source(
        source,
        options=options,
        defines=defines,
        include_dirs=include_dirs,
        headers=headers,
        architecture=architecture,
    )
    return Module(made, tuple(kernels))


def load(
    path: str | Path,
    *,
    options: Sequence[str] = (),
    defines: Mapping[str, object] | None = None,
    include_dirs: Iterable[str | Path] = (),
    headers: Mapping[str, str] | None = None,
    architecture: str | None = None,
    kernels: Sequence[str] = (),
) -> Module:
    """Many kernels from a `.cu` file. Arguments as in `module`; the file's folder is searched too.

    Raises:
        FileNotFoundError: there is no such file.
    """
    file = Path(path).absolute()
    made = compilation.make_source(
        file.read_text(),
        file=file,
        options=options,
        defines=defines,
        include_dirs=include_dirs,
        headers=headers,
        architecture=architecture,
    )
    return Module(made, tuple(kernels))


def ceil_div(dividend: int, divisor: int) -> int:
    """The quotient rounded upwards: the blocks that cover `dividend` elements.

    >>> ceil_div(1000, 256)
    4
    """
    return -(-dividend // divisor)


@dataclass(frozen=True)
class Signature:
    """A kernel's parameters as the compiler sees them."""

    kernel: str
    parameters: tuple[_core.Parameter, ...]

    def __str__(self) -> str:
        texts = [f"{p.type} {p.name}".strip() for p in self.parameters]
        return f"{self.kernel}({', '.join(texts)})"


@dataclass(frozen=True)
class Variant:
    """One specialisation of a kernel.

    Attributes:
        expression: its name expression.
        compiled: its binary, and where that came from.
    """

    expression: str
    compiled: Compiled


class Module:
    """The kernels of one source: `module.kernel("ns::k<float>")`, or `module.k`."""

    def __init__(self, source: Source, together: tuple[str, ...] = ()) -> None:
        self._source = source
        self._together = together
        self._plain: dict[str, Kernel] = {}

    @property
    def kernels(self) -> list[str]:
        """The kernels that the source's text declares."""
        return declarations.kernels(self._source.text)

    def kernel(self, name: str, **bindings: Binding) -> Kernel:
        """One kernel, by its name expression. Raises TypeError as `cudademo.kernel` does."""
        return Kernel(self._source, name, bindings, self._together)

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._plain:
            if "#include" not in self._source.text and name not in self._source.text:
                raise AttributeError(f"no kernel {name}; the source has: {', '.join(self.kernels)}")
            self._plain[name] = self.kernel(name)
        return self._plain[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self.kernels if name.isidentifier())]

    def __repr__(self) -> str:
        return f"<cudademo.Module of {self._source.file or 'a string'}: {', '.join(self.kernels)}>"


class Kernel(_core.KernelBase):
    """A kernel: `kernel[grid, block](*arguments)` or `kernel[grid, block, shared_bytes](...)`.

    `grid` and `block` are an int or up to three, in blocks and threads; `shared_bytes` is dynamic
    shared memory. Arguments are arrays on a CUDA device (torch, CuPy, JAX, numba), numbers, `None`
    for a null pointer, and bytes for structs, checked and converted by the kernel's signature.
    It is launched on torch's current stream of the arrays' device, or on `stream=`. With
    `cooperative=True` all of its blocks run at once, as `cooperative_groups::this_grid().sync()`
    needs; `max_active_blocks` tells how many that may be.

    Arrays in the CPU's memory (torch, NumPy) make it run there, on the emulator: see
    `use_emulator`.

    A launch raises CompileError, ArgumentError, LaunchError or ToolchainError, on the emulator
    EmulatorError; see cudademo.errors.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        bindings: Mapping[str, Binding],
        together: tuple[str, ...] = (),
    ) -> None:
        specialisation.check(name, bindings)
        self._source = source
        self._name = name
        self._bindings = dict(bindings)
        self._together = together
        self._variants: dict[tuple[str, tuple[int, int] | str | None], Variant] = {}
        self._specialised: dict[tuple[tuple[str, Binding], ...], Kernel] = {}
        values = bindings.values()
        self._positions = tuple(
            sorted({value.position for value in values if isinstance(value, DtypeOf)})
        )
        block_bound = any(isinstance(value, BlockDim) for value in values)
        super().__init__(name, self._positions, block_bound)

    def __repr__(self) -> str:
        bound = "".join(f", {name}={value!r}" for name, value in self._bindings.items())
        return f"<cudademo.Kernel {self._name}{bound}>"

    @property
    def variants(self) -> list[Variant]:
        """The specialisations made so far, in this process, in order."""
        return list(self._variants.values())

    def latest(self) -> Variant:
        """The variant compiled last; the only one for a kernel without free names."""
        return self._variant({})

    def specialize(self, **bindings: Binding) -> Kernel:
        """The kernel with some of its names bound by hand: `specialize(T=torch.bfloat16)`."""
        key = tuple(sorted(bindings.items()))
        if key not in self._specialised:
            merged = {**self._bindings, **bindings}
            self._specialised[key] = Kernel(self._source, self._name, merged, self._together)
        return self._specialised[key]

    def preload(self, *, device: Any = None, **bindings: Binding) -> Kernel:
        """Compile and load a variant on a device without launching it; returns the kernel.

        After it a launch with these dtypes and this block compiles and loads nothing: not under
        CUDA graph capture, nor while another kernel keeps the GPU busy.

        Args:
            device: an ordinal, `"cuda:1"`, `"cpu"` for the emulator, or a torch.device; by default
                torch's current one, or the emulator where `use_emulator` is on.
            **bindings: a value for each name bound to `dtype_of` (a torch.dtype) and `block_dim`
                (an int, or a tuple of up to three).
        """
        self._planned(bindings, None, device)
        return self

    def max_active_blocks(
        self,
        block: int | Sequence[int],
        shared_bytes: int = 0,
        *,
        device: Any = None,
        **bindings: Binding,
    ) -> int:
        """The blocks that a device runs at once: the largest grid of a cooperative launch.

        Args:
            block: threads, an int or up to three.
            shared_bytes: dynamic shared memory of a block, in bytes.
            device: as in `preload`.
            **bindings: a torch.dtype for each name bound to `dtype_of`.

        Raises:
            LaunchError: a block has more shared memory than the device.

        Source: cuOccupancyMaxActiveBlocksPerMultiprocessor of the CUDA driver API, times the
        device's multiprocessors.
        """
        extents = _extents(block)
        plan = self._planned(bindings, extents, device)
        return plan.max_active_blocks(math.prod(extents), shared_bytes)

    def _planned(
        self, bindings: Mapping[str, Binding], block: list[int] | None, device: Any
    ) -> _core.Plan:
        """The plan of a launch with these dtypes, and with a block given here or bound by name."""
        dtypes = {}
        extents = block or [1, 1, 1]
        for name in specialisation.free(self._bindings):
            bound = self._bindings[name]
            if block and isinstance(bound, BlockDim):
                continue
            if name not in bindings:
                raise TypeError(f"{self._name}: a value for {name} is needed")
            value: Any = bindings[name]
            if isinstance(bound, DtypeOf):
                dtypes[bound.position] = str(value).removeprefix("torch.")
            elif isinstance(bound, BlockDim) and bound.axis:
                extents["xyz".index(bound.axis)] = int(value)
            else:
                extents = _extents(value)
        names = tuple(dtypes[position] for position in self._positions)
        return self._prepare(names, (extents[0], extents[1], extents[2]), _ordinal(device))

    def ptx(self, **bindings: Binding) -> str:
        """The PTX of a variant: of these bindings, else of the latest one launched."""
        return self._variant(bindings).compiled.binary.ptx

    def cubin(self, **bindings: Binding) -> bytes:
        """The cubin of a variant, an ELF file; bindings as in `ptx`."""
        return self._variant(bindings).compiled.binary.cubin

    def sass(self, **bindings: Binding) -> str:
        """The machine code of a variant as text; bindings as in `ptx`.

        Raises:
            ToolchainError: neither nvdisasm nor cuobjdump is installed.
        """
        return inspect.disassemble(self.cubin(**bindings))

    def source(self, **bindings: Binding) -> str:
        """The text that a variant was compiled from; bindings as in `ptx`."""
        return self._variant(bindings).compiled.source

    def signature(self, **bindings: Binding) -> Signature:
        """The parameters of a variant; bindings as in `ptx`."""
        variant = self._variant(bindings)
        parameters = variant.compiled.binary.parameters(variant.expression)
        names = declarations.parameter_names(self._source.text, self._name)
        if len(names) == len(parameters):
            for parameter, name in zip(parameters, names, strict=True):
                parameter.name = name
        return Signature(variant.expression, tuple(parameters))

    def resources(self, **bindings: Binding) -> _core.Resources:
        """What a variant takes of the current device: registers, shared and local memory.

        Raises:
            ToolchainError: there is no driver to ask.
        """
        variant = self._variant(bindings)
        return self._plan(variant, _ordinal(None)).resources

    def _resolve(
        self, dtypes: tuple[str, ...], block: tuple[int, int, int], device: int
    ) -> _core.Plan:
        """The plan for a launch; called by the core when it has none for this key."""
        by_position = dict(zip(self._positions, dtypes, strict=True))
        values: dict[str, Binding] = {}
        for name, binding in self._bindings.items():
            if isinstance(binding, DtypeOf):
                values[name] = DtypeName(by_position[binding.position])
            elif isinstance(binding, BlockDim):
                values[name] = binding.value(block)
            else:
                values[name] = binding
        special = specialisation.specialise(self._name, values)
        if device == _core.emulator_ordinal:
            emulation.announce()
            return self._plan(self._compile(special, emulation.target()), device)
        return self._plan(self._compile(special, _capability(device)), device)

    def _plan(self, variant: Variant, device: int) -> _core.Plan:
        return _core.make_plan(
            variant.compiled.digest,
            variant.compiled.binary,
            variant.expression,
            variant.expression,
            device,
            list(declarations.parameter_names(self._source.text, self._name)),
        )

    def _variant(self, bindings: Mapping[str, Binding]) -> Variant:
        merged = {**self._bindings, **bindings}
        specialisation.check(self._name, merged)
        open_names = specialisation.free(merged)
        if not open_names:
            special = specialisation.specialise(self._name, merged)
            return self._compile(special, compilation.first_capability())
        if not bindings and self._variants:
            return next(reversed(self._variants.values()))
        raise Error(
            f"{self._name}: {' and '.join(open_names)} come from a launch, and there was none yet; "
            "launch it, or give them here, such as "
            + ", ".join(f"{name}={_example(self._bindings[name])}" for name in open_names)
        )

    def _compile(
        self, special: Specialisation, capability: tuple[int, int] | str | None
    ) -> Variant:
        known = self._variants.get((special.expression, capability))
        if known:
            return known
        kernels: Sequence[str] = (special.expression,)
        if special.expression in self._together:
            kernels = self._together
        made = compilation.compiled(self._source, kernels, special.headers, capability)
        variant = Variant(special.expression, made)
        self._variants[(special.expression, capability)] = variant
        return variant


def _example(binding: Binding) -> str:
    return "torch.float32" if isinstance(binding, DtypeOf) else "256"


def _extents(block: Any) -> list[int]:
    """A block's three extents, of which one or two may be left out."""
    given = block if isinstance(block, (tuple, list)) else (block,)
    if not 1 <= len(given) <= 3:
        raise TypeError(f"a block is an int or up to three, not {block!r}")
    return [*map(int, given), *(1,) * (3 - len(given))]


def _ordinal(device: Any) -> int:
    """The ordinal of a device given as an int, as text or by torch; None is torch's current one.

    The CPU is the emulator's.
    """
    if isinstance(device, int):
        return device
    if device is None and _core.emulating():
        return _core.emulator_ordinal
    import torch

    if device is not None:
        given = torch.device(device)
        if given.type == "cpu":
            return _core.emulator_ordinal
        if given.index is not None:
            return int(given.index)
    return int(torch.cuda.current_device()) if torch.cuda.is_available() else 0


@functools.cache
def _capability(device: int) -> tuple[int, int]:
    return _core.device_capability(device)
