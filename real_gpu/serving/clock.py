"""The server's clock, and the device's between two points of a stream."""

from __future__ import annotations

import time
from typing import Protocol

import torch

SPIN_NS = 2_000_000
"""A sleep may end so late; what remains of a wait is spun."""


class Clock(Protocol):
    """A server's time in ns since its run began."""

    def now(self) -> int:
        """The time."""

    def wait_until(self, due_ns: int) -> None:
        """Return at that time, or at once if it is past."""


class WallClock:
    """Nanoseconds since it was made."""

    def __init__(self) -> None:
        self._begin = time.perf_counter_ns()

    def now(self) -> int:
        """The time."""
        return time.perf_counter_ns() - self._begin

    def wait_until(self, due_ns: int) -> None:
        """Return at that time, or at once if it is past."""
        while (left := due_ns - self.now()) > 0:
            if left > SPIN_NS:
                time.sleep((left - SPIN_NS) / 1e9)


class Stopwatch(Protocol):
    """Times what a device does between two calls; ``ns`` after the device is done."""

    def begin(self) -> None:
        """From what is issued next."""

    def end(self) -> None:
        """To what was issued last."""

    def ns(self) -> int:
        """The time between the two."""


class CudaStopwatch:
    """Two events in the current stream, used again and again."""

    def __init__(self) -> None:
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def begin(self) -> None:
        """See ``Stopwatch``."""
        self._begin.record()

    def end(self) -> None:
        """See ``Stopwatch``."""
        self._end.record()

    def ns(self) -> int:
        """See ``Stopwatch``."""
        milliseconds: float = self._begin.elapsed_time(self._end)
        return round(milliseconds * 1e6)


class HostStopwatch:
    """For a device that works while the host issues: the host's own time."""

    def __init__(self) -> None:
        self._begin = self._end = 0

    def begin(self) -> None:
        """See ``Stopwatch``."""
        self._begin = time.perf_counter_ns()

    def end(self) -> None:
        """See ``Stopwatch``."""
        self._end = time.perf_counter_ns()

    def ns(self) -> int:
        """See ``Stopwatch``."""
        return self._end - self._begin


def stopwatch(device: torch.device) -> Stopwatch:
    """The device's."""
    return CudaStopwatch() if device.type == "cuda" else HostStopwatch()
