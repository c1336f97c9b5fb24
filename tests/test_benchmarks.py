"""The benchmark's arithmetic, its report, and what it says where it cannot run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark's modules, which import one another by name as its script does."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import measure
    import report

    class Modules:
        pass

    Modules.measure, Modules.report = measure, report
    return Modules


def sample(modules: Any) -> Any:
    measured, ratio = modules.measure.measured, modules.measure.ratio
    raw = measured("launch", "a launch", "raw cuLaunchKernel in C", "us", [2.0, 4.0, 3.0])
    ours = measured("launch", "a launch", "cudademo", "us", [3.0, 3.5, 6.0])
    busy = measured("bandwidth", "sum_double f32 2^20", "cudademo", "us", [10.0, 20.0], "median")
    base = measured("bandwidth", "sum_double f32 2^20", "torch", "us", [20.0, 20.0], "median")
    rows = [
        raw, ours, ratio(ours, raw, "raw"),
        busy, modules.measure.rate(busy, 12e3, "GB/s"),
        modules.measure.speedup(busy, base, "torch"),
        modules.measure.skipped("launch", "a launch", "CuPy", ImportError("No module\nnamed cupy")),
    ]  # fmt: skip
    return modules.report.Report({"gpu": "NVIDIA H200", "versions": {"torch": "2.11"}}, rows)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "run.py"), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def test_a_ratio_is_minimum_over_minimum_and_median_over_median(modules: Any) -> None:
    row = sample(modules).rows[2]
    assert (row.value, row.min, row.median) == (1.5, 1.5, pytest.approx(3.5 / 3.0))
    assert row.unit == "x raw"


def test_a_rate_and_a_speedup_follow_from_the_median_where_it_is_the_statistic(
    modules: Any,
) -> None:
    rows = sample(modules).rows
    assert rows[4].value == pytest.approx(12e3 / 15.0)
    assert rows[5].value == pytest.approx(20.0 / 15.0)


def test_a_competitor_that_fails_leaves_the_others_their_samples(modules: Any) -> None:
    def broken() -> float:
        raise RuntimeError("no")

    ran = modules.measure.interleaved({"bad": broken, "good": lambda: 1.0}, 3)
    assert isinstance(ran["bad"], RuntimeError)
    assert ran["good"] == [1.0, 1.0, 1.0]


def test_samples_become_rows_in_microseconds_and_failures_rows_of_their_own(modules: Any) -> None:
    samples = {"good": [3e-6, 1e-6, 2e-6], "bad": RuntimeError("no")}
    rows, failures = modules.measure.tabulated("launch", "a launch", samples, "median")
    assert list(rows) == ["good"]
    assert (rows["good"].value, rows["good"].unit) == (pytest.approx(2.0), "us")
    assert [(row.who, row.skipped) for row in failures] == [("bad", "RuntimeError: no")]


def test_a_skipped_row_says_why_in_one_line(modules: Any) -> None:
    row = sample(modules).rows[-1]
    assert row.skipped == "ImportError: No module"
    assert "value" not in row.as_dict()


def test_a_report_survives_its_file(modules: Any, tmp_path: Path) -> None:
    report = sample(modules)
    path = tmp_path / f"{report.slug}.json"
    report.save(path)
    again = modules.report.Report.load(path)
    assert path.name == "nvidia-h200.json"
    assert again.header == report.header
    assert [row.who for row in again.rows] == [row.who for row in report.rows]
    assert again.rows[2].median == pytest.approx(report.rows[2].median, rel=1e-5)
    json.loads(path.read_text())


def test_the_readme_table_names_ours_and_the_others(modules: Any) -> None:
    text = modules.report.markdown(sample(modules))
    assert "| **3.00 µs** | raw cuLaunchKernel in C 2.00 µs |" in text
    assert "| **1.33** |" in text


def test_an_earlier_run_is_drawn_again(modules: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("rich")
    report = sample(modules)
    report.save(tmp_path / "run.json")
    ran = run("--plots-only", str(tmp_path / "run.json"), "--out", str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    for name in ("nvidia-h200-launch.png", "nvidia-h200-bandwidth.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert "skipped: ImportError" in ran.stdout


def test_without_a_gpu_it_says_so_and_writes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ran = run("--out", str(tmp_path / "results"), CUDA_VISIBLE_DEVICES="")
    assert ran.returncode == 1
    assert "no CUDA GPU" in ran.stderr
    assert not (tmp_path / "results").exists()


def test_a_number_of_rounds_below_one_is_refused() -> None:
    ran = run("--rounds", "0")
    assert ran.returncode == 2
    assert "from 1 on" in ran.stderr


def emulated_sample(modules: Any) -> Any:
    measured, case = modules.measure.measured, "sum_double f32 2^20"
    off = measured("emulator", case, "checks off", "us", [40e3, 50e3])
    on = measured("emulator", case, "checks on", "us", [80e3, 80e3])
    rates = [modules.measure.rate(row, 8e6, "M instructions/s") for row in (off, on)]
    wall = measured("emulator", f"{case}, 2 cores", "checks off", "us", [20e3])
    return modules.report.Report({"cpu": "AMD EPYC"}, [off, on, *rates, wall])


def test_a_report_of_the_emulator_is_named_after_the_processor(modules: Any) -> None:
    assert emulated_sample(modules).slug == "emulator-amd-epyc"


def test_the_emulators_table_has_rates_and_else_times(modules: Any) -> None:
    assert modules.report.markdown(emulated_sample(modules)).splitlines() == [
        "| On the emulator | checks off | checks on |",
        "|---|---|---|",
        "| sum_double f32 2^20 | 200 M instructions/s | 100 M instructions/s |",
        "| sum_double f32 2^20, 2 cores | 20 ms |  |",
    ]


def test_the_emulator_is_measured_without_a_gpu(
    modules: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("rich")
    import emulator
    import run as script

    for name, small in (("ELEMENTS", 1 << 12), ("SIDE", 32), ("KEYS", 1 << 11)):
        monkeypatch.setattr(emulator, name, small)
    assert script.main(["--suites", "emulator", "--rounds", "1", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("emulator-")
    report = modules.report.Report.load(path)
    assert report.header["suites"] == ["emulator"]
    assert not [row.case for row in report.rows if row.skipped]
    rates = {(row.case, row.who): row for row in report.rows if row.unit == "M instructions/s"}
    assert len(rates) == 8
    for (case, who), row in rates.items():
        count = report.find("emulator", case, who, "instructions").value
        microseconds = report.find("emulator", case, who, "us").value
        assert row.value == pytest.approx(count / microseconds, rel=1e-4)
    # By hand from the PTX that NVRTC 13 makes: 29 instructions for four elements.
    added = report.find("emulator", "sum_double f32 2^12", "checks off", "instructions")
    assert 20 <= added.value / 2**10 <= 40


def test_the_emulators_suite_is_refused_beside_those_of_a_gpu() -> None:
    ran = run("--suites", "emulator", "launch")
    assert ran.returncode == 2
    assert "runs alone" in ran.stderr


@pytest.mark.gpu
def test_a_short_run_on_the_gpu_has_ours_beside_the_raw_call(modules: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("rich")
    ran = run("--suites", "launch", "--quick", "--rounds", "3", "--out", str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    (path,) = tmp_path.glob("*.json")
    report = modules.report.Report.load(path)
    ours = [row for row in report.rows if row.who == "cudademo" and row.unit == "x raw"]
    assert len(ours) == 1
    assert ours[0].value > 1.0
