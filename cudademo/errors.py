"""The errors and warnings of cudademo: all facts are attributes, the message says them in words."""

from __future__ import annotations

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


class ToolchainError(Error):
    """NVRTC, its headers or the driver are not there, or do not fit together."""


class CacheWarning(UserWarning):
    """The cache on disk does not work; kernels are compiled anew in each process."""


class ToolchainWarning(UserWarning):
    """The toolchain works, but not as well as it could."""
