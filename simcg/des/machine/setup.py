"""What the machine is made of: figures that all ranks have in common."""

from __future__ import annotations

from dataclasses import dataclass

from simcg.errors import require

CUDA_QUEUE = 1024
"""Launches that a CUDA stream holds before the next call waits (observed, not documented)."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What all ranks have in common.

    ``latency_ns``: from the end of a launch call to the start of its kernel on an idle stream.
    ``queue``: launches that a stream holds before the next call waits; None: any number.
    """

    latency_ns: int
    queue: int | None = CUDA_QUEUE

    def __post_init__(self) -> None:
        require(self.latency_ns >= 0, "Machine", "latency_ns", self.latency_ns, "an integer >= 0")
        depth = self.queue
        require(depth is None or depth >= 1, "Machine", "queue", depth, "an integer >= 1, or None")
