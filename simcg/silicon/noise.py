"""How noisy a table without spreads is, by how rough its curves are."""

from __future__ import annotations

import numpy as np

from simcg.arrays import Floats


def roughness(ns: Floats) -> float:
    """One sigma of a time, as a share, along the first axis; 0 with fewer than three entries.

    Each time is held against the geometric mean of its neighbours. On a straight line in
    logarithms with independent errors of sigma the difference has sigma * sqrt(1.5); bends and
    steps add to it, so that this is an upper bound of the noise.
    """
    log_ns = np.log(ns)
    if len(log_ns) < 3:
        return 0.0
    off = np.abs(log_ns[1:-1] - (log_ns[:-2] + log_ns[2:]) / 2)
    return round(float(np.median(off)) * 1.4826 / float(np.sqrt(1.5)), 4)
