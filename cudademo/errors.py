"""The errors and warnings of cudademo: all facts are attributes, the message says them in words."""

from __future__ import annotations

import linecache
from dataclasses import dataclass


class Error(Exception):
    """The base of all of cudademo's errors."""


@dataclass(frozen=True)
class Diagnostic:
    """One remark of the compiler."""

    file: str
    line: int
    severity: str
    text: str


class CompileError(Error):
    """The source was refused by the compiler.

    Attributes:
        log: NVRTC's own text.
        diagnostics: the log's remarks, parsed.
        source: the source that was compiled, rendered.
    """

    def __init__(
        self,
        message: str,
        *,
        log: str = "",
        diagnostics: tuple[Diagnostic, ...] = (),
        source: str = "",
    ) -> None:
        super().__init__(message)
        self.log = log
        self.diagnostics = diagnostics
        self.source = source


class ArgumentError(Error, TypeError):
    """An argument of a launch does not fit the kernel's parameter. Nothing was launched.

    Attributes:
        kernel: the kernel, as it was specialised.
        position: of the argument, from 0; -1 for the arguments as a whole.
        expected: what the kernel takes.
        got: what came.
    """

    def __init__(
        self,
        message: str,
        *,
        kernel: str = "",
        position: int = -1,
        expected: str = "",
        got: str = "",
    ) -> None:
        super().__init__(message)
        self.kernel = kernel
        self.position = position
        self.expected = expected
        self.got = got


class LaunchError(Error):
    """The driver refused a call.

    Attributes:
        call: the driver's function.
        code: its result.
        name: the driver's word for that, such as `CUDA_ERROR_INVALID_VALUE`.
    """

    def __init__(self, message: str, *, call: str = "", code: int = 0, name: str = "") -> None:
        super().__init__(message)
        self.call = call
        self.code = code
        self.name = name


class EmulatorError(Error):
    """The emulator found a fault in a kernel. What the launch wrote until then stays written.

    Attributes:
        kind: `out of bounds`, `use after free`, `misaligned`, `uninitialised read`, `race`,
            `barrier`, `deadlock`, `endless loop`, `trap`, `assertion`, `unsupported` or
            `invalid operation`.
        kernel: the kernel, as it was specialised.
        block: of the thread at fault: x, y, z.
        thread: within its block: x, y, z.
        address: of the access, in its space; 0 where there was none.
        size: of the access, in bytes; 0 where there was none.
        array: what the access was in or nearest to, by argument position and shape; of an array
            of an earlier launch, by its kernel too.
        file: of the user's source.
        line: of the user's source, from 1; 0 where it is not known.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        kernel: str = "",
        block: tuple[int, int, int] = (0, 0, 0),
        thread: tuple[int, int, int] = (0, 0, 0),
        address: int = 0,
        size: int = 0,
        array: str = "",
        file: str = "",
        line: int = 0,
    ) -> None:
        if line:
            text = linecache.getline(file, line).strip()
            message += f"\n{file}:{line}" + (f": {text}" if text else "")
        super().__init__(message)
        self.kind = kind
        self.kernel = kernel
        self.block = block
        self.thread = thread
        self.address = address
        self.size = size
        self.array = array
        self.file = file
        self.line = line


class ToolchainError(Error):
    """NVRTC, its headers or the driver are not there, or do not fit together."""


class CacheWarning(UserWarning):
    """The cache on disk does not work; kernels are compiled anew in each process."""


class EmulatorWarning(UserWarning):
    """Kernels run on the CPU, by the emulator: the same results, slowly."""


class ToolchainWarning(UserWarning):
    """The toolchain works, but not as well as it could."""
