"""The backend without graphs, so that a runner can treat all backends alike."""

from __future__ import annotations

import torch

from real_gpu.backends.backend import CaptureFigures, Forward
from real_gpu.backends.capture import name_of
from real_gpu.graphs.device import CaptureError
from simcg.backend import EAGER, CaptureBackend
from simcg.ladder import Bucket


class Eager:
    """Captures nothing: ``replay`` calls the forward that ``capture_one`` was given.

    So a bucket runs at its padded size, which is what a replay of it must equal bit for bit.
    """

    def __init__(self) -> None:
        self._forwards: dict[Bucket, Forward] = {}

    @property
    def kind(self) -> CaptureBackend:
        """Which of simcg's backends this is."""
        return EAGER

    def capture_one(self, key: Bucket, forward: Forward) -> CaptureFigures:
        """Remember the forward; it is not run, and every figure is 0."""
        if key in self._forwards:
            raise CaptureError(f"{name_of(key)} is captured already: clean up first")
        self._forwards[key] = forward
        return CaptureFigures(0, 0, 0, 0, 0, 0, 0)

    def can_run(self, key: Bucket) -> bool:
        """Whether the bucket has a forward."""
        return key in self._forwards

    def replay(self, key: Bucket) -> torch.Tensor:
        """Run the forward; returns what it returns."""
        if key not in self._forwards:
            raise CaptureError(f"{name_of(key)} is not captured")
        with torch.inference_mode():
            return self._forwards[key]()

    def cleanup(self) -> None:
        """Forget the forwards."""
        self._forwards.clear()
