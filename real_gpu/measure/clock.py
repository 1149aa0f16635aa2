"""How steps are timed: from an idle start to the end of the last kernel."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

BUSY_NS = 60_000_000
"""A GPU that was idle runs its first tens of milliseconds at other clocks."""
GPU_LAG = 0.05
"""The GPU is what a step waits for where it still works for this share after the host is done."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One step in ns: rewriting its inputs, issuing it, and all of it up to the last kernel."""

    plan_ns: int
    host_ns: int
    step_ns: int

    @property
    def gpu_bound(self) -> bool:
        """The GPU still worked when the host had issued everything."""
        return self.step_ns - self.host_ns > GPU_LAG * self.step_ns


@dataclass(frozen=True, slots=True)
class Summary:
    """Samples of several rounds: medians in ns, one robust sigma, and the rounds' own spread.

    ``floor``: one robust sigma of the rounds' medians as a share of the median.
    """

    ns: float
    spread_ns: float
    floor: float
    samples: int
    host_ns: float
    plan_ns: float

    @property
    def gpu_bound(self) -> bool:
        """The GPU still worked when the host had issued everything."""
        return self.ns - self.host_ns > GPU_LAG * self.ns


def sample(
    plan: Callable[[], object], run: Callable[[], object], wait: Callable[[], None]
) -> Sample:
    """Plan, wait until the device is idle, then run and wait for the end."""
    begin = time.perf_counter_ns()
    plan()
    planned = time.perf_counter_ns()
    wait()
    start = time.perf_counter_ns()
    run()
    issued = time.perf_counter_ns()
    wait()
    end = time.perf_counter_ns()
    return Sample(planned - begin, issued - start, end - start)


def keep_busy(run: Callable[[], object], wait: Callable[[], None]) -> None:
    """Run until the clocks are those of a busy device; the results are nobody's."""
    stop = time.perf_counter_ns() + BUSY_NS
    while time.perf_counter_ns() < stop:
        run()
        wait()


def summary(rounds: Sequence[Sequence[Sample]]) -> Summary:
    """All samples of one cell, by round."""
    samples = [one for part in rounds for one in part]
    median = statistics.median(s.step_ns for s in samples)
    medians = [statistics.median(s.step_ns for s in part) for part in rounds]
    return Summary(
        ns=median,
        spread_ns=_sigma([s.step_ns for s in samples]),
        floor=_sigma(medians) / median,
        samples=len(samples),
        host_ns=statistics.median(s.host_ns for s in samples),
        plan_ns=statistics.median(s.plan_ns for s in samples),
    )


def _sigma(values: Sequence[float]) -> float:
    """1.4826 times the median absolute deviation."""
    median = statistics.median(values)
    return 1.4826 * statistics.median(abs(v - median) for v in values)
