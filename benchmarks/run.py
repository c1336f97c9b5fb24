"""Measures cudademo beside its peers in one run: `python benchmarks/run.py`.

Prints tables, and writes `results/<gpu>.json`, `<gpu>-launch.png` and `<gpu>-bandwidth.png`.
What is missing on the machine is skipped with a word. Takes some four minutes.

`--suites emulator` needs no GPU, takes half a minute, and writes `results/emulator-<cpu>.json`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from measure import Budget, Row
    from report import Report

HERE = Path(__file__).parent


def main(arguments: Sequence[str]) -> int:
    """The command's exit status: 0, or 1 with a sentence on stderr."""
    options = _parse(arguments)
    try:
        import matplotlib
        import report as reports
        from measure import Budget, Missing
    except ImportError as error:
        return _refuse(f"{error.name} is missing: pip install '.[bench]' brings what this needs")
    matplotlib.use("Agg")
    try:
        if options.plots_only:
            report = reports.Report.load(options.plots_only)
        else:
            budget = Budget.quick() if options.quick else Budget()
            if options.rounds:
                budget = budget.capped(options.rounds)
            describe = (
                reports.describe_host if options.suites == [EMULATOR] else reports.describe_machine
            )
            report = reports.Report(describe(options.suites, budget))
            for suite in options.suites:
                _measure(suite, budget, report)
            options.out.mkdir(parents=True, exist_ok=True)
            report.save(options.out / f"{report.slug}.json")
    except Missing as missing:
        return _refuse(f"nothing was measured: {missing}")
    reports.print_tables(report)
    reports.plot_launch(report, options.out / f"{report.slug}-launch.png")
    reports.plot_bandwidth(report, options.out / f"{report.slug}-bandwidth.png")
    if options.markdown:
        print(reports.markdown(report))
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--suites", nargs="+", choices=(*SUITES, EMULATOR), default=list(SUITES),
        help="which; all but the emulator's by default, which runs alone",
    )  # fmt: skip
    parser.add_argument("--rounds", type=_positive, help="of everything; fewer are quicker")
    parser.add_argument("--quick", action="store_true", help="few rounds, nothing built by nvcc")
    parser.add_argument(
        "--out", type=Path, default=HERE / "results", help="the folder for JSON and pictures"
    )
    parser.add_argument(
        "--plots-only", type=Path, metavar="JSON", help="draw an earlier run's pictures again"
    )
    parser.add_argument("--markdown", action="store_true", help="print the README's table as well")
    options = parser.parse_args(arguments)
    if EMULATOR in options.suites and options.suites != [EMULATOR]:
        parser.error("the emulator's suite runs alone: its report is of a processor, not of a GPU")
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("a number of rounds from 1 on")
    return number


SUITES = ("launch", "operator", "startup", "bandwidth")
EMULATOR = "emulator"


def _suites() -> dict[str, Callable[[Budget], Iterator[Row]]]:
    import bandwidth
    import emulator
    import launch
    import operator_call
    import startup

    modules = (launch, operator_call, startup, bandwidth, emulator)
    return {name: module.run for name, module in zip((*SUITES, EMULATOR), modules, strict=True)}


def _measure(name: str, budget: Budget, report: Report) -> None:
    start = time.perf_counter()
    report.rows.extend(_suites()[name](budget))
    print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


def _refuse(reason: str) -> int:
    print(f"benchmarks/run.py: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
