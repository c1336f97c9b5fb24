"""How things are timed here, and what becomes of the samples.

Host time is taken over bursts of calls between two synchronisations, short enough for the launch
queue never to fill. GPU time is taken over replays of a CUDA graph, between two events. In both,
competitors take turns within each round, so that a noisy moment hits all alike.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

BURST_CALLS = 100

Loop = Callable[[int], None]
Timed = Callable[[], float]


class Missing(Exception):  # noqa: N818
    """A competitor, a tool or the GPU is not here; the message says which."""


@dataclass(frozen=True)
class Budget:
    """Rounds of each kind of measurement."""

    host_rounds: int = 300
    gpu_rounds: int = 25
    process_rounds: int = 7
    slow_process_rounds: int = 3
    slow_builds: bool = True
    emulator_rounds: int = 15

    @staticmethod
    def quick() -> Budget:
        return Budget(60, 7, 2, 1, slow_builds=False, emulator_rounds=3)

    def capped(self, rounds: int) -> Budget:
        """`rounds` of everything that stays in this process, at most as many new processes."""
        return Budget(
            rounds,
            rounds,
            min(rounds, self.process_rounds),
            min(rounds, self.slow_process_rounds),
            self.slow_builds,
            rounds,
        )


@dataclass(frozen=True)
class Row:
    """One figure: `value` is the statistic that `statistic` names."""

    suite: str
    case: str
    who: str
    unit: str = ""
    value: float | None = None
    statistic: str = "min"
    better: str = "lower"
    rounds: int = 0
    min: float | None = None
    median: float | None = None
    skipped: str | None = None

    def as_dict(self) -> dict[str, Any]:
        if self.skipped is not None:
            return {
                "suite": self.suite, "case": self.case, "who": self.who, "skipped": self.skipped,
            }  # fmt: skip
        fields = {name: getattr(self, name) for name in Row.__dataclass_fields__}
        del fields["skipped"]
        return fields

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> Row:
        return Row(**fields)


def measured(
    suite: str, case: str, who: str, unit: str, samples: Sequence[float], statistic: str = "min"
) -> Row:
    """A row of times, already in `unit`; `statistic` is `min` or `median`."""
    if not samples:
        raise ValueError("no samples")
    low, middle = min(samples), statistics.median(samples)
    value = {"min": low, "median": middle}[statistic]
    return Row(suite, case, who, unit, value, statistic, "lower", len(samples), low, middle)


def tabulated(
    suite: str,
    case: str,
    samples: Mapping[str, list[float] | Exception],
    statistic: str = "min",
) -> tuple[dict[str, Row], list[Row]]:
    """What `interleaved` gave, in microseconds: rows by competitor, and a row for each failure."""
    rows: dict[str, Row] = {}
    failures: list[Row] = []
    for who, taken in samples.items():
        if isinstance(taken, Exception):
            failures.append(skipped(suite, case, who, taken))
        else:
            times = [1e6 * seconds for seconds in taken]
            rows[who] = measured(suite, case, who, "us", times, statistic)
    return rows, failures


def skipped(suite: str, case: str, who: str, reason: BaseException | str) -> Row:
    """A row for a competitor that could not be measured."""
    return Row(suite, case, who, skipped=_one_line(reason))


def rate(row: Row, amount: float, unit: str) -> Row:
    """`amount` over the row's times: its `min` is the rate of the shortest time."""
    return _derived(row, unit, "higher", lambda time_taken: amount / time_taken)


def ratio(row: Row, base: Row, name: str) -> Row:
    """How many times as long as `base` it takes: minimum over minimum, median over median."""
    return _against(row, base, f"x {name}", "lower", lambda mine, other: mine / other)


def speedup(row: Row, base: Row, name: str) -> Row:
    """How many times as fast as `base` it is: what a ratio of bandwidths would say."""
    return _against(row, base, f"x {name}", "higher", lambda mine, other: other / mine)


def burst(loop: Loop, calls: int = BURST_CALLS) -> Timed:
    """Host seconds of one call in a burst. `loop(calls)` makes the calls in its natural syntax."""

    def timed() -> float:
        start = time.perf_counter()
        loop(calls)
        return (time.perf_counter() - start) / calls

    return timed


def interleaved(
    competitors: Mapping[str, Timed], rounds: int, settle: Callable[[], object] | None = None
) -> dict[str, list[float] | Exception]:
    """Samples of each competitor, round by round, in an order that shifts by one each round.

    `settle` runs before and after each sample and is not timed. A competitor that raises is out,
    and its exception stands in for its samples; each has one unrecorded turn first.
    """
    samples: dict[str, list[float]] = {who: [] for who in competitors}
    failed: dict[str, Exception] = {}
    order = list(competitors)
    with _collector_off():
        for turn in range(rounds + 1):
            shift = turn % max(1, len(order))
            for who in order[shift:] + order[:shift]:
                if who in failed:
                    continue
                try:
                    if settle:
                        settle()
                    sample = competitors[who]()
                    if settle:
                        settle()
                except Exception as error:
                    failed[who] = error
                    continue
                if turn:
                    samples[who].append(sample)
    return {who: failed.get(who, samples[who]) for who in order}


def require_gpu() -> None:
    """Raise Missing where torch sees no CUDA GPU."""
    if not torch.cuda.is_available():
        raise Missing("no CUDA GPU")


def synchronise() -> None:
    torch.cuda.synchronize()


def captured(body: Callable[[], object], repeats: int) -> Timed:
    """GPU seconds of one `body()`, from a CUDA graph of `repeats` of them.

    `body()` runs on torch's current stream. It is run once before the capture, so that nothing is
    compiled, loaded or first allocated inside it.
    """
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        body()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(repeats):
            body()
    start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

    def timed() -> float:
        with torch.cuda.stream(stream):
            start.record()
            graph.replay()
            end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3 / repeats

    return timed


def _derived(row: Row, unit: str, better: str, convert: Callable[[float], float]) -> Row:
    if row.value is None or row.min is None or row.median is None:
        raise ValueError(f"{row.who} was not measured")
    return Row(
        row.suite, row.case, row.who, unit, convert(row.value), row.statistic, better,
        row.rounds, convert(row.min), convert(row.median),
    )  # fmt: skip


def _against(
    row: Row, base: Row, unit: str, better: str, compare: Callable[[float, float], float]
) -> Row:
    if row.min is None or row.median is None or base.min is None or base.median is None:
        raise ValueError(f"{row.who} or {base.who} was not measured")
    low, middle = compare(row.min, base.min), compare(row.median, base.median)
    value = {"min": low, "median": middle}[row.statistic]
    return Row(
        row.suite, row.case, row.who, unit, value, row.statistic, better,
        min(row.rounds, base.rounds), low, middle,
    )  # fmt: skip


def _one_line(reason: BaseException | str) -> str:
    if isinstance(reason, (Missing, str)):
        text = str(reason)
    else:
        text = f"{type(reason).__name__}: {reason}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else type(reason).__name__)[:200]


@contextmanager
def _collector_off() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
