"""Ladders and rules for tests, and dispatch as its definition says it, one batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, product

import numpy as np
from hypothesis import strategies as st

from simcg.arrays import Ints
from simcg.ladder import EAGER_INDEX, AdmissionRule, Bucket, Ladder

Dispatch = Callable[[Ladder, AdmissionRule, Ints, Ints], Ints]


def defined_choice(ladder: Ladder, rule: AdmissionRule, tokens: int, requests: int) -> int:
    """The smallest T >= n with S >= m, then smallest S; eager without one or by the rule."""
    admitting = [
        (bucket.num_tokens, bucket.slots or 0, index)
        for index, bucket in enumerate(ladder.buckets)
        if bucket.num_tokens >= tokens and (bucket.slots is None or bucket.slots >= requests)
    ]
    if not admitting:
        return EAGER_INDEX
    size, _, index = min(admitting)
    if rule.max_ratio is not None and size > rule.max_ratio * tokens:
        return EAGER_INDEX
    if any(low <= tokens <= high for low, high in rule.eager_ranges):
        return EAGER_INDEX
    return index


def first_disagreement(dispatch: Dispatch) -> str | None:
    """The first batch of the small scope for which dispatch differs from its definition.

    Scope: every ladder over sizes 1..5, every ladder over 1..3 x slots 1..3, six rules, every
    batch of 1..6 tokens and 1..4 requests.
    """
    pairs = [(n, m) for n in range(1, 7) for m in range(1, 5)]
    tokens, requests = np.array(pairs, dtype=np.int64).T
    for ladder, rule in product(_small_ladders(), _small_rules()):
        chosen = dispatch(ladder, rule, tokens, requests)
        for (n, m), got in zip(pairs, chosen.tolist(), strict=True):
            expected = defined_choice(ladder, rule, n, m)
            if got != expected:
                return f"{ladder} {rule} n={n} m={m}: got {got}, expected {expected}"
    return None


def _small_ladders() -> Iterator[Ladder]:
    plain = [Bucket(size) for size in range(1, 6)]
    slotted = [Bucket(size, slots) for size in range(1, 4) for slots in range(1, 4)]
    for buckets in (plain, slotted):
        for count in range(len(buckets) + 1):
            yield from map(Ladder, combinations(buckets, count))


def _small_rules() -> list[AdmissionRule]:
    return [
        AdmissionRule(),
        AdmissionRule(Fraction(1)),
        AdmissionRule(Fraction(3, 2)),
        AdmissionRule(Fraction(2)),
        AdmissionRule(eager_ranges=((2, 3), (5, 5))),
        AdmissionRule(Fraction(2), ((1, 1),)),
    ]


def plain_ladders(max_tokens: int = 64) -> st.SearchStrategy[Ladder]:
    """Ladders without slots; the empty one too."""
    return st.sets(st.integers(1, max_tokens), max_size=12).map(Ladder.of)


def slotted_ladders(max_tokens: int = 64) -> st.SearchStrategy[Ladder]:
    """Ladders whose buckets fix the number of request slots."""
    keys = st.tuples(st.integers(1, max_tokens), st.integers(1, 8))
    return st.sets(keys, max_size=12).map(
        lambda chosen: Ladder(tuple(Bucket(size, slots) for size, slots in sorted(chosen)))
    )


def ratios() -> st.SearchStrategy[Fraction]:
    """Guards from 1 to 4."""
    return st.fractions(min_value=1, max_value=4, max_denominator=7)


def rules(max_tokens: int = 64) -> st.SearchStrategy[AdmissionRule]:
    """Guards and eager ranges, or neither."""
    ends = st.sets(st.integers(1, max_tokens), max_size=6).map(sorted)
    ranges = ends.map(lambda e: tuple(zip(e[::2], e[1::2], strict=False)))
    return st.builds(AdmissionRule, st.none() | ratios(), ranges)
