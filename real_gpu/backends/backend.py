"""What every capture backend does, and the figures that it keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from simcg.backend import CaptureBackend
from simcg.ladder import Bucket

Forward = Callable[[], torch.Tensor]
"""One forward over static inputs; returns rows that it wrote into the runner's output buffer."""


@dataclass(frozen=True, slots=True)
class CaptureFigures:
    """What capturing one bucket took.

    ``warm_up_ns``, ``capture_ns`` (recording and instantiation), ``compile_ns`` (first bucket of
    a compiling backend only), ``nodes`` in ``segments`` graphs, ``breaks`` between them,
    ``pool_bytes``: what the pool reserved when it was done.
    """

    warm_up_ns: int
    capture_ns: int
    compile_ns: int
    nodes: int
    segments: int
    breaks: int
    pool_bytes: int


class Backend(Protocol):
    """Captures a forward per bucket and replays it; knows nothing of batches or padding."""

    @property
    def kind(self) -> CaptureBackend:
        """Which of simcg's backends this is."""

    def capture_one(self, key: Bucket, forward: Callable[[], torch.Tensor]) -> CaptureFigures:
        """Record ``forward`` under ``key`` after two warm-ups.

        Raises ``CaptureError``; then earlier buckets stay usable and the state is as before.
        """

    def can_run(self, key: Bucket) -> bool:
        """Whether ``replay(key)`` works."""

    def replay(self, key: Bucket) -> torch.Tensor:
        """Run the captured forward; returns the tensor that it returned at capture."""

    def cleanup(self) -> None:
        """Release every graph and the pool."""
