"""Where compiled kernels are kept on disk, and what happens when that does not work.

A fault of the cache is a miss and one warning, never an exception: the kernel is compiled instead.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import warnings
from pathlib import Path

from . import _core
from .errors import CacheWarning
from .files import write_atomically

_warned: set[Path] = set()
_warned_guard = threading.Lock()


def folder() -> Path | None:
    """The cache's folder, which need not exist yet; None where there can be none.

    `CUDADEMO_CACHE_DIR` names it; else it is `cudademo` in the XDG cache folder. A folder that
    belongs to another user and can be written to by all is refused: what lies in it is run.
    """
    named = os.environ.get("CUDADEMO_CACHE_DIR")
    if named:
        path = Path(named)
    else:
        base = os.environ.get("XDG_CACHE_HOME")
        try:
            path = (Path(base) if base else Path.home() / ".cache") / "cudademo"
        except RuntimeError:  # no home
            return None
    try:
        status = path.stat()
    except OSError:
        return path
    if status.st_uid != os.geteuid() and status.st_mode & stat.S_IWOTH:
        _warn(path, "belongs to another user and anyone can write to it: not used as a cache")
        return None
    return path


def load(digest: str, key: bytes) -> _core.Binary | None:
    """The entry of this digest, made for exactly this key; None on a miss or any fault."""
    base = folder()
    if base is None:
        return None
    binary, fault = _core.Cache(base).load(digest, key)
    if fault:
        _warn(base, f"an entry was not used: {fault}")
    return binary


def store(digest: str, key: bytes, binary: _core.Binary) -> None:
    """Publish an entry; a fault is one warning."""
    base = folder()
    if base is None:
        return
    fault = _core.Cache(base).store(digest, key, binary)
    if fault:
        _warn_unkept(base, fault)


def keep_source(text: str) -> Path | None:
    """Write a source where debuggers and profilers find it later; None where that fails."""
    base = folder()
    if base is None:
        return None
    path = base / "sources" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.cu"
    if path.exists():
        return path
    try:
        write_atomically(path, text)
    except OSError as error:
        _warn_unkept(base, error.strerror or str(error))
        return None
    return path


def _warn_unkept(base: Path, fault: str) -> None:
    _warn(base, f"nothing is kept there: {fault}; CUDADEMO_CACHE_DIR names another folder")


def _warn(base: Path, text: str) -> None:
    """One warning a folder, whatever comes after the first fault."""
    with _warned_guard:
        if base in _warned:
            return
        _warned.add(base)
    warnings.warn(f"the cache {base}: {text}", CacheWarning, stacklevel=2)
