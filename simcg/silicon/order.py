"""What a table without spreads says of its own noise: rows out of order, and rough curves."""

from __future__ import annotations

import numpy as np

from simcg.arrays import Floats

DISORDER = 1.5
"""A row slower by this factor than one that is larger or equal in every size timed something else:
the host's launch, a warm-up, or a slow path for odd rows."""


def least_larger(ns: Floats) -> Floats:
    """The least time of any entry at least as large along every axis; inf where there is none."""
    out = np.where(np.isnan(ns), np.inf, ns)
    for axis in range(ns.ndim):
        out = np.flip(np.minimum.accumulate(np.flip(out, axis), axis), axis)
    return out


def ordered(ns: Floats) -> tuple[Floats, int]:
    """Entries out of order at the least time of a larger one, and how many they are."""
    least = least_larger(ns)
    late = ns > DISORDER * least
    return np.where(late | np.isnan(ns), least, ns), int(late.sum())


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
