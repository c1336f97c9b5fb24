"""The ground that tests stand on: a cache of their own, and a driver where the machine has none.

Without a GPU the core is given the stub driver of tests/core, which launches nothing and remembers
everything, so that all but the GPU's own arithmetic is tested there as well.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# `python -m pytest` puts the checkout ahead of what was installed from it; the core is not there.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != TESTS.parent]
_scratch = Path(tempfile.mkdtemp(prefix="cudademo-tests-"))
os.environ["CUDADEMO_CACHE_DIR"] = str(_scratch / "cache")


def _has_gpu() -> bool:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 < count.value


def _build_stub() -> Path | None:
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        return None
    library = _scratch / "libstub.so"
    source = TESTS / "core" / "stub_driver.cpp"
    subprocess.run(
        [compiler, "-std=c++20", "-O1", "-shared", "-fPIC", "-o", library, source], check=True
    )
    return library


HAS_GPU = _has_gpu()
_stub_path = None if HAS_GPU else _build_stub()
if _stub_path:
    os.environ["CUDADEMO_DRIVER"] = str(_stub_path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, visibly, what this machine cannot run."""
    for item in items:
        if "gpu" in item.keywords and not HAS_GPU:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    shutil.rmtree(_scratch, ignore_errors=True)


@pytest.fixture
def stub() -> Iterator[object]:
    """The stub driver, with nothing recorded; skipped where the real one is in charge."""
    if _stub_path is None:
        pytest.skip("the process has a real driver" if HAS_GPU else "no C++ compiler for the stub")
    from stub import Stub

    driver = Stub(_stub_path)
    driver.reset()
    yield driver
    driver.reset()


@pytest.fixture(params=["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
def kernel_device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The device of tensors that kernels run on: cuda, and cpu with the operators emulated."""
    import cudademo

    if request.param == "cuda":
        yield "cuda"
        return
    with cudademo.use_emulator():
        yield "cpu"


@pytest.fixture
def driver() -> None:
    """A driver of some kind, which processes started by the test have as well."""
    if not HAS_GPU and _stub_path is None:
        pytest.skip("no driver, and no C++ compiler for the stub")


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and a process that remembers no compile."""
    from cudademo import cache, compilation

    folder = tmp_path / "cache"
    monkeypatch.setenv("CUDADEMO_CACHE_DIR", str(folder))
    monkeypatch.setattr(compilation, "_ready", {})
    monkeypatch.setattr(cache, "_warned", set())
    return folder


@pytest.fixture(scope="session")
def wmma_header() -> None:
    import cudademo

    try:
        cudademo.kernel(
            "#include <mma.h>\n__global__ void k() {}", "k", architecture="compute_80"
        ).ptx()
    except cudademo.CompileError:
        pytest.skip("<mma.h> is not whole without nvidia-cuda-crt")
