"""Buckets, ladders and THE dispatch: which captured shape a batch replays in, if any.

The optimizer, the simulator, the formal model and the real runners all call ``dispatch``,
so a proof about it is a proof about all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal

import numpy as np

from simcg.arrays import Ints
from simcg.errors import require

EAGER_INDEX = -1
"""What ``dispatch`` returns for a batch that no bucket admits: it runs eager."""


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """A captured shape: ``num_tokens`` rows and, where the graph fixes them, request slots.

    ``slots`` None means that the number of requests is not part of the captured shape.
    """

    num_tokens: int
    slots: int | None = None

    def __post_init__(self) -> None:
        require(self.num_tokens >= 1, "Bucket", "num_tokens", self.num_tokens, "an integer >= 1")
        if self.slots is not None:
            require(self.slots >= 1, "Bucket", "slots", self.slots, "an integer >= 1, or None")


@dataclass(frozen=True, slots=True)
class Ladder:
    """Captured shapes in ascending order of (num_tokens, slots); it may be empty (no graphs)."""

    buckets: tuple[Bucket, ...]

    def __post_init__(self) -> None:
        made_of = isinstance(self.buckets, tuple) and all(type(b) is Bucket for b in self.buckets)
        require(
            made_of, "Ladder", "buckets", self.buckets, "a tuple of Bucket, or Ladder.of(sizes)"
        )
        with_slots = {b.slots is not None for b in self.buckets}
        require(len(with_slots) <= 1, "Ladder", "slots", self.buckets, "slots on all or on none")
        keys = [(b.num_tokens, b.slots or 0) for b in self.buckets]
        ascending = all(a < b for a, b in pairwise(keys))
        require(ascending, "Ladder", "buckets", keys, "strictly ascending (num_tokens, slots)")

    @staticmethod
    def of(sizes: Iterable[int], slots: int | None = None) -> Ladder:
        """The ladder with these token counts, in any order, all with the same slots."""
        return Ladder(tuple(Bucket(int(size), slots) for size in sorted(set(sizes))))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The token counts, ascending; with slots a size may repeat."""
        return tuple(b.num_tokens for b in self.buckets)

    @property
    def ceiling(self) -> int:
        """The largest captured token count; 0 for the empty ladder."""
        return self.buckets[-1].num_tokens if self.buckets else 0

    def __len__(self) -> int:
        return len(self.buckets)


@dataclass(frozen=True, slots=True)
class AdmissionRule:
    """May this batch replay? The bucket is the smallest T >= n with S >= m, then smallest S.

    ``max_ratio``: the guard; the batch runs eager when T > max_ratio * n (None: no guard).
    ``eager_ranges``: closed ranges of n that run eager although a bucket admits them (what a
    runner with a per-size choice can do and no engine's flags can).
    """

    max_ratio: Fraction | None = None
    eager_ranges: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if self.max_ratio is not None:
            require(self.max_ratio >= 1, "AdmissionRule", "max_ratio", self.max_ratio, ">= 1")
        last = 0
        for low, high in self.eager_ranges:
            ordered = last < low <= high
            require(ordered, "AdmissionRule", "eager_ranges", (low, high), "ascending ranges >= 1")
            last = high

    def least_tokens(self, bucket_tokens: int) -> int:
        """The smallest n that the guard lets replay in a bucket of that size."""
        if self.max_ratio is None:
            return 1
        return -(-bucket_tokens * self.max_ratio.denominator // self.max_ratio.numerator)


def dispatch(ladder: Ladder, rule: AdmissionRule, tokens: Ints, requests: Ints) -> Ints:
    """Index into ``ladder.buckets`` for each batch (n, m), or ``EAGER_INDEX``.

    ``tokens`` and ``requests`` are int64 arrays of one shape, entries >= 1; so is the result.
    """
    chosen = np.full(tokens.shape, EAGER_INDEX, dtype=np.int64)
    if not ladder.buckets:
        return chosen
    sizes = np.array(ladder.sizes, dtype=np.int64)
    first = np.searchsorted(sizes, tokens, side="left").astype(np.int64)
    if ladder.buckets[0].slots is not None:
        first = _first_with_slots(ladder, first, requests)
    fits = first < len(sizes)
    size = sizes[np.minimum(first, len(sizes) - 1)]
    if rule.max_ratio is not None:
        fits &= size * rule.max_ratio.denominator <= tokens * rule.max_ratio.numerator
    for low, high in rule.eager_ranges:
        fits &= (tokens < low) | (tokens > high)
    chosen[fits] = first[fits]
    return chosen


def _first_with_slots(ladder: Ladder, first: Ints, requests: Ints) -> Ints:
    """Move each index right to the first bucket whose slots hold the batch's requests."""
    index = np.full(first.shape, len(ladder.buckets), dtype=np.int64)
    for position, bucket in reversed(list(enumerate(ladder.buckets))):
        # right to left: the last assignment that applies is the leftmost bucket that fits
        index[(first <= position) & (requests <= (bucket.slots or 0))] = position
    return index


FallbackReason = Literal["no graphs", "above the ceiling", "too many requests", "guard", "range"]
"""Why a batch runs eager; ``range``: the rule's ``eager_ranges`` say so."""


def fallback_reason(
    ladder: Ladder, rule: AdmissionRule, tokens: int, requests: int
) -> FallbackReason | None:
    """Why ``dispatch`` sends one batch to eager; None if a bucket admits it."""

    def runs_eager(under: AdmissionRule) -> bool:
        batch = (np.array([tokens]), np.array([requests]))
        return int(dispatch(ladder, under, *batch)[0]) == EAGER_INDEX

    if not runs_eager(rule):
        return None
    if not ladder.buckets:
        return "no graphs"
    if tokens > ladder.ceiling:
        return "above the ceiling"
    if runs_eager(AdmissionRule()):
        return "too many requests"
    return "guard" if runs_eager(AdmissionRule(rule.max_ratio)) else "range"
