"""The scheduler's clock: how long a step takes under a ladder, as two table look-ups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.cost.kernels import Work
from simcg.cost.table import ReplayModel
from simcg.ladder import EAGER_INDEX, AdmissionRule, Ladder, dispatch

FAR_KEYS = 1024
"""Extra keys per query at which the cost of attention's context is read off."""


@dataclass(frozen=True, slots=True)
class StepClock:
    """``clock(n, pairs)``: duration in ns of a prefill step, linear in its query-key pairs.

    Tables are indexed by n = 0..N: a step of one request without context, and ns per further
    pair. A million steps are looked up, so they are Python lists.
    """

    base_ns: list[int]
    pair_ns: list[float]

    def __call__(self, tokens: int, pairs: int) -> int:
        """Duration of a step of ``tokens`` in 1..N with that many pairs, at least 1 ns."""
        further = pairs - tokens * (tokens + 1) // 2
        return max(1, self.base_ns[tokens] + int(further * self.pair_ns[tokens]))


def step_clock(
    model: ReplayModel, ladder: Ladder, rule: AdmissionRule, max_tokens: int
) -> StepClock:
    """The clock of a server with this ladder, for steps of up to ``max_tokens``."""
    tokens = np.arange(1, max_tokens + 1, dtype=np.int64)
    ones = np.ones_like(tokens)
    chosen = dispatch(ladder, rule, tokens, ones)
    sizes = np.array((*ladder.sizes, 0), dtype=np.int64)
    rows = np.where(chosen == EAGER_INDEX, tokens, sizes[chosen])
    alone = tokens * (tokens + 1) // 2
    ns = []
    for pairs in (alone, alone + FAR_KEYS * tokens):
        replay = model.replay.times(Work(rows, tokens, ones, pairs)).ns
        eager = model.eager.times(Work(tokens, tokens, ones, pairs)).ns
        ns.append(np.where(chosen == EAGER_INDEX, eager, replay))
    slope = np.maximum(ns[1] - ns[0], 0) / (FAR_KEYS * tokens)
    return StepClock([0, *ns[0].tolist()], [0.0, *slope.tolist()])
