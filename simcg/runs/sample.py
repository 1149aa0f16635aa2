"""A sample of steps that stands for all of them."""

from __future__ import annotations

import numpy as np

from simcg.arrays import Ints
from simcg.workload.steps import Steps


def stratified(steps: Steps, count: int, seed: int) -> Ints:
    """Indices, ascending, of ``count`` steps (all if there are no more), one of each stratum.

    Strata are numbers of steps that differ by one at most, in the order of (tokens, pairs), so each
    sampled step has the same weight and the sample's sizes are those of the traffic.
    """
    order = np.lexsort((steps.pairs, steps.tokens))
    total = len(order)
    if count >= total:
        return np.arange(total, dtype=np.int64)
    edges = np.linspace(0, total, count + 1).astype(np.int64)
    position = np.random.default_rng(seed).integers(edges[:-1], edges[1:])
    chosen: Ints = np.sort(order[position])
    return chosen
