"""The ladder problem in one dimension, as data: traffic, costs, the engine's rule, the limits."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from simcg.arrays import Bools, Ints
from simcg.errors import require

COST_LIMIT_NS = 2**59
"""Costs stay below this (18 years), so that no sum of a few of them leaves int64."""


@dataclass(frozen=True, slots=True)
class LadderProblem:
    """Choose bucket sizes that minimise the total time of the steps.

    All arrays are indexed by n = 0..N (entry 0 unused, 0 or False); times are int64 ns.
    ``weights[n]``: steps of size n.  ``replay_ns[T]``: one step replayed in bucket T.
    ``eager_ns[n]``: all steps of size n together when they run eager (already times weights).
    ``charge_ns[T]``: fixed charge of having bucket T.
    ``max_ratio``: hard guard, eager when T > max_ratio * n.  ``eager_if_cheaper``: each size
    runs eager where that is cheaper than its bucket (the research rule).
    ``allowed[T]``: sizes that may be captured.  ``tops[T]``: sizes that may be the ceiling.
    ``top_by_count[k]``: the largest ceiling of a ladder of exactly k buckets, 0 where there may be
    none (and beyond its end); empty where the number of buckets does not limit the ceiling.
    ``required``: sizes that must be captured, ascending.  Steps above the ceiling run eager.
    """

    weights: Ints
    replay_ns: Ints
    eager_ns: Ints
    charge_ns: Ints
    allowed: Bools
    tops: Bools
    required: tuple[int, ...] = ()
    max_ratio: Fraction | None = None
    eager_if_cheaper: bool = False
    top_by_count: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        size = len(self.weights)
        require(size >= 2, "LadderProblem", "weights", size - 1, "N >= 1")
        for name in ("replay_ns", "eager_ns", "charge_ns", "allowed", "tops"):
            column = getattr(self, name)
            require(len(column) == size, "LadderProblem", name, len(column), f"{size} entries")
        for name in ("weights", "replay_ns", "charge_ns"):
            least = int(getattr(self, name).min())
            require(least >= 0, "LadderProblem", name, least, "integers >= 0")
        for bucket in self.required:
            ok = 1 <= bucket < size and bool(self.allowed[bucket])
            require(ok, "LadderProblem", "required", bucket, f"an allowed size in 1..{size - 1}")
        ascending = all(a < b for a, b in pairwise(self.required))
        require(ascending, "LadderProblem", "required", self.required, "strictly ascending sizes")
        if self.max_ratio is not None:
            fits = self.max_ratio >= 1 and self.max_ratio.numerator * size < 2**62
            expected = "a ratio >= 1 with a numerator small enough for int64"
            require(fits, "LadderProblem", "max_ratio", self.max_ratio, expected)
        worst = self._worst_cost_ns()
        small = worst < COST_LIMIT_NS
        require(small, "LadderProblem", "total cost", worst, "less than 2**59 ns in the worst case")

    def largest_top(self, buckets: int) -> int:
        """The largest ceiling that a ladder of exactly ``buckets`` >= 1 buckets may have."""
        if not self.top_by_count:
            return self.max_tokens
        return self.top_by_count[buckets] if buckets < len(self.top_by_count) else 0

    def _worst_cost_ns(self) -> float:
        """An upper bound on the absolute cost of any ladder, as a float (it may exceed int64)."""
        steps = float(self.weights.sum(dtype=np.float64))
        eager = float(np.abs(self.eager_ns.astype(np.float64)).sum())
        charges = float(self.charge_ns.sum(dtype=np.float64))
        return float(self.replay_ns.max()) * steps + eager + charges

    @property
    def max_tokens(self) -> int:
        """N, the largest step size."""
        return len(self.weights) - 1
