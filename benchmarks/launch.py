"""The host time of one launch: three arrays and one integer, onto a stream."""

from __future__ import annotations

import time
from collections.abc import Iterator

import peers
import subject
from measure import (
    Budget,
    Missing,
    Row,
    Timed,
    interleaved,
    ratio,
    require_gpu,
    skipped,
    synchronise,
    tabulated,
)

SUITE = "launch"
CASE = "one launch, 3 arrays and 1 integer"


def run(budget: Budget) -> Iterator[Row]:
    """Microseconds a launch, and each one's ratio to the raw call."""
    require_gpu()
    competitors: dict[str, Timed] = {}
    arrays = subject.arrays()
    for who in (peers.RAW, *peers.PEERS):
        if who == peers.LOAD_INLINE and not budget.slow_builds:
            yield skipped(SUITE, CASE, who, "a quick run builds nothing ahead of time")
            continue
        try:
            competitors[who] = peers.launcher(who, arrays)
        except (Exception, SystemExit) as error:
            yield skipped(SUITE, CASE, who, error)
    _warm_up(competitors)
    samples = interleaved(competitors, budget.host_rounds, synchronise)
    subject.check(arrays)
    rows, failures = tabulated(SUITE, CASE, samples)
    yield from failures
    if peers.RAW not in rows:
        raise Missing("without the raw call there is nothing to compare with")
    for row in rows.values():
        yield row
        yield ratio(row, rows[peers.RAW], "raw")


def _warm_up(competitors: dict[str, Timed], seconds: float = 2.0) -> None:
    """Bring the processor to the clock that it keeps: the first bursts of a process are slower."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for timed in competitors.values():
            synchronise()
            timed()
    synchronise()
