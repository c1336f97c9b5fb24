"""The house's rules, held without a compiler: includes, the stub, versions, the wheel's files."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import cudademo
from cudademo import _core

ROOT = Path(__file__).parents[1]
CORE = ROOT / "cudademo" / "core"
INCLUDE = re.compile(r'^#include [<"]([^>"]+)[>"]', re.MULTILINE)
EMULATORS_FACE = "../emulator/interface.hpp"  # all that the core knows of the emulator
PARTS = [
    "errors", "handlers", "dynlib", "dtype", "narrow", "driver", "nvrtc", "signature", "binary",
    "cache", "compiler", "module", "launch",
]  # fmt: skip


def includes(part: str) -> set[str]:
    """The core's own headers that a part includes, without itself."""
    found: set[str] = set()
    for suffix in (".hpp", ".cpp"):
        path = CORE / f"{part}{suffix}"
        if path.exists():
            found.update(INCLUDE.findall(path.read_text()))
    mine = {name for name in found if (CORE / name).exists() and name != EMULATORS_FACE}
    return {name.removesuffix(".hpp") for name in mine} - {part}


def test_every_part_of_the_core_is_known_here():
    assert {path.stem for path in CORE.glob("*.?pp")} == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_includes_point_downwards(part):
    assert includes(part) <= set(PARTS[: PARTS.index(part)])


@pytest.mark.parametrize(
    ("part", "others"),
    [
        ("cache", {"driver", "nvrtc", "compiler", "module", "launch"}),  # knows no CUDA
        ("compiler", {"cache", "module", "launch", "driver"}),
        ("module", {"cache", "compiler", "launch", "nvrtc"}),
        ("launch", {"cache", "compiler", "nvrtc"}),
        ("driver", {"nvrtc"}),
    ],
)
def test_parts_that_have_nothing_to_do_with_one_another_stay_so(part, others):
    assert not includes(part) & others


def test_the_core_knows_neither_python_nor_torch():
    for path in CORE.glob("*.?pp"):
        names = INCLUDE.findall(path.read_text())
        assert not [n for n in names if re.match(r"Python\.h|pybind11|torch|ATen|c10|python/", n)]


def test_core_and_emulator_know_nothing_of_one_another_but_that_face():
    for path in CORE.rglob("*.?pp"):
        names = INCLUDE.findall(path.read_text())
        assert not [n for n in names if "emulator" in n and n != EMULATORS_FACE], path
    for path in (ROOT / "cudademo" / "emulator").iterdir():
        names = INCLUDE.findall(path.read_text())
        assert not [n for n in names if "/" in n and not n.startswith(("sys/", "sanitizer/"))], path


def test_torch_is_not_linked_and_not_included_by_the_bindings():
    for path in (CORE / "python").iterdir():
        names = INCLUDE.findall(path.read_text())
        assert not [n for n in names if re.match(r"torch/|ATen|c10", n)], path


def test_only_the_driver_calls_the_driver_and_only_nvrtc_nvrtc():
    called = re.compile(r"\b(cu[A-Z]\w+|nvrtc[A-Z]\w+)\(")
    for path in CORE.rglob("*.?pp"):
        assert not called.findall(re.sub(r"//.*", "", path.read_text())), path


def stub_names(nodes: list[ast.stmt]) -> set[str]:
    """What a body of the stub declares."""
    names = set()
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("__")}


STUB = ast.parse((ROOT / "cudademo" / "_core.pyi").read_text())


def test_the_stub_names_what_the_module_has():
    assert stub_names(STUB.body) == {name for name in vars(_core) if not name.startswith("_")}


@pytest.mark.parametrize("node", [n for n in STUB.body if isinstance(n, ast.ClassDef)],
                         ids=lambda node: node.name)  # fmt: skip
def test_the_stubs_classes_have_what_the_modules_have(node):
    members = vars(getattr(_core, node.name))
    there = {name for name in members if not re.match(r"__|_pybind11_", name)}
    assert stub_names(node.body) == there


def test_the_package_says_the_version_of_its_metadata():
    from importlib.metadata import version

    assert version("cudademo") == cudademo.__version__


def test_kernels_and_templates_ship_with_the_package():
    from cudademo import resources

    for folder in ("kernels", "templates"):
        here = {path.name for path in (ROOT / folder).iterdir()}
        assert {path.name for path in resources.folder(folder).iterdir()} == here


@pytest.mark.parametrize("name", [n for n in cudademo.__all__ if n[0].islower()])
def test_public_functions_say_what_they_do(name):
    public = getattr(cudademo, name)
    assert inspect.getdoc(public), name
