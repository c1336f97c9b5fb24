"""What a CUDA source declares, as far as its text tells: for messages, never for decisions."""

from __future__ import annotations

import difflib
import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_KERNEL = re.compile(
    r"__global__\b(?P<attributes>(?:\s|__\w+__(?:\s*\([^()]*(?:\([^()]*\)[^()]*)*\))?|\w)*?)"
    r"\bvoid\b(?P<more>(?:\s|__\w+__(?:\s*\([^()]*(?:\([^()]*\)[^()]*)*\))?)*)"
    r"(?P<name>\w+)\s*\("
)
_TEMPLATE = re.compile(r"template\s*<([^{};]*)>\s*(?:static\s+|extern\s+\"C\"\s+)?$")
_NAMESPACE = re.compile(r"\bnamespace\s+([\w:]+)\s*\{")


def kernels(source: str) -> list[str]:
    """The kernels that the text declares, with their namespaces and template parameters.

    >>> kernels("namespace ns { template <typename T> __global__ void k(T* x) {} }")
    ['ns::k<typename T>']
    """
    text = _COMMENT.sub(" ", source)
    found = []
    for match in _KERNEL.finditer(text):
        template = _TEMPLATE.search(text[: match.start()])
        arguments = f"<{' '.join(template[1].split())}>" if template else ""
        name = f"{_namespaces(text[: match.start()])}{match['name']}{arguments}"
        if name not in found:
            found.append(name)
    return found


def parameter_names(source: str, kernel: str) -> tuple[str, ...]:
    """The names of a kernel's parameters; empty where the text does not tell.

    >>> parameter_names("__global__ void axpy(const float* x, float a[], int n = 3)", "axpy")
    ('x', 'a', 'n')
    """
    base = base_name(kernel)
    text = _COMMENT.sub(" ", source)
    lists = {
        _parameter_list(text, match.end())
        for match in _KERNEL.finditer(text)
        if match["name"] == base
    }
    if len(lists) != 1:  # not there, or overloaded
        return ()
    return lists.pop()


def close_matches(kernel: str, known: list[str]) -> list[str]:
    """Those of the `known` kernels that someone who wrote `kernel` may have meant."""
    bases = {base_name(name): name for name in known}
    matches = difflib.get_close_matches(base_name(kernel), bases, n=1, cutoff=0.6)
    return [bases[match] for match in matches]


def base_name(kernel: str) -> str:
    """The bare identifier of a name expression.

    >>> base_name("ns::k<float, 3>")
    'k'
    """
    return kernel.split("<", 1)[0].rsplit("::", 1)[-1].strip(" &")


def _namespaces(before: str) -> str:
    """The namespaces that are open at the end of this text, each with its `::`."""
    open_names: list[str] = []
    starts = {match.end() - 1: match[1] for match in _NAMESPACE.finditer(before)}
    for position, character in enumerate(before):
        if character == "{":
            open_names.append(starts.get(position, ""))
        elif character == "}" and open_names:
            open_names.pop()
    return "".join(f"{name}::" for name in open_names if name)


def _parameter_list(text: str, start: int) -> tuple[str, ...]:
    """The parameters' names, from just behind the opening parenthesis."""
    parts, depth = [""], 0
    for character in text[start:]:
        if character == ")" and depth == 0:
            break
        depth += (character in "(<[{") - (character in ")>]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    names = []
    for part in parts:
        words = re.findall(r"\w+", re.sub(r"\[.*", "", part.split("=", 1)[0]))
        if len(words) < 2:  # unnamed, or an empty list
            return ()
        names.append(words[-1])
    return tuple(names)
