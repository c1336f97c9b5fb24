"""Which header text the compiler can read.

A source's key must change when any header changes that it includes, however far down, and must not
when a folder moves. So includes are followed by text: more of them than the compiler's own
preprocessor would, never fewer. Contents count, paths and times do not. Of CUDA's own headers only
the outcome is remembered, for as long as their files are the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .files import write_atomically
from .standard_headers import STANDARD

_INCLUDE = re.compile(
    r"(?:#|%:|\?\?=)(?:\s|/\*.*?\*/)*include(?:_next)?(?:\s|/\*.*?\*/)*"
    r"(?:\"(?P<quoted>[^\"\n]+)\"|<(?P<angled>[^>\n]+)>|(?P<macro>\w+))"
    r"|__has_include(?:_next)?\s*\(\s*(?:\"(?P<asked_quoted>[^\"\n]+)\"|<(?P<asked>[^>\n]+)>)"
)
_CONTINUATION = re.compile(r"\\[ \t]*\r?\n")
_HEADER_SUFFIXES = {"", ".h", ".hpp", ".hh", ".hxx", ".cuh", ".cu", ".inl", ".inc", ".ipp"}


@dataclass(frozen=True)
class Scan:
    """What a source can include.

    Attributes:
        digest: over the names and contents of all of it.
        headers: stand-ins for standard headers, by the name that they are included under.
        uses_toolkit: True where CUDA's own folders must be searched.
    """

    digest: str
    headers: dict[str, str]
    uses_toolkit: bool


def scan(
    source: str,
    *,
    origin_dir: Path | None,
    include_dirs: Sequence[Path],
    headers: Mapping[str, str],
    toolkit_dirs: Callable[[], list[Path]],
    memo_dir: Path | None,
) -> Scan:
    """Follow the includes of a source.

    Args:
        source: CUDA C++.
        origin_dir: the source file's folder; None for a string.
        include_dirs: the user's folders, in order.
        headers: the user's headers given as text, by name.
        toolkit_dirs: gives the folders of CUDA's headers; called only where one is included.
        memo_dir: where the digests of CUDA's headers are remembered; None remembers nothing.
    """
    if "include" not in source:
        return Scan("", {}, False)
    folders = ([origin_dir] if origin_dir else []) + list(include_dirs)
    walk = _Walk(folders, headers)
    walk.follow(source, origin_dir)
    used = {name: STANDARD[name] for name in walk.standard}
    for text in used.values():
        walk.follow(text, None)
    digest = hashlib.sha256()
    for part in sorted(walk.parts) + sorted(used.items()):
        _add(digest, *part)
    searched = toolkit_dirs() if walk.outside else []
    for name in sorted(walk.outside):
        _add(digest, name, _toolkit_digest(name, searched, walk, memo_dir) or "missing")
    return Scan(digest.hexdigest(), used, bool(walk.outside))


def hint(name: str, toolkit_dirs: Callable[[], list[Path]]) -> str:
    """What to do about a header that the compiler did not find."""
    top = name.split("/", 1)[0]
    wheels = "or nvidia-cuda-{0}-cu12 for CUDA 12"
    if top in ("cub", "thrust", "cuda", "nv") or name in STANDARD:
        what = "pip install nvidia-cuda-cccl, " + wheels.format("cccl")
    elif top.startswith("curand"):
        what = "pip install nvidia-curand, or nvidia-curand-cu12 for CUDA 12"
    elif top == "crt":  # <mma.h> needs it
        what = "pip install nvidia-cuda-crt, or nvidia-cuda-nvcc-cu12 for CUDA 12"
    elif top == "cooperative_groups" or top.startswith(("cuda", "cooperative_", "mma", "sm_")):
        what = "pip install nvidia-cuda-runtime, " + wheels.format("runtime")
    elif top in _HOST_ONLY:
        return (
            f"<{name}> is the host's: device code has no such thing; include it in host code only"
        )
    else:
        return "give its folder in include_dirs=, or its text in headers="
    looked = ", ".join(str(folder) for folder in toolkit_dirs()) or "no folder of CUDA's at all"
    return f"{name} comes with: {what}; looked in: {looked}"


_HOST_ONLY = {
    "algorithm", "deque", "filesystem", "fstream", "iomanip", "iostream", "list", "map", "memory",
    "mutex", "queue", "random", "regex", "set", "sstream", "stdexcept", "string", "thread",
    "unordered_map", "unordered_set", "vector", "windows.h", "unistd.h",
}  # fmt: skip


@dataclass
class _Walk:
    """The includes met so far, of the user's files and texts."""

    folders: Sequence[Path]
    headers: Mapping[str, str]
    parts: set[tuple[str, str]] = field(default_factory=set)  # name, contents
    standard: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)  # to be looked for among CUDA's
    _seen: set[tuple[str, Path | None]] = field(default_factory=set)

    def follow(self, text: str, here: Path | None) -> None:
        """All includes of a text that lies in the folder `here`."""
        waiting = [(text, here)]
        while waiting:
            text, here = waiting.pop()
            for name, quoted in _includes(text):
                if name is None:
                    self._take_everything()
                    continue
                origin = here if quoted else None
                if (name, origin) in self._seen:
                    continue
                self._seen.add((name, origin))
                found = self._find(name, origin)
                if found:
                    self.parts.add((name, found[0]))
                    waiting.append(found)
                elif name in STANDARD:
                    self.standard.add(name)
                else:
                    self.outside.add(name)

    def has(self, name: str) -> bool:
        """True where the user's own folders or texts have a file or folder of this name."""
        return any(given.split("/", 1)[0] == name for given in self.headers) or any(
            (folder / name).exists() for folder in self.folders
        )

    def _find(self, name: str, here: Path | None) -> tuple[str, Path | None] | None:
        """A header's text and folder, in the compiler's order."""
        if name in self.headers:
            return self.headers[name], None
        for folder in ([here] if here else []) + list(self.folders):
            text = _read(folder / name)
            if text is not None:
                return text, (folder / name).parent
        return None

    def _take_everything(self) -> None:
        """An include by a macro can be any of the user's headers."""
        for name, text in self.headers.items():
            self.parts.add((name, text))
        for folder in self.folders:
            for path in sorted(folder.rglob("*")):
                content = _read(path) if path.suffix in _HEADER_SUFFIXES else None
                if content is not None:
                    self.parts.add((str(path.relative_to(folder)), content))


def _includes(text: str) -> Iterable[tuple[str | None, bool]]:
    """The names in a text and whether they are in quotes; None for a macro in place of a name."""
    if "\\" in text:
        text = _CONTINUATION.sub("", text)
    for match in _INCLUDE.finditer(text):
        quoted = match["quoted"] or match["asked_quoted"]
        if match["macro"]:
            yield None, False
        else:
            yield quoted or match["angled"] or match["asked"], bool(quoted)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="surrogateescape")
    except OSError:  # not there, or a folder
        return None


def _add(digest: hashlib._Hash, *texts: str) -> None:
    """Each text behind its length, so that no two sequences hash alike."""
    for text in texts:
        data = text.encode(errors="surrogateescape")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)


# ---- CUDA's own headers ----


def _toolkit_digest(
    name: str, folders: list[Path], walk: _Walk, memo_dir: Path | None
) -> str | None:
    """A digest of a header of CUDA's with all that it includes; None where there is none."""
    memo = None
    if memo_dir:
        key = hashlib.sha256("\0".join([name, *map(str, folders)]).encode()).hexdigest()[:24]
        memo = memo_dir / "headers" / f"{key}.json"
    known = _recall(memo, walk)
    if known:
        return known
    roots = [folder.resolve() for folder in folders]
    files: dict[str, tuple[Path, str]] = {}  # by the name below its root
    waiting: list[tuple[str, Path | None]] = [(name, None)]
    tried: set[tuple[str, Path | None]] = set()
    digest = hashlib.sha256()
    while waiting:
        wanted, here = waiting.pop()
        if (wanted, here) in tried:
            continue
        tried.add((wanted, here))
        for folder in ([here] if here else []) + [*walk.folders, *folders]:
            path = folder / wanted
            text = _read(path)
            if text is None:
                continue
            relative = _relative(path, roots)
            if relative not in files:
                files[relative] = (path, text)
                for include, quoted in _includes(text):
                    if include:
                        waiting.append((include, path.parent if quoted else None))
            break
    if not files:
        return None
    for relative in sorted(files):
        _add(digest, relative, files[relative][1])
    if memo:
        names = sorted({wanted.split("/", 1)[0] for wanted, _ in tried})
        stats = {str(path): _stat(path) for path, _ in files.values()}
        memo_text = json.dumps({"digest": digest.hexdigest(), "names": names, "files": stats})
        with contextlib.suppress(OSError):  # the next process reads them again
            write_atomically(memo, memo_text)
    return digest.hexdigest()


def _recall(memo: Path | None, walk: _Walk) -> str | None:
    """The digest remembered, if all files are as they were and the user's shadow none of them."""
    if memo is None:
        return None
    try:
        content = json.loads(memo.read_text())
        if any(_stat(Path(path)) != stat for path, stat in content["files"].items()):
            return None
        if any(walk.has(name) for name in content["names"]):
            return None
        return str(content["digest"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _stat(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _relative(path: Path, roots: list[Path]) -> str:
    resolved = path.resolve()
    for root in roots:
        if resolved.is_relative_to(root):
            return str(resolved.relative_to(root))
    return path.name
