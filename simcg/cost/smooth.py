"""Measured curves are noisy; a cost table must not fall where a step grows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.errors import InputError

LARGEST_CORRECTION = 0.25
"""Beyond this share a curve is not noisy but wrong."""


@dataclass(frozen=True, slots=True)
class Smoothed:
    """A non-decreasing table and the largest share by which an entry was moved, at which index."""

    ns: Ints
    largest_correction: float
    at: int


def non_decreasing(ns: Ints, source: str) -> Smoothed:
    """The non-decreasing int64 sequence nearest to ``ns`` > 0 in least squares of equal weight.

    Pool adjacent violators. Raises ``InputError`` when an entry would move by more than 25 %.
    """
    fitted = np.rint(_isotonic(ns.astype(np.float64))).astype(np.int64)
    moved = np.abs(fitted / ns - 1.0)
    at = int(np.argmax(moved))
    if moved[at] > LARGEST_CORRECTION:
        raise InputError(
            source, f"entry {at + 1}", int(ns[at]),
            f"a cost that does not fall as steps grow (the nearest such curve has {fitted[at]})",
        )  # fmt: skip
    return Smoothed(fitted, float(moved[at]), at)


def _isotonic(values: Floats) -> Floats:
    """Least squares under monotonicity: blocks as (mean, size), merged while they fall."""
    if bool(np.all(values[1:] >= values[:-1])):
        return values
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        mean, size = value, 1
        while means and means[-1] > mean:
            before, count = means.pop(), sizes.pop()
            mean = (mean * size + before * count) / (size + count)
            size += count
        means.append(mean)
        sizes.append(size)
    return np.repeat(np.array(means), sizes)
