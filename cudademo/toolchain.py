"""Which NVRTC compiles, and where CUDA's headers are.

Looked for with cuda-pathfinder, after what the environment names and what the process has loaded
already. Once found, it is remembered beside the cache by the library file's identity, so that a
process whose kernels are all cached opens no NVRTC and searches for nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import struct
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import _core
from .errors import ToolchainError, ToolchainWarning
from .files import write_atomically

_INSTALL = {12: "pip install 'cudademo[cu12]'", 13: "pip install 'cudademo[cu13]'"}
_ENVIRONMENT = ("CUDADEMO_NVRTC", "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "LD_LIBRARY_PATH")
_USUAL_TOOLKIT = Path("/usr/local/cuda")


@dataclass(frozen=True)
class Toolchain:
    """An NVRTC, described without being opened.

    Attributes:
        nvrtc: the library's absolute path.
        found_by: `CUDADEMO_NVRTC`, `already loaded`, or pathfinder's word, such as
            `site-packages`.
        version: major and minor.
        build: what tells two builds of one version apart.
        architectures: the compute capabilities that it compiles for, ascending: 75, 80, ...
    """

    nvrtc: str
    found_by: str
    version: tuple[int, int]
    build: str
    architectures: tuple[int, ...]


class StaleToolchainError(ToolchainError):
    """The remembered NVRTC is not there any more; the next search may find another."""


def current(memo_dir: Path | None, driver_version: tuple[int, int] | None) -> Toolchain:
    """The NVRTC of this process.

    Args:
        memo_dir: where it is remembered; None remembers nothing.
        driver_version: of the CUDA driver; None where there is none.

    Raises:
        ToolchainError: there is none, its builtins library is missing, or its major version is
            newer than the driver's.
    """
    path, found_by = _named_or_loaded()
    memo = _memo_path(memo_dir, path, driver_version) if memo_dir else None
    known = _recall(memo)
    if known is None:
        if not path:
            path, found_by = _search()
        known = _describe(path, found_by)
        _remember(memo, known)
    _check_driver(known, driver_version)
    return known


def forget(memo_dir: Path | None, driver_version: tuple[int, int] | None) -> None:
    """Search anew at the next call of `current`."""
    if memo_dir:
        path, _ = _named_or_loaded()
        _memo_path(memo_dir, path, driver_version).unlink(missing_ok=True)


_opened: dict[str, _core.Nvrtc] = {}
_opening = threading.Lock()


def open_nvrtc(toolchain: Toolchain) -> _core.Nvrtc:
    """The opened library; once a path and process.

    Raises:
        StaleToolchainError: the file is gone or another one by now.
        ToolchainError: it does not open.
    """
    with _opening:
        if toolchain.nvrtc not in _opened:
            if not Path(toolchain.nvrtc).exists():
                raise StaleToolchainError(f"NVRTC was at {toolchain.nvrtc} and is not any more")
            library = _core.Nvrtc(toolchain.nvrtc)
            if library.version != toolchain.version:
                raise StaleToolchainError(f"{toolchain.nvrtc} has become another version")
            _opened[toolchain.nvrtc] = library
        return _opened[toolchain.nvrtc]


def target(toolchain: Toolchain, capability: tuple[int, int]) -> tuple[str, bool]:
    """What to compile for a device.

    Returns:
        `("sm_90", True)` for a cubin; `("compute_90", False)` for PTX, which the driver compiles,
        where NVRTC does not know the device. That is one ToolchainWarning.

    Raises:
        ToolchainError: the device is older than all that this NVRTC compiles for.
    """
    wanted = capability[0] * 10 + capability[1]
    if wanted in toolchain.architectures:
        return f"sm_{wanted}", True
    version = f"NVRTC {toolchain.version[0]}.{toolchain.version[1]}"
    older = [known for known in toolchain.architectures if known < wanted]
    if not older:
        raise ToolchainError(
            f"{version} compiles for compute capability {toolchain.architectures[0] / 10} and "
            f"later, the GPU has {wanted / 10}: an earlier NVRTC is needed ({_INSTALL[12]})"
        )
    _warn_once(
        f"{version} does not know compute capability {wanted / 10}: kernels are compiled to PTX "
        f"for {older[-1] / 10}, and by the driver from there; a later NVRTC knows it "
        f"({_INSTALL.get(toolchain.version[0], _INSTALL[13])} --upgrade)"
    )
    return f"compute_{older[-1]}", False


def include_dirs(toolchain: Toolchain) -> list[Path]:
    """The folders of CUDA's headers for this NVRTC, CCCL's where that is a separate one.

    A toolkit of the very same version is the last, for what the wheels leave out (crt, cuRAND).

    `CUDADEMO_INCLUDE` overrides. A folder of another major version than NVRTC's is passed over.
    What is not installed is not in the list: a kernel without includes needs none of it.
    """
    named = os.environ.get("CUDADEMO_INCLUDE")
    if named:
        return [Path(folder) for folder in named.split(os.pathsep) if folder]
    return list(_include_dirs(toolchain))


_known_include_dirs: dict[Toolchain, tuple[Path, ...]] = {}


def _include_dirs(toolchain: Toolchain) -> tuple[Path, ...]:
    if toolchain not in _known_include_dirs:
        folders = _cuda_headers(toolchain)
        if not any((folder / "cuda" / "std").is_dir() for folder in folders):
            folders += _cccl_headers(folders)
        folders += _same_toolkit(folders)
        _known_include_dirs[toolchain] = tuple(folders)
    return _known_include_dirs[toolchain]


def _cuda_headers(toolchain: Toolchain) -> list[Path]:
    """The folder with cuda_fp16.h and its like, of NVRTC's major version; none where there is none.

    NVRTC's own installation comes first; pathfinder is imported only where that has no headers.
    """
    places: list[Callable[[], list[Path]]] = [
        lambda: _own_tree(toolchain),
        lambda: _found_by_pathfinder("cudart"),
        _toolkits,
    ]
    for place in places:
        for folder in place():
            version = header_version(folder)
            if version and version[0] == toolchain.version[0]:
                return [folder]
    return []


def _cccl_headers(cuda: list[Path]) -> list[Path]:
    """The folder with CUB, Thrust and libcu++."""
    places: list[Callable[[], list[Path]]] = [
        lambda: [folder / "cccl" for folder in cuda],
        lambda: _found_by_pathfinder("cccl"),
        lambda: [folder / "cccl" for folder in _toolkits()],
    ]
    for place in places:
        for folder in place():
            if (folder / "cuda" / "std" / "cstdint").exists():
                return [folder]
    return []


def _same_toolkit(folders: list[Path]) -> list[Path]:
    """A toolkit's folder of the version of the first of the folders, where that is another one."""
    for folder in _toolkits() if folders else []:
        if folder in folders:
            break
        if header_version(folder) == header_version(folders[0]):
            return [folder]
    return []


def header_version(folder: Path) -> tuple[int, int] | None:
    """The CUDA version of a folder of headers; None where it does not tell."""
    try:
        text = (folder / "cuda_runtime_api.h").read_text(errors="replace")
    except OSError:
        return None
    match = re.search(r"^#define\s+CUDART_VERSION\s+(\d+)", text, re.MULTILINE)
    return (int(match[1]) // 1000, int(match[1]) % 1000 // 10) if match else None


def toolkit_roots() -> list[Path]:
    """Where a CUDA toolkit may be installed, the likeliest first."""
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    nvcc = shutil.which("nvcc")
    roots += [str(Path(nvcc).resolve().parent.parent)] if nvcc else []
    return [*(Path(root) for root in roots if root), _USUAL_TOOLKIT]


def _named_or_loaded() -> tuple[str, str]:
    named = os.environ.get("CUDADEMO_NVRTC")
    if named:
        if not Path(named).exists():
            raise ToolchainError(f"CUDADEMO_NVRTC names {named}, which is not there")
        return str(Path(named).resolve()), "CUDADEMO_NVRTC"
    loaded = _core.loaded_library("libnvrtc.so.")
    return (str(Path(loaded).resolve()), "already loaded") if loaded else ("", "")


def _search() -> tuple[str, str]:
    from cuda import pathfinder  # some 40 ms: only where the library is not known yet

    try:
        found = pathfinder.load_nvidia_dynamic_lib("nvrtc")
    except Exception as error:
        raise ToolchainError(
            "no NVRTC: neither loaded in this process, nor in site-packages, conda, CUDA_PATH or "
            f"on the loader's path; {_INSTALL[13]} (for a driver of CUDA 12: {_INSTALL[12]}), or "
            f"name the library in CUDADEMO_NVRTC. pathfinder says: {_first_line(error)}"
        ) from None
    return str(Path(str(found.abs_path)).resolve()), str(getattr(found, "found_via", "pathfinder"))


def _describe(path: str, found_by: str) -> Toolchain:
    with _opening:
        library = _opened[path] if path in _opened else _core.Nvrtc(path)
        _opened[path] = library
    major, minor = library.version
    builtins = Path(path).with_name(f"libnvrtc-builtins.so.{major}.{minor}")
    if not builtins.exists() and not _core.loaded_library(builtins.name):
        raise ToolchainError(
            f"{path} needs {builtins.name} of its own version beside it, and there is no "
            f"{builtins}: reinstall NVRTC ({_INSTALL.get(major, _INSTALL[13])} --force-reinstall)"
        )
    build = _build_id(Path(path)) + (_build_id(builtins) if builtins.exists() else "")
    return Toolchain(path, found_by, library.version, build, tuple(library.architectures))


def _check_driver(toolchain: Toolchain, driver_version: tuple[int, int] | None) -> None:
    if driver_version is None or toolchain.version[0] <= driver_version[0]:
        return
    major, minor = toolchain.version
    raise ToolchainError(
        f"NVRTC {major}.{minor} ({toolchain.nvrtc}, found by: {toolchain.found_by}) is newer than "
        f"the driver, which supports CUDA {driver_version[0]}.{driver_version[1]}: update the "
        f"driver, or {_INSTALL.get(driver_version[0], _INSTALL[12])} and name that library in "
        "CUDADEMO_NVRTC"
    )


# ---- what is remembered ----


def _memo_path(memo_dir: Path, given: str, driver_version: tuple[int, int] | None) -> Path:
    """A file for all that the choice depends on, the library `given` among it."""
    parts = [sys.prefix, given, str(driver_version and driver_version[0])]
    parts += [os.environ.get(name, "") for name in _ENVIRONMENT]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return memo_dir / f"toolchain-{digest}.json"


def _identity(path: str) -> list[int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _recall(file: Path | None) -> Toolchain | None:
    """The toolchain remembered, unless its library is another one by now.

    A library that is gone is still believed in: a full cache needs no NVRTC.
    """
    if file is None:
        return None
    try:
        memo = json.loads(file.read_text())
        identity = _identity(memo["nvrtc"])
        if identity not in (None, memo["identity"]):
            return None
        major, minor = memo["version"]
        architectures = tuple(int(number) for number in memo["architectures"])
        return Toolchain(
            memo["nvrtc"], memo["found_by"], (major, minor), memo["build"], architectures
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(file: Path | None, toolchain: Toolchain) -> None:
    if file is None:
        return
    memo: dict[str, Any] = {**asdict(toolchain), "identity": _identity(toolchain.nvrtc)}
    with contextlib.suppress(OSError):  # the next process searches again
        write_atomically(file, json.dumps(memo))


def _build_id(path: Path) -> str:
    """The linker's id of an ELF file, else a digest of all of it."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
            offset, size, count = struct.unpack_from("<Q14xHH", head, 32)
            file.seek(offset)
            table = file.read(size * count)
            for index in range(count):
                kind, start, length = struct.unpack_from("<I4xQ16xQ", table, index * size)
                if kind == 4:  # PT_NOTE
                    file.seek(start)
                    found = _gnu_build_id(file.read(length))
                    if found:
                        return found
    except (OSError, struct.error):
        pass
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _gnu_build_id(notes: bytes) -> str:
    position = 0
    while position + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, position)
        name = notes[position + 12 : position + 12 + name_size]
        start = position + 12 + (name_size + 3) // 4 * 4
        if name == b"GNU\0" and kind == 3:  # NT_GNU_BUILD_ID
            return notes[start : start + size].hex()
        position = start + (size + 3) // 4 * 4
    return ""


# ---- where headers may be ----


def _own_tree(toolchain: Toolchain) -> list[Path]:
    """The include folders that belong to the library's own installation."""
    library = Path(toolchain.nvrtc).parent
    return [
        library.parent / "include",  # a toolkit, conda, the wheels of CUDA 13
        library.parent.parent / "cuda_runtime" / "include",  # the wheels of CUDA 12
    ]


def _toolkits() -> list[Path]:
    return [root / "include" for root in toolkit_roots()]


def _found_by_pathfinder(name: str) -> list[Path]:
    from cuda import pathfinder

    try:
        found = pathfinder.find_nvidia_header_directory(name)
    except Exception:  # it raises errors of its own for what it does not support
        return []
    return [Path(found)] if found else []


_warned: set[str] = set()


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, ToolchainWarning, stacklevel=3)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
