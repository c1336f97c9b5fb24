"""Finding NVRTC, remembering it, and choosing what to compile for."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import child
import pytest

from cudademo import ToolchainError, ToolchainWarning, compilation, toolchain


@pytest.fixture
def tools() -> toolchain.Toolchain:
    return compilation.current_toolchain()


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python code in a process of its own, where the driver and NVRTC are not opened yet."""
    return child.run(code, Path(os.environ["CUDADEMO_CACHE_DIR"]).parent, **environment)


def test_nvrtc_is_found_without_a_library_path():
    code = "from cudademo import toolchain; print(toolchain.current(None, None).version[0])"
    assert int(run(code, LD_LIBRARY_PATH="").stdout) >= 12


def test_what_is_remembered_opens_nothing(tmp_path):
    code = (
        "from pathlib import Path; from cudademo import toolchain, _core;"
        f"toolchain.current(Path({str(tmp_path)!r}), None);"
        "print(_core.loaded_library('libnvrtc.so'))"
    )
    first, second = run(code), run(code)
    assert "libnvrtc" in first.stdout, first.stderr
    assert second.stdout == "None\n"


def test_a_library_named_but_not_there_is_an_error(monkeypatch):
    monkeypatch.setenv("CUDADEMO_NVRTC", "/nowhere/libnvrtc.so.13")
    with pytest.raises(ToolchainError, match="/nowhere/libnvrtc"):
        toolchain.current(None, None)


def test_a_missing_builtins_library_is_named_with_both_paths(tmp_path, tools):
    copied = tmp_path / Path(tools.nvrtc).name
    shutil.copyfile(tools.nvrtc, copied)
    code = "from cudademo import toolchain; toolchain.current(None, None)"
    text = run(code, CUDADEMO_NVRTC=str(copied)).stderr
    assert f"{copied} needs libnvrtc-builtins.so" in text
    assert str(copied.parent / "libnvrtc-builtins.so") in text


def test_the_builtins_beside_nvrtc_are_opened_with_it(tmp_path):
    code = (
        "from pathlib import Path; from cudademo import toolchain, _core;"
        f"toolchain.open_nvrtc(toolchain.current(Path({str(tmp_path)!r}), None));"
        "print(_core.loaded_library('libnvrtc-builtins.so'))"
    )
    ran = run(code, LD_LIBRARY_PATH="")
    assert "libnvrtc-builtins.so." in ran.stdout, ran.stderr


def test_a_known_capability_is_compiled_to_a_cubin(tools):
    assert toolchain.target(tools, (9, 0)) == ("sm_90", True)


def test_a_capability_beyond_the_highest_is_clamped_with_one_warning(tools):
    few = replace(tools, architectures=(75, 80, 90))
    with pytest.warns(ToolchainWarning, match="does not know compute capability 99"):
        assert toolchain.target(few, (99, 0)) == ("compute_90", False)
    assert toolchain.target(few, (99, 0)) == ("compute_90", False)  # and no second warning


def test_a_capability_below_the_lowest_is_an_error(tools):
    with pytest.raises(ToolchainError, match=r"has 3\.5"):
        toolchain.target(tools, (3, 5))


def test_an_nvrtc_newer_than_the_driver_is_refused():
    with pytest.raises(ToolchainError, match="newer than the driver"):
        toolchain.current(None, (11, 8))


def test_headers_belong_to_nvrtcs_version(tools):
    folders = toolchain.include_dirs(tools)
    assert toolchain.header_version(folders[0])[0] == tools.version[0]


@pytest.mark.parametrize(("version", "taken"), [("13000", True), ("13010", False)])
def test_a_toolkit_of_the_same_version_has_what_the_wheels_leave_out(
    tools, monkeypatch, tmp_path, version, taken
):
    wheels, toolkit = tmp_path / "wheels", tmp_path / "toolkit"
    for root, text in ((wheels, "13000"), (toolkit, version)):
        (root / "include").mkdir(parents=True)
        (root / "include" / "cuda_runtime_api.h").write_text(f"#define CUDART_VERSION  {text}\n")
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    here = replace(tools, nvrtc=str(wheels / "lib" / "libnvrtc.so.13"), version=(13, 0))
    folders = toolchain.include_dirs(here)
    assert folders[0] == wheels / "include"
    assert (toolkit / "include" in folders) == taken


def test_include_folders_can_be_named(tools, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDADEMO_INCLUDE", str(tmp_path))
    assert toolchain.include_dirs(tools) == [tmp_path]


def test_no_driver_is_a_toolchain_error_that_says_so():
    code = "from cudademo import _core; _core.driver_version()"
    text = run(code, CUDADEMO_DRIVER="/nowhere/libcuda.so.1").stderr
    assert "ToolchainError: no CUDA driver" in text


def test_import_touches_neither_driver_nor_nvrtc_nor_torch():
    code = (
        "import sys, cudademo; from cudademo import _core;"
        "print(_core.loaded_library('libcuda.'), _core.loaded_library('libnvrtc'),"
        "'torch' in sys.modules)"
    )
    assert run(code).stdout.split() == ["None", "None", "False"]
