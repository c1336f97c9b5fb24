"""What a new process pays: the import, and a first launch with a warm and with a cold cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import bare_nvrtc
import peers
from measure import Budget, Missing, Row, measured, ratio, require_gpu, skipped

IMPORT = "import"
WARM = "warm"
COLD = "cold"
HERE = Path(__file__).parent

_CASES = {
    IMPORT: "import, torch imported before",
    WARM: "first launch in a new process, cache warm",
    COLD: "first launch in a new process, cache cold",
}
_COMPETITORS = (
    peers.OURS, peers.BARE, peers.CUPY, peers.CUDA_CORE, peers.COMPILE_KERNEL, peers.TRITON,
    peers.LOAD_INLINE,
)  # fmt: skip
_IMPORTED = (peers.OURS, peers.CUPY, peers.CUDA_CORE, peers.TRITON)
_KEEPS_NOTHING = (peers.BARE, peers.CUDA_CORE)  # between processes, unless its user does


@dataclass
class _Samples:
    """Milliseconds of one competitor."""

    imports: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)


def run(budget: Budget) -> Iterator[Row]:
    """Milliseconds, each round in a new process; the competitors take turns."""
    require_gpu()
    samples = {who: _Samples() for who in _COMPETITORS}
    common = _common_environment()
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(budget.process_rounds):
            for who in list(samples):
                if turn >= _rounds(who, budget):
                    continue
                environment = {**common, **_cache_folders(Path(tempfile.mkdtemp(dir=folder)))}
                try:
                    _measure(who, environment, samples[who])
                except Missing as error:
                    del samples[who]
                    for suite in (COLD, WARM):
                        yield skipped(suite, _CASES[suite], who, error)
    for who in samples:
        if who in _IMPORTED:
            yield measured(IMPORT, _CASES[IMPORT], who, "ms", samples[who].imports)
    for who, taken in samples.items():
        if taken.warm:
            yield measured(WARM, _CASES[WARM], who, "ms", taken.warm)
    rows = {
        who: measured(COLD, _CASES[COLD], who, "ms", taken.cold)
        for who, taken in samples.items()
        if taken.cold
    }
    for row in rows.values():
        yield row
        if peers.BARE in rows:
            yield ratio(row, rows[peers.BARE], peers.BARE)


def _measure(who: str, environment: Mapping[str, str], samples: _Samples) -> None:
    kinds = [samples.cold] if who in _KEEPS_NOTHING else [samples.cold, samples.warm]
    for times in kinds:
        imported, launched = _child([str(HERE / "first_launch.py"), who], environment)
        samples.imports.append(1e3 * imported)
        times.append(1e3 * launched)


def _rounds(who: str, budget: Budget) -> int:
    if who == peers.LOAD_INLINE:
        return 1 if budget.slow_builds else 0
    return budget.process_rounds if who in (peers.OURS, peers.BARE) else budget.slow_process_rounds


def _common_environment() -> dict[str, str]:
    """NVRTC 12.9 and later keep a cache of their own, which would make a cold compile warm."""
    nvrtc = bare_nvrtc.find_nvrtc()
    code = f"import bare_nvrtc; print('%d.%02d' % bare_nvrtc.nvrtc_version({nvrtc!r}))"
    (version,) = _child(["-c", code], os.environ)
    options = "--no-cache" if version >= 12.09 else ""
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


def _child(arguments: list[str], environment: Mapping[str, str]) -> list[float]:
    """The numbers that a new Python prints last; Missing, with its last words, where it fails."""
    ran = subprocess.run(
        [sys.executable, *arguments],
        env=environment, cwd=HERE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ran.returncode != 0:
        lines = ran.stderr.strip().splitlines()
        raise Missing(lines[-1] if lines else f"exit status {ran.returncode}")
    return [float(word) for word in ran.stdout.strip().splitlines()[-1].split()]
