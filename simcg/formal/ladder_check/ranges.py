"""Every batch by what happens to it: ranges of n and m in which dispatch answers alike.

The answer can change only where n passes a size, the least tokens of a guard or the end of an
eager range, and where m passes a slot count. So one batch of each piece between such places is
dispatched, by the one dispatch, and equal neighbours are joined. ``proof`` shows that it is so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from simcg.arrays import Ints
from simcg.formal.ladder_check.question import LadderQuestion
from simcg.ladder import EAGER_INDEX, AdmissionRule, Bucket, FallbackReason, dispatch

REASONS: tuple[FallbackReason, ...] = ("above the ceiling", "too many requests", "guard", "range")

_Span = tuple[int, int]
_Row = tuple[tuple[_Span, int], ...]
"""Spans of m, ascending, with the answer that batches in them get."""


@dataclass(frozen=True, slots=True)
class Range:
    """Batches of first_n..last_n tokens and first_m..last_m requests, m <= n.

    ``index`` of their ``bucket``, or ``EAGER_INDEX`` with the ``reason``. ``hole``: they run eager
    though nobody asked for it: above the ceiling, without slots, or by a guard that lets smaller
    batches replay.
    """

    first_n: int
    last_n: int
    first_m: int
    last_m: int
    index: int
    bucket: Bucket | None
    reason: FallbackReason | None
    hole: bool

    @property
    def worst_rows(self) -> int | None:
        """Padded rows of the smallest batch; None where it runs eager."""
        return None if self.bucket is None else self.bucket.num_tokens - self.least_n

    @property
    def least_n(self) -> int:
        """The fewest tokens in the range: a batch of m requests has m."""
        return max(self.first_n, self.first_m)


def ranges(question: LadderQuestion) -> tuple[Range, ...]:
    """Ranges that hold every batch of the question exactly once, ascending in n, then m."""
    merged: list[tuple[_Span, _Row]] = []
    for (first, last), answers in _pieces(question):
        row = _joined(answers, last)
        if merged and merged[-1][1] == row:
            merged[-1] = ((merged[-1][0][0], last), row)
        else:
            merged.append(((first, last), row))
    found = [_range(question, n, m, answer) for n, row in merged for m, answer in row]
    return tuple(replace(r, hole=r.hole or _guard_hole(r, found)) for r in found)


def _pieces(question: LadderQuestion) -> Iterator[tuple[_Span, _Row]]:
    """(span of n, row of answers): the largest n and the smallest m of each piece, dispatched."""
    rule, ladder = question.rule, question.ladder
    n_starts = {1, *(size + 1 for size in ladder.sizes)}
    n_starts |= {rule.least_tokens(size) for size in ladder.sizes}
    n_starts |= {end for low, high in rule.eager_ranges for end in (low, high + 1)}
    m_starts = {1, *(b.slots + 1 for b in ladder.buckets if b.slots is not None)}
    n_spans = _spans(n_starts, question.max_tokens)
    m_spans = _spans(m_starts, min(question.max_requests, question.max_tokens))
    n, m = np.meshgrid(
        [last for _, last in n_spans], [first for first, _ in m_spans], indexing="ij"
    )
    for span, row in zip(n_spans, answers(question, n, m).tolist(), strict=True):
        yield span, tuple(zip(m_spans, row, strict=True))


def answers(question: LadderQuestion, tokens: Ints, requests: Ints) -> Ints:
    """The bucket's index, or which of ``REASONS`` sends the batch to eager, as -1, -2, ..."""
    ladder, rule = question.ladder, question.rule
    chosen = dispatch(ladder, rule, tokens, requests)
    eager = chosen == EAGER_INDEX
    free = dispatch(ladder, AdmissionRule(), tokens, requests)
    guarded = dispatch(ladder, AdmissionRule(rule.max_ratio), tokens, requests)
    tests = (tokens > ladder.ceiling, free == EAGER_INDEX, guarded == EAGER_INDEX)
    reasons = np.select(tests, (-1, -2, -3), default=-4)
    return np.where(eager, reasons, chosen)


def _spans(starts: Iterable[int], last: int) -> list[_Span]:
    inside = sorted(start for start in starts if start <= last)
    return [(a, b - 1) for a, b in pairwise([*inside, last + 1])]


def _joined(row: _Row, last_n: int) -> _Row:
    """Neighbours in m with one answer as one, as far as a batch of so many tokens has requests."""
    joined: list[tuple[_Span, int]] = []
    for (first, last), answer in row:
        if first > last_n:
            break
        if joined and joined[-1][1] == answer:
            joined[-1] = ((joined[-1][0][0], last), answer)
        else:
            joined.append(((first, last), answer))
    return tuple(joined)


def _range(question: LadderQuestion, n: _Span, m: _Span, answer: int) -> Range:
    requests = (m[0], min(m[1], n[1]))
    if answer >= 0:
        return Range(*n, *requests, answer, question.ladder.buckets[answer], None, hole=False)
    reason = REASONS[-answer - 1]
    hole = reason in ("above the ceiling", "too many requests")
    return Range(*n, *requests, EAGER_INDEX, None, reason, hole)


def _guard_hole(r: Range, found: Iterable[Range]) -> bool:
    """Does the guard refuse these batches, and let smaller ones of as many requests replay?"""
    return r.reason == "guard" and any(
        other.bucket is not None
        and other.first_n < r.first_n
        and other.first_m <= r.last_m
        and r.first_m <= other.last_m
        for other in found
    )
