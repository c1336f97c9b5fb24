"""What a run measured: its header and rows, as JSON, as tables, and as pictures."""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import json
import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import peers
import torch
from measure import Budget, Missing, Row

_PACKAGES = ("cudademo", "torch", "triton", "cuda-core", "cupy-cuda13x", "cupy-cuda12x", "numpy")
_GREY, _OURS = "#9aa3ad", "#2a78b8"


@dataclass
class Report:
    """One run on one machine."""

    header: dict[str, Any]
    rows: list[Row] = field(default_factory=list)

    @property
    def slug(self) -> str:
        """The GPU's name, as a file name; without one `emulator` and the processor's."""
        name = self.header.get("gpu") or f"emulator {self.header['cpu']}"
        return re.sub(r"[^a-z0-9]+", "-", str(name).lower()).strip("-")

    def find(self, suite: str, case: str, who: str, unit: str) -> Row | None:
        """The one row of this description that was measured."""
        for row in self.rows:
            if (row.suite, row.case, row.who, row.unit) == (suite, case, who, unit):
                return row
        return None

    def save(self, path: Path) -> None:
        """Write JSON, a row a line, so that two runs can be compared line by line."""
        header = json.dumps(self.header, indent=2, ensure_ascii=False).replace("\n", "\n  ")
        rows = ",\n    ".join(
            json.dumps(_rounded(row.as_dict()), ensure_ascii=False) for row in self.rows
        )
        path.write_text(f'{{\n  "header": {header},\n  "rows": [\n    {rows}\n  ]\n}}\n')

    @staticmethod
    def load(path: Path) -> Report:
        """Read what `save` wrote."""
        data = json.loads(path.read_text())
        return Report(data["header"], [Row.from_dict(fields) for fields in data["rows"]])


def describe_machine(suites: Sequence[str], budget: Budget) -> dict[str, Any]:
    """What the figures depend on. Raises Missing without a GPU."""
    if not torch.cuda.is_available():
        raise Missing("no CUDA GPU")
    gpu = {
        "gpu": torch.cuda.get_device_name(),
        "capability": ".".join(map(str, torch.cuda.get_device_capability())),
        "driver": _driver_version(),
        "cuda": torch.version.cuda,
    }
    return gpu | describe_host(suites, budget)


def describe_host(suites: Sequence[str], budget: Budget) -> dict[str, Any]:
    """What figures depend on that no GPU has a part in."""
    return {
        "cpu": _cpu_model(),
        "cpu_cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "nvrtc": _nvrtc_version(),
        "python": platform.python_version(),
        "versions": _versions(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "suites": list(suites),
        "rounds": asdict(budget),
    }


def print_tables(report: Report) -> None:
    """One table a suite, on the screen."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for suite in dict.fromkeys(row.suite for row in report.rows):
        table = Table(title=suite, title_justify="left", title_style="bold")
        for column in ("case", "who"):
            table.add_column(column)
        for column in ("value", "median", "rounds"):
            table.add_column(column, justify="right")
        case = None
        for row in report.rows:
            if row.suite != suite:
                continue
            shown = row.case if row.case != case else ""
            case = row.case
            if row.skipped is not None:
                table.add_row(shown, row.who, f"skipped: {row.skipped}", "", "", style="dim")
                continue
            style = "bold" if row.who == peers.OURS else ""
            table.add_row(
                shown, row.who, f"{_short(row.value)} {row.unit}", _short(row.median),
                str(row.rounds), style=style,
            )  # fmt: skip
        console.print(table)


def markdown(report: Report) -> str:
    """The README's table: ours, and the others from the fastest to the slowest."""
    if any(row.suite == "emulator" for row in report.rows):
        return _emulator_table(report)
    lines = ["| What | cudademo | Others |", "|---|---|---|"]
    for suite in ("launch", "import", "warm", "cold", "operator"):
        for case in _cases(report, suite):
            rows = [row for row in report.rows if row.case == case and row.unit in ("us", "ms")]
            rows.sort(key=lambda row: row.value or 0.0)
            ours = [_amount(row) for row in rows if row.who == peers.OURS]
            others = [f"{row.who} {_amount(row)}" for row in rows if row.who != peers.OURS]
            lines.append(f"| {case} | **{', '.join(ours)}** | {', '.join(others)} |")
    speeds = [row for row in report.rows if row.suite == "bandwidth" and row.unit == "x torch"]
    for panel in dict.fromkeys(row.case.rsplit(" ", 1)[0] for row in speeds):
        rows = [row for row in speeds if row.case.startswith(panel + " ")]
        sizes = " / ".join(dict.fromkeys(row.case.rsplit(" ", 1)[1] for row in rows))
        by_who = {
            who: " / ".join(f"{row.value:.2f}" for row in rows if row.who == who)
            for who in dict.fromkeys(row.who for row in rows)
        }
        ours_text = by_who.pop(peers.OURS, "")
        others = [f"{who} {text}" for who, text in by_who.items() if who != "torch"]
        what = f"{panel}, {sizes} elements: speed as a multiple of torch's"
        lines.append(f"| {what} | **{ours_text}** | {', '.join(others)} |")
    return "\n".join(lines) + "\n"


def plot_launch(report: Report, path: Path) -> None:
    """Bars of the host time of one launch, the fastest on top."""
    import matplotlib.pyplot as plt

    rows = [row for row in report.rows if row.suite == "launch" and row.unit == "us"]
    if not rows:
        return
    rows.sort(key=lambda row: row.value or 0.0, reverse=True)
    raw = next((row.value for row in rows if row.who == peers.RAW), None)
    figure, axes = plt.subplots(figsize=(8, 0.42 * len(rows) + 1.2), layout="constrained")
    colours = [_OURS if row.who.startswith(peers.OURS) else _GREY for row in rows]
    values = [row.value or 0.0 for row in rows]
    bars = axes.barh([row.who for row in rows], values, color=colours)
    labels = [f" {v:.1f} µs" + (f", {v / raw:.2f} x" if raw else "") for v in values]
    axes.bar_label(bars, labels)
    axes.set_xlim(0, max(values) * 1.25)
    axes.set_xlabel("host time of one launch, µs (minimum over rounds)")
    axes.set_title(f"One launch of three arrays and an integer, {report.header['gpu']}", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def plot_bandwidth(report: Report, path: Path) -> None:
    """Bandwidth over size: a panel an operator and dtype, a line a competitor."""
    import matplotlib.pyplot as plt

    rows = [row for row in report.rows if row.suite == "bandwidth" and row.unit == "GB/s"]
    panels = list(dict.fromkeys(row.case.rsplit(" ", 1)[0] for row in rows))
    if not panels:
        return
    figure, grid = plt.subplots(
        (len(panels) + 1) // 2, 2, figsize=(10, 3.4 * ((len(panels) + 1) // 2)),
        sharex=True, squeeze=False, layout="constrained",
    )  # fmt: skip
    styles = {peers.OURS: (_OURS, "o", 3), "torch": ("#d1782a", "s", 2), "CUB": ("#4f9a5b", "^", 1)}
    for axes, panel in zip(grid.flat, sorted(panels), strict=False):
        mine = [row for row in rows if row.case.startswith(panel + " ")]
        for who in dict.fromkeys(row.who for row in mine):
            colour, marker, order = styles.get(who, (_GREY, "x", 0))
            points = [row for row in mine if row.who == who]
            axes.plot(
                [int(row.case.rsplit("^", 1)[1]) for row in points],
                [(row.value or 0.0) * 1e-3 for row in points],
                color=colour, marker=marker, label=who, zorder=2 + order,
            )  # fmt: skip
        axes.set_title(panel, loc="left")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    for axes in grid[-1]:
        axes.set_xlabel("elements, power of two")
    for row_of_axes in grid:
        row_of_axes[0].set_ylabel("TB/s moved")
    figure.suptitle(f"Bandwidth of the two operators, {report.header['gpu']}")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _emulator_table(report: Report) -> str:
    """A row a program: its rate, or its time where it has none."""
    columns = list(dict.fromkeys(row.who for row in report.rows if row.skipped is None))
    lines = [f"| On the emulator | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for case in _cases(report, "emulator"):
        rows = [row for row in report.rows if row.case == case]
        rates = [row for row in rows if row.unit.endswith("/s")]
        amounts = {row.who: _amount(row) for row in rates or rows if row.skipped is None}
        lines.append(f"| {case} | {' | '.join(amounts.get(who, '') for who in columns)} |")
    return "\n".join(lines) + "\n"


def _cases(report: Report, suite: str) -> list[str]:
    return list(dict.fromkeys(row.case for row in report.rows if row.suite == suite))


def _amount(row: Row) -> str:
    value, unit = row.value or 0.0, row.unit
    if unit == "us" and value >= 1e3:
        value, unit = value * 1e-3, "ms"
    if unit == "ms" and value >= 1e4:
        value, unit = value * 1e-3, "s"
    return f"{_short(value)} {unit.replace('us', 'µs')}"


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value >= 10 else f"{value:.2f}"


def _rounded(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in fields.items()}


def _versions() -> dict[str, str]:
    installed = {
        str(name): distribution.version
        for distribution in importlib.metadata.distributions()
        if (name := distribution.metadata["Name"])
    }
    return {name: installed[name] for name in _PACKAGES if name in installed}


def _nvrtc_version() -> str:
    """Of the one that cudademo compiles with. Raises Missing where there is none."""
    cudademo: Any = importlib.import_module("cudademo")
    try:
        toolchain = cudademo.compilation.current_toolchain()
    except cudademo.ToolchainError as error:
        raise Missing(str(error)) from error
    return ".".join(map(str, toolchain.version))


def _driver_version() -> str:
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return "unknown"
    found = re.search(r"\s(\d+\.\d+(\.\d+)?)\s", text)
    return found.group(1) if found else "unknown"


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names: Iterable[str] = (line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    return next(iter(names), platform.machine())
