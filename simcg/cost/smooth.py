"""Measured costs fall here and there as a step grows; what is noise is smoothed away.

Most falls are real: a library picks another kernel at another size. Two calibrations on different
H200s agree on them (correlation 0.57 to 0.98 of what is left of each GEMM curve after isotonic
regression), and a ladder may use them. So only falls within the spread of the measurement go.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Ints

SIGMAS = 3.0
"""A fall of at most so many standard deviations of a difference is taken for noise."""


@dataclass(frozen=True, slots=True)
class Smoothed:
    """Costs (int64 ns), the largest share by which smoothing moved one, and the largest real fall.

    ``fall`` is the share by which the entry at index ``fall_at`` is cheaper than the one before.
    """

    ns: Ints
    largest_correction: float
    fall: float
    fall_at: int


def smooth_noise(ns: Ints, relative_spread: float) -> Smoothed:
    """Pool adjacent entries > 0 that fall by no more than noise of ``relative_spread`` explains.

    With infinite spread this is isotonic regression: the nearest non-decreasing sequence in least
    squares. With spread 0 nothing moves.
    """
    noise = SIGMAS * np.sqrt(2.0) * relative_spread
    fitted = np.rint(_pooled(ns.astype(np.float64).tolist(), float(noise))).astype(np.int64)
    falls = 1.0 - fitted[1:] / fitted[:-1]
    at = int(np.argmax(falls)) if len(falls) else 0
    return Smoothed(
        ns=fitted,
        largest_correction=float(np.abs(fitted / ns - 1.0).max()),
        fall=max(0.0, float(falls[at])) if len(falls) else 0.0,
        fall_at=at + 1,
    )


def _pooled(values: list[float], noise: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Blocks as (mean, size), merged with the one before while they fall by at most the noise."""
    means: list[float] = []
    sizes: list[int] = []
    for value in values:
        mean, size = value, 1
        while means and 0 < means[-1] - mean <= noise * means[-1]:
            before, count = means.pop(), sizes.pop()
            mean = (mean * size + before * count) / (size + count)
            size += count
        means.append(mean)
        sizes.append(size)
    return np.repeat(np.array(means), sizes)
