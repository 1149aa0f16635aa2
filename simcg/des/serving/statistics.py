"""Confidence intervals of simulated means: batches of one run, replications, paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from simcg.arrays import Floats
from simcg.errors import require

BATCHES = 20
"""Fewer, longer batches: their means are nearly independent of each other (Law, 2015, ch. 9)."""
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its two-sided confidence interval at LEVEL."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's length."""
        return (self.high - self.low) / 2

    def contains(self, value: float) -> bool:
        """Is the value inside, ends included?"""
        return self.low <= value <= self.high


def interval(values: Sequence[float] | Floats) -> Interval:
    """The mean of independent values, by Student's t; one value alone has no finite interval."""
    data = np.asarray(values, dtype=np.float64)
    require(len(data) >= 1, "interval", "values", len(data), "at least one value")
    mean = float(data.mean())
    if len(data) == 1:
        return Interval(mean, -math.inf, math.inf)
    half = t_quantile(len(data) - 1) * float(data.std(ddof=1)) / math.sqrt(len(data))
    return Interval(mean, mean - half, mean + half)


def batch_means(values: Floats, batches: int = BATCHES) -> Interval:
    """The mean of values that depend on their neighbours: by the means of consecutive batches.

    What does not fill the batches is left out at the front.
    """
    size = len(values) // batches
    if not size:
        return Interval(float(values.mean()), -math.inf, math.inf)
    return interval(values[len(values) - size * batches :].reshape(batches, size).mean(axis=1))


def batch_quantiles(values: Floats, level: float, batches: int = BATCHES) -> Interval:
    """As ``batch_means``, for a quantile: each batch estimates it."""
    size = len(values) // batches
    if not size:
        return Interval(float(np.quantile(values, level)), -math.inf, math.inf)
    rows = values[len(values) - size * batches :].reshape(batches, size)
    return interval(np.quantile(rows, level, axis=1))


def paired(before: Sequence[float], after: Sequence[float]) -> Interval:
    """The mean of ``after - before``, pair by pair: both saw the same random numbers."""
    require(len(before) == len(after), "paired", "values", (len(before), len(after)), "one length")
    return interval(np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64))


def t_quantile(degrees: int, level: float = LEVEL) -> float:
    """Student's two-sided quantile, by the expansion of Abramowitz and Stegun 26.7.5.

    Exact for one and two degrees of freedom, within 0.2 % from three on (level 0.95).
    """
    require(degrees >= 1, "t_quantile", "degrees", degrees, "an integer >= 1")
    p = (1 + level) / 2
    if degrees == 1:
        return math.tan(math.pi * (p - 0.5))
    if degrees == 2:
        return (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
    z = NormalDist().inv_cdf(p)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(sum(term / degrees**power for power, term in enumerate(terms)))
