"""Lengths of a benchmark's requests."""

from __future__ import annotations

import numpy as np

from simcg.arrays import Ints


def drawn_lengths(longest: int, shortest: float, count: int, seed: int) -> Ints:
    """``count`` lengths, uniform from the share ``shortest`` of ``longest`` up to it.

    As vLLM's ``benchmark_serving.py --random-range-ratio`` draws them.
    """
    random = np.random.default_rng(seed)
    lengths: Ints = random.integers(int(longest * shortest), longest + 1, count)
    return lengths
