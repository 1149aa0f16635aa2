"""What padding, sinks, the output and free pool memory hold before a step: it must not matter."""

from __future__ import annotations

from collections import Counter

import torch

from real_gpu.backends.backend import Backend
from real_gpu.conformance.executor import Executor
from real_gpu.conformance.extras import pool_of
from real_gpu.conformance.kernels import NAN, Views

LARGE = 1e300
BYTES = {"NaN": 0xFF, "large": 0x7F}
KINDS = ("NaN", "large", "random bits")
"""``max``, ``where`` and integer operators swallow NaN; large numbers and random bits they show."""


class Poison:
    """Takes the kinds in turn. ``counts``: replays after each."""

    def __init__(self, real: Executor, seed: int) -> None:
        self._real, self._turn = real, seed
        self._source = torch.Generator().manual_seed(seed)
        self.counts: Counter[str] = Counter()

    def __call__(self, views: Views, tokens: int, backend: Backend | None) -> None:
        """Before a step of so many tokens in these views; ``backend``: where it replays."""
        kind = KINDS[self._turn % len(KINDS)]
        self._turn += 1
        model = self._real.model
        sinks = [*(c[:1] for c in model.caches.values()), *(s[-1:] for s in model.states.values())]
        for rows in (views.ids[tokens:], views.out, *sinks):
            self._fill(rows, kind)
        if backend is None:
            return
        pool = pool_of(backend)
        if pool is not None:
            byte = int(torch.randint(256, (1,), generator=self._source))
            self._real.device.fill_free(pool, BYTES.get(kind, byte))
        self.counts[kind] += 1

    def _fill(self, rows: torch.Tensor, kind: str) -> None:
        if kind == "random bits":
            bits = torch.randint(-(2**63), 2**63 - 1, rows.shape, generator=self._source)
            rows.copy_(bits.view(torch.float64))
        else:
            rows.fill_(NAN if kind == "NaN" else LARGE)
