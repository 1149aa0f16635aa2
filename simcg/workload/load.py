"""How busy the server is, and whether it keeps up with its requests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.errors import InputError
from simcg.workload.requests import Requests
from simcg.workload.scheduler import StepTime, scaled_arrivals
from simcg.workload.steps import Steps


@dataclass(frozen=True, slots=True)
class Utilisation:
    """``busy_ns`` of computing in ``span_ns`` from first arrival to last end.

    ``arrival_span_ns`` from first to last arrival; ``drain_ns`` from last arrival to last end.
    """

    busy_ns: int
    span_ns: int
    arrival_span_ns: int
    drain_ns: int

    @property
    def busy_share(self) -> float:
        """Share of the span in which the server computes, 0 to 1."""
        return self.busy_ns / self.span_ns if self.span_ns else 0.0

    @property
    def unstable(self) -> bool:
        """The requests need more time than they arrive in, so the queue grows with the trace.

        False where all arrive at once: that says nothing of a rate.
        """
        return 0 < self.arrival_span_ns < self.busy_ns


def utilisation(
    steps: Steps, requests: Requests, step_ns: StepTime, rate: float = 1.0
) -> Utilisation:
    """Busy time of ``prefill_steps(requests, step_ns=step_ns, rate=rate, ...)``'s result.

    Raises InputError for steps without a time axis.
    """
    if steps.start_ns is None:
        raise InputError(steps.source, "start_ns", None, "steps with a time axis")
    shapes = np.stack([steps.tokens, steps.pairs], axis=1).tolist()
    durations = [step_ns(n, pairs) for n, pairs in shapes]
    arrival_ns = scaled_arrivals(requests, rate)
    first, last = int(arrival_ns[0]), int(arrival_ns[-1])
    end = int(steps.start_ns[-1]) + durations[-1]
    return Utilisation(sum(durations), end - first, last - first, end - last)
