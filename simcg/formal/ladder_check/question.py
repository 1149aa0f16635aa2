"""What is asked: a ladder, its admission rule and the batches that it should serve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from simcg.errors import require
from simcg.ladder import AdmissionRule, Bucket, Ladder

MOST_TOKENS = 10**9
MOST_BUCKETS = 1024
MOST_PAIRS = 8192
"""Buckets times different slot counts: more than any engine captures, seconds of work."""


@dataclass(frozen=True, slots=True)
class LadderQuestion:
    """Does ``ladder`` under ``rule`` serve batches of 1..max_tokens, 1..max_requests requests?

    A request has a token at least, so m <= n. ``align``: what sizes should be multiples of.
    ``query_len``: tokens that a request adds in a decode step (draft tokens + 1).
    ``repeated``: buckets that were given more than once. ``assumed``: the limits that were not
    given, so that the ladder's own are taken.
    """

    ladder: Ladder
    rule: AdmissionRule
    max_tokens: int
    max_requests: int
    align: int = 1
    query_len: int = 1
    repeated: tuple[Bucket, ...] = ()
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_requests", "align", "query_len"):
            value = getattr(self, name)
            good = 1 <= value <= MOST_TOKENS
            require(good, "ladder", name, value, f"an integer from 1 to {MOST_TOKENS}")
        expected = f"at most max_tokens, {self.max_tokens}: a request of a decode step has so many"
        require(self.query_len <= self.max_tokens, "ladder", "query_len", self.query_len, expected)
        count = len(self.ladder)
        require(1 <= count <= MOST_BUCKETS, "ladder", "buckets", count, f"1 to {MOST_BUCKETS}")
        counts = len({bucket.slots for bucket in self.ladder.buckets})
        few = count * counts <= MOST_PAIRS
        expected = f"at most {MOST_PAIRS} buckets times different slot counts"
        require(few, "ladder", "buckets", count * counts, expected)

    @property
    def slotted(self) -> bool:
        """Do the buckets fix the number of request slots?"""
        return self.ladder.buckets[0].slots is not None


def sorted_ladder(buckets: Iterable[Bucket]) -> tuple[Ladder, tuple[Bucket, ...]]:
    """The ladder of these buckets, in any order, and those that were given more than once."""
    counts = Counter(buckets)
    ordered = sorted(counts, key=lambda bucket: (bucket.num_tokens, bucket.slots or 0))
    return Ladder(tuple(ordered)), tuple(b for b in ordered if counts[b] > 1)


def default_requests(ladder: Ladder, max_tokens: int) -> int:
    """Requests where the user names no limit: all slots, or as many as tokens without slots."""
    slots = max((bucket.slots or 0 for bucket in ladder.buckets), default=0)
    return min(slots, max_tokens) if slots else max_tokens
