"""What a new process pays: the import, and a first launch with a warm and with a cold cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import bare_nvrtc
import peers
from measure import Budget, Missing, Row, measured, ratio, require_gpu, skipped

IMPORT = "import"
WARM = "warm"
COLD = "cold"
HERE = Path(__file__).parent

_IMPORT_CASE = "import, torch imported before"
_WARM_CASE = "first launch in a new process, cache warm"
_COLD_CASE = "first launch in a new process, cache cold"
_IMPORT_CODE = """
import sys, time
import torch
start = time.perf_counter()
__import__(sys.argv[1])
print(time.perf_counter() - start)
"""
_TIMED = (peers.OURS, peers.BARE, peers.CUPY, peers.CUDA_CORE, peers.COMPILE_KERNEL, peers.TRITON)
_KEEPS_NOTHING = (peers.BARE, peers.CUDA_CORE)  # between processes, unless its user does


def run(budget: Budget) -> Iterator[Row]:
    """Milliseconds, each round in a new process; the competitors take turns."""
    yield from _imports(budget)
    require_gpu()
    with tempfile.TemporaryDirectory() as folder:
        yield from _first_launches(budget, Path(folder))


def _imports(budget: Budget) -> Iterator[Row]:
    modules = {
        peers.OURS: "cudademo",
        peers.CUPY: "cupy",
        peers.CUDA_CORE: "cuda.core",
        peers.TRITON: "triton",
    }
    samples: dict[str, list[float]] = {who: [] for who in modules}
    for turn in range(budget.process_rounds + 1):
        for who in list(modules):
            try:
                seconds = _child(["-c", _IMPORT_CODE, modules[who]], os.environ)
            except Missing as error:
                yield skipped(IMPORT, _IMPORT_CASE, who, error)
                del modules[who]
                continue
            if turn:  # the first one compiles the module's own .pyc files
                samples[who].append(1e3 * seconds)
    for who in modules:
        yield measured(IMPORT, _IMPORT_CASE, who, "ms", samples[who])


def _first_launches(budget: Budget, folder: Path) -> Iterator[Row]:
    common = _common_environment()
    cold: dict[str, list[float]] = {}
    warm: dict[str, list[float]] = {}
    competitors = [*_TIMED, *([peers.LOAD_INLINE] if budget.slow_builds else [])]
    for turn in range(budget.process_rounds):
        for who in list(competitors):
            if turn >= _rounds(who, budget):
                continue
            environment = {**common, **_cache_folders(Path(tempfile.mkdtemp(dir=folder)))}
            try:
                cold.setdefault(who, []).append(1e3 * _first_launch(who, environment))
                if who not in _KEEPS_NOTHING:
                    warm.setdefault(who, []).append(1e3 * _first_launch(who, environment))
            except Missing as error:
                competitors.remove(who)
                cold.pop(who, None)
                warm.pop(who, None)
                yield skipped(COLD, _COLD_CASE, who, error)
                yield skipped(WARM, _WARM_CASE, who, error)
    for who, samples in warm.items():
        yield measured(WARM, _WARM_CASE, who, "ms", samples)
    rows = {who: measured(COLD, _COLD_CASE, who, "ms", samples) for who, samples in cold.items()}
    for row in rows.values():
        yield row
        if peers.BARE in rows:
            yield ratio(row, rows[peers.BARE], peers.BARE)


def _rounds(who: str, budget: Budget) -> int:
    if who == peers.LOAD_INLINE:
        return 1
    return budget.process_rounds if who in (peers.OURS, peers.BARE) else budget.slow_process_rounds


def _common_environment() -> dict[str, str]:
    """NVRTC 12.9 and later keep a cache of their own, which would make a cold compile warm."""
    nvrtc = bare_nvrtc.find_nvrtc()
    code = f"import bare_nvrtc; print('%d.%02d' % bare_nvrtc.nvrtc_version({nvrtc!r}))"
    caches = _child(["-c", code], os.environ) >= 12.09
    options = "--no-cache" if caches else ""
    return {**os.environ, "BENCH_NVRTC": nvrtc, "BENCH_NVRTC_OPTIONS": options}


def _cache_folders(caches: Path) -> dict[str, str]:
    return {
        "CUDADEMO_CACHE_DIR": str(caches / "cudademo"),
        "CUPY_CACHE_DIR": str(caches / "cupy"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TORCH_EXTENSIONS_DIR": str(caches / "torch"),
        "PYTORCH_KERNEL_CACHE_PATH": str(caches / "torch-kernels"),
        "CUDA_CACHE_PATH": str(caches / "driver"),
    }


def _first_launch(who: str, environment: Mapping[str, str]) -> float:
    return _child([str(HERE / "first_launch.py"), who], environment)


def _child(arguments: list[str], environment: Mapping[str, str]) -> float:
    """The number that a new Python prints last; Missing, with its last words, where it fails."""
    ran = subprocess.run(
        [sys.executable, *arguments],
        env=environment, cwd=HERE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ran.returncode != 0:
        lines = ran.stderr.strip().splitlines()
        raise Missing(lines[-1] if lines else f"exit status {ran.returncode}")
    return float(ran.stdout.strip().splitlines()[-1])
