"""The compiler's log, turned into errors that a user can act on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from . import declarations, headers
from .errors import CompileError, Diagnostic

_REMARK = re.compile(
    r"^(?P<file>[^\n(]+)\((?P<line>\d+)\): (?P<severity>catastrophic error|error|warning)"
    r"(?: #[\w-]+)?: (?P<text>.+)$",
    re.MULTILINE,
)
_MISSING_HEADER = re.compile(r"could not open source file \"(?P<name>[^\"]+)\"|"
                             r"cannot open source file \"(?P<same>[^\"]+)\"")  # fmt: skip
_NAME_MAP = "__nv_name_map"  # where NVRTC reports trouble with name expressions
_SHOWN = 5


def parse(log: str) -> tuple[Diagnostic, ...]:
    """The remarks in NVRTC's log, in its order.

    >>> parse('k.cu(3): error: identifier "q" is undefined')
    (Diagnostic(file='k.cu', line=3, severity='error', text='identifier "q" is undefined'),)
    """
    return tuple(
        Diagnostic(m["file"], int(m["line"]), m["severity"], m["text"].strip())
        for m in _REMARK.finditer(log)
    )


def explain(
    log: str,
    *,
    title: str,
    source: str,
    user_source: str,
    file: str,
    kernels: list[str],
    toolkit_dirs: Callable[[], list[Path]],
) -> CompileError:
    """The error for a failed compile.

    Args:
        log: NVRTC's own text.
        title: what was compiled, and for what.
        source: the text that was handed to the compiler.
        user_source: the user's part of it, to which the line numbers refer.
        file: the name that it was compiled under.
        kernels: the name expressions asked for.
        toolkit_dirs: the folders of CUDA's own headers.
    """
    remarks = parse(log)
    errors = [remark for remark in remarks if remark.severity != "warning"]
    own = [remark for remark in errors if remark.file != _NAME_MAP]
    lines = [f"{title} does not compile"]
    if own:
        for remark in own[:_SHOWN]:
            lines += _quote(remark, user_source, file)
            missing = _MISSING_HEADER.search(remark.text)
            if missing:
                name = missing["name"] or missing["same"]
                lines.append(f"    {headers.hint(name, toolkit_dirs)}")
        if len(own) > _SHOWN:
            lines.append(f"  and {len(own) - _SHOWN} more: see the error's .log")
    elif errors:
        lines += _explain_names(errors, kernels, user_source)
    else:
        lines.append(f"  {log.strip()}")
    return CompileError("\n".join(lines), log=log, diagnostics=remarks, source=source)


def _quote(remark: Diagnostic, user_source: str, file: str) -> list[str]:
    """One remark with the line that it is about."""
    lines = [f"  {remark.file}:{remark.line}: {remark.text}"]
    text = user_source.splitlines()
    if remark.file == file and 0 < remark.line <= len(text):
        lines.append(f"    {remark.line} | {text[remark.line - 1]}")
    return lines


def _explain_names(errors: list[Diagnostic], kernels: list[str], source: str) -> list[str]:
    """What is wrong with the name expressions, and which kernels there are."""
    known = declarations.kernels(source)
    # The first remark is the cause; the rest are what the parser made of it.
    lines = [f"  the kernel's name: {errors[0].text}"]
    lines.append("  asked for: " + ", ".join(kernels))
    lines.append("  the source has: " + (", ".join(known) if known else "no kernel at all"))
    for kernel in kernels:
        if declarations.base_name(kernel) in {declarations.base_name(name) for name in known}:
            continue
        lines += [f"  did you mean {match}?" for match in declarations.close_matches(kernel, known)]
    return lines
