"""From a source to a binary: looked up in memory, on disk, else compiled; once a key."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from . import _core, cache, diagnostics, headers, toolchain
from .errors import CompileError, Error

DEFAULT_ARCHITECTURE = "sm_90"
_KEY_FORMAT = b"cudademo key 1"
_DEBUG_OPTIONS = ("-G", "--device-debug", "-lineinfo", "--generate-line-info")

log = logging.getLogger("cudademo")


@dataclass(frozen=True)
class Source:
    """A source with all that is compiled along with it.

    Attributes:
        text: CUDA C++.
        file: where the text came from; None for a string.
        include_dirs: folders of the user's own headers.
        headers: include name -> contents.
        options: of NVRTC, without those that the other fields stand for.
        architecture: such as `sm_90a`; None for the device's own.
    """

    text: str
    file: Path | None = None
    include_dirs: tuple[Path, ...] = ()
    headers: Mapping[str, str] | None = None
    options: tuple[str, ...] = ()
    architecture: str | None = None


@dataclass(frozen=True)
class Compiled:
    """A binary and how it came about.

    Attributes:
        digest: of its key.
        binary: the cubin, its PTX and its kernels.
        source: the text that was compiled.
        origin: `disk cache` or `compiler`.
        seconds: that this took.
    """

    digest: str
    binary: _core.Binary
    source: str
    origin: str
    seconds: float


def make_source(
    text: str,
    *,
    file: Path | None = None,
    options: Sequence[str] = (),
    defines: Mapping[str, object] | None = None,
    include_dirs: Iterable[str | Path] = (),
    headers: Mapping[str, str] | None = None,
    architecture: str | None = None,
) -> Source:
    """A Source from what a user gives; include folders and architectures in `options` are honoured.

    Raises:
        TypeError: for options in one string.
    """
    if isinstance(options, str):
        raise TypeError(f"options is a list of strings, such as {options.split()!r}")
    if isinstance(include_dirs, (str, Path)):
        raise TypeError(f"include_dirs is a list of folders, such as [{str(include_dirs)!r}]")
    kept: list[str] = []
    folders = [Path(folder).absolute() for folder in include_dirs]
    before: list[str] = []
    waiting = iter(options)
    for option in waiting:
        name, _, value = option.partition("=")
        if name in ("-I", "--include-path"):
            folders.append(Path(value or next(waiting, "")).absolute())
        elif option.startswith("-I"):
            folders.append(Path(option[2:]).absolute())
        elif name in ("-include", "--pre-include"):
            before.append(f'#include "{value or next(waiting, "")}"\n')
        elif name in ("-arch", "--gpu-architecture"):
            architecture = value or next(waiting, "")
        else:
            kept.append(option)
    kept += [f"--define-macro={name}={_macro(value)}" for name, value in (defines or {}).items()]
    if before:
        text = "".join(before) + "#line 1\n" + text
    return Source(text, file, tuple(folders), dict(headers or {}), tuple(kept), architecture)


def compiled(
    source: Source,
    kernels: Sequence[str],
    type_headers: Sequence[str] = (),
    capability: tuple[int, int] | str | None = None,
) -> Compiled:
    """The binary of these name expressions.

    Args:
        source: what they are in.
        kernels: the name expressions, without free parameters.
        type_headers: included ahead of the source.
        capability: the device's, or an architecture such as `compute_80`; None for the first
            GPU's, or `sm_90` where there is none.

    Raises:
        CompileError: the compiler refused the source or a name.
        ToolchainError: there is no NVRTC, or none that fits the driver and the device.
    """
    started = time.perf_counter()

    def attempt() -> Compiled:
        job = _Job(source, tuple(sorted(set(kernels))), tuple(type_headers), capability)
        return _once(job.digest, lambda: job.run(started))

    try:
        return attempt()
    except toolchain.StaleToolchainError:  # NVRTC was there when it was remembered
        toolchain.forget(cache.folder(), _driver_version())
        current_toolchain.cache_clear()
        return attempt()


def first_capability() -> tuple[int, int] | None:
    """The compute capability of the first GPU; None where there is none."""
    with contextlib.suppress(Error):
        devices = _core.devices()
        if devices:
            return devices[0][1]
    return None


@functools.cache
def current_toolchain() -> toolchain.Toolchain:
    """The toolchain of this process, looked for once; a failure is looked for again."""
    return toolchain.current(cache.folder(), _driver_version())


def _driver_version() -> tuple[int, int] | None:
    try:
        return _core.driver_version()
    except Error:
        return None


class _Job:
    """One compile: its text, its key, and the run of it."""

    def __init__(
        self,
        source: Source,
        kernels: tuple[str, ...],
        type_headers: tuple[str, ...],
        capability: tuple[int, int] | str | None,
    ) -> None:
        tools = current_toolchain()
        self._user = source
        self._kernels = kernels
        self._tools = tools
        self._architecture = source.architecture or self._target(capability)
        includes = "".join(f"#include <{header}>\n" for header in type_headers)
        self._text = f"{includes}#line 1\n{source.text}" if includes else source.text
        self._scan = headers.scan(
            self._text,
            origin_dir=source.file.parent if source.file else None,
            include_dirs=source.include_dirs,
            headers=source.headers or {},
            toolkit_dirs=self._toolkit_dirs,
            memo_dir=cache.folder(),
        )
        self._options = list(source.options)
        if not any(option in _DEBUG_OPTIONS for option in source.options):
            self._options.append("--generate-line-info")
        self._key = _key(
            [
                _KEY_FORMAT,
                self._text,
                self._scan.digest,
                self._architecture,
                _key(self._options),
                _key(kernels),
                f"{tools.version[0]}.{tools.version[1]}",
                tools.build,
            ]
        )
        self.digest = hashlib.sha256(self._key).hexdigest()

    def run(self, started: float) -> Compiled:
        binary = cache.load(self.digest, self._key)
        if binary is not None:
            return self._done(binary, "disk cache", started)
        binary = self._compile()
        cache.store(self.digest, self._key, binary)
        if binary.log.strip():
            log.warning("%s: the compiler remarks:\n%s", self._title(), binary.log.strip())
        done = self._done(binary, "compiler", started)
        log.info("compiled %s in %.0f ms: not in the cache", self._title(), done.seconds * 1e3)
        return done

    def _compile(self) -> _core.Binary:
        file = str(self._user.file or cache.keep_source(self._text) or "kernel.cu")
        given = dict(self._user.headers or {})
        folders = [self._user.file.parent] if self._user.file else []
        folders += self._user.include_dirs
        if self._scan.uses_toolkit:
            folders += self._toolkit_dirs()
        options = self._options + [f"--include-path={folder}" for folder in folders]
        try:
            return _core.compile(
                toolchain.open_nvrtc(self._tools),
                self._text,
                file,
                self._architecture,
                {**self._scan.headers, **given},
                options,
                list(self._kernels),
            )
        except CompileError as error:
            raise diagnostics.explain(
                error.log,
                title=self._title(),
                source=self._text,
                user_source=self._user.text,
                file=file,
                kernels=list(self._kernels),
                toolkit_dirs=self._toolkit_dirs,
            ) from None

    def _done(self, binary: _core.Binary, origin: str, started: float) -> Compiled:
        return Compiled(self.digest, binary, self._text, origin, time.perf_counter() - started)

    def _target(self, capability: tuple[int, int] | str | None) -> str:
        if isinstance(capability, str):
            return capability
        capability = capability or first_capability()
        if capability is None:
            return DEFAULT_ARCHITECTURE
        return toolchain.target(self._tools, capability)[0]

    def _toolkit_dirs(self) -> list[Path]:
        return toolchain.include_dirs(self._tools)

    def _title(self) -> str:
        return f"{', '.join(self._kernels)} for {self._architecture}"


def _macro(value: object) -> str:
    """A macro's value: True and False as 1 and 0, so that `#if` works on them."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _key(parts: Iterable[str | bytes]) -> bytes:
    """The parts, each behind its length, so that no two lists read alike."""
    key = bytearray()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        key += len(data).to_bytes(8, "little") + data
    return bytes(key)


_guard = threading.Lock()
_ready: dict[str, Compiled] = {}
_pending: dict[str, Future[Compiled]] = {}


def _once(digest: str, make: Callable[[], Compiled]) -> Compiled:
    """Run `make` once for all threads that ask at the same time, and remember its result.

    They share a failure as well, but for an interrupt, which is its own thread's affair; a later
    call tries again.
    """
    while True:
        with _guard:
            if digest in _ready:
                return _ready[digest]
            future = _pending.get(digest)
            if future is None:
                mine: Future[Compiled] = Future()
                _pending[digest] = mine
                break
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, Exception):
            raise error
    try:
        result = make()
        with _guard:
            _ready[digest] = result
        mine.set_result(result)
    except BaseException as error:  # an interrupt may come at any line
        if not mine.done():
            mine.set_exception(error)
        raise
    finally:
        with _guard:
            _pending.pop(digest, None)
    return result
