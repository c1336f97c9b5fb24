"""Which header text the compiler can read, and the standard headers that it would miss.

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
    elif top in ("crt", "cooperative_groups") or top.startswith(
        ("cuda", "cooperative_", "mma", "sm_")
    ):
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


# ---- standard headers ----


def _from_cuda(name: str) -> str:
    """CUDA's own implementation, under the standard's names."""
    using = "namespace std { using namespace ::cuda::std; }"
    return f"#pragma once\n#include <cuda/std/{name}>\n{using}\n"


# What device code uses most is declared here in a few lines; CUDA's own would cost 10 ms each.
_STDINT = """#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
typedef long long intmax_t;
typedef unsigned long long uintmax_t;
typedef signed char int_fast8_t, int_least8_t;
typedef short int_fast16_t, int_least16_t;
typedef int int_fast32_t, int_least32_t;
typedef long long int_fast64_t, int_least64_t;
typedef unsigned char uint_fast8_t, uint_least8_t;
typedef unsigned short uint_fast16_t, uint_least16_t;
typedef unsigned int uint_fast32_t, uint_least32_t;
typedef unsigned long long uint_fast64_t, uint_least64_t;
#define INT8_MIN (-128)
#define INT16_MIN (-32768)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615ULL
#define SIZE_MAX 18446744073709551615ULL
"""

_MATH = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign",
    "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "fdim", "floor", "fma",
    "fmax", "fmin", "fmod", "frexp", "hypot", "ilogb", "isfinite", "isinf", "isnan", "ldexp",
    "lgamma", "llrint", "llround", "log", "log10", "log1p", "log2", "logb", "lrint", "lround",
    "modf", "nan", "nearbyint", "nextafter", "pow", "remainder", "remquo", "rint", "round",
    "scalbln", "scalbn", "signbit", "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc",
    "abs",
]  # fmt: skip


def _in_std(names: Iterable[str]) -> str:
    """The compiler's own global functions, in namespace std as well."""
    return "namespace std {" + "".join(f" using ::{name};" for name in names) + " }\n"


def _integers() -> str:
    names = re.findall(r"\w+_t\b", _STDINT)
    return _guarded(_STDINT) + _in_std(dict.fromkeys(names))


def _guarded(text: str) -> str:
    """Macros only where CUDA's headers have not defined them; theirs come later without asking.

    They have the same values in other words, which is remark 47 of the compiler's.
    """
    defined = re.sub(r"^#define (\w+)(.*)$", r"#ifndef \1\n#define \1\2\n#endif", text, flags=re.M)
    return defined.replace("#pragma once\n", "#pragma once\n#pragma nv_diag_suppress 47\n", 1)


_CSTDDEF = """#pragma once
typedef decltype(nullptr) nullptr_t;
typedef long ptrdiff_t;
namespace std { using ::size_t; using ::ptrdiff_t; using ::nullptr_t; }
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
#ifndef NULL
#define NULL 0
#endif
"""
_CLIMITS = """#pragma once
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#define LONG_MIN (-9223372036854775807L - 1)
#define LONG_MAX 9223372036854775807L
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MIN (-9223372036854775807LL - 1)
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 18446744073709551615ULL
"""
_CFLOAT = """#pragma once
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN_EXP (-125)
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MAX_10_EXP 38
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define FLT_TRUE_MIN 1.401298464e-45F
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN_EXP (-1021)
#define DBL_MAX_EXP 1024
#define DBL_MIN_10_EXP (-307)
#define DBL_MAX_10_EXP 308
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_TRUE_MIN 4.9406564584124654e-324
"""
_MATH_MACROS = """#pragma once
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VALF INFINITY
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000LL)
#endif
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
"""
# Declared by the compiler itself; the header has nothing to add.
_BUILT_IN = "#pragma once\n"

STANDARD: dict[str, str] = {
    "cstdint": _integers(),
    "stdint.h": _integers(),
    "cstddef": _CSTDDEF,
    "stddef.h": _CSTDDEF,
    "climits": _guarded(_CLIMITS),
    "limits.h": _guarded(_CLIMITS),
    "cfloat": _guarded(_CFLOAT),
    "float.h": _guarded(_CFLOAT),
    "cmath": _MATH_MACROS + _in_std(_MATH),
    "math.h": _MATH_MACROS,
    "cassert": _BUILT_IN,
    "assert.h": _BUILT_IN,
    "cstdio": _BUILT_IN + _in_std(["printf"]),
    "stdio.h": _BUILT_IN,
    "cstring": _BUILT_IN + _in_std(["memcpy", "memset"]),
    "string.h": _BUILT_IN,
    "cstdlib": _BUILT_IN + _in_std(["malloc", "free", "abs"]),
    "stdlib.h": _BUILT_IN,
    **{
        name: _from_cuda(name)
        for name in (
            "array", "atomic", "barrier", "bit", "chrono", "complex", "concepts", "expected",
            "functional", "initializer_list", "iterator", "latch", "limits", "numbers", "numeric",
            "optional", "ratio", "semaphore", "span", "tuple", "type_traits", "utility", "variant",
        )
    },
}  # fmt: skip
"""The standard headers that device code can have, in place of the host's."""
