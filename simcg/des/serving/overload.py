"""Does the server keep up? What it can do at most, measured by itself, against what comes."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np

from simcg.des.serving.arrivals import Arrivals
from simcg.des.serving.clock import ServingClock
from simcg.des.serving.config import ServerConfig
from simcg.des.serving.result import ServingResult
from simcg.des.serving.simulate import serve

BUSY = 0.95
"""A server that is idle for more than the rest of the time keeps up."""
SAMPLE = 2_000
"""Requests that are served at once to see how fast that goes."""


@dataclass(frozen=True, slots=True)
class Overload:
    """More requests a second come than can be served, so the queue diverges."""

    offered_per_s: float
    capacity_per_s: float

    def __str__(self) -> str:
        """One line for the user."""
        return (
            f"the queue diverges: offered {self.offered_per_s:.2f}, capacity "
            f"{self.capacity_per_s:.2f} requests/s"
        )


def overload(
    config: ServerConfig,
    arrivals: Arrivals,
    result: ServingResult,
    *,
    seed: int,
    clock: ServingClock,
) -> Overload | None:
    """Whether the run was one of a server that cannot keep up; None if it can."""
    offered = result.offered_per_s
    if offered is None or result.utilisation < BUSY:
        return None
    capacity = capacity_per_s(config, arrivals, seed=seed, clock=clock)
    return Overload(offered, capacity) if offered > capacity else None


def capacity_per_s(
    config: ServerConfig, arrivals: Arrivals, *, seed: int, clock: ServingClock
) -> float:
    """Requests a second when more always wait: the same requests, all of them from the start.

    By the middle of the run, where neither the start nor the last requests' decodes count.
    """
    columns, _ = arrivals.columns(seed)
    count = min(len(columns.prompt), SAMPLE)
    waiting = columns._replace(
        arrival=array("q", bytes(8 * count)),
        prompt=columns.prompt[:count],
        cached=columns.cached[:count],
        output=columns.output[:count],
    )
    server = serve(clock, config.policy, config.limits, waiting, count)
    finish = np.sort(np.frombuffer(server.finish, dtype=np.int64))
    first, last = count // 5, max(count * 4 // 5, count // 5 + 1)
    begin = int(finish[first - 1]) if first else 0
    spent = int(finish[min(last, count) - 1]) - begin
    return (min(last, count) - first) * 1e9 / spent if spent > 0 else float("inf")
