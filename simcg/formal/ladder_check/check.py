"""The whole check of a ladder: ranges, their proofs, and what else a user should know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from simcg.formal.ladder_check.proof import CrossCheck, cross_check, prove_ranges
from simcg.formal.ladder_check.question import LadderQuestion
from simcg.formal.ladder_check.ranges import Range, ranges
from simcg.formal.lemmas import Proof
from simcg.ladder import Bucket

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class LadderReport:
    """``ranges`` of every batch; ``proof`` and ``cross`` of them; ``notes``: one line each."""

    question: LadderQuestion
    ranges: tuple[Range, ...]
    proof: Proof
    cross: CrossCheck
    notes: tuple[str, ...]

    @property
    def holes(self) -> tuple[Range, ...]:
        """Batches that run eager though nobody asked for it."""
        return tuple(r for r in self.ranges if r.hole)

    @property
    def certain(self) -> bool:
        """Is the table right, by z3 and by dispatch?"""
        return self.proof.holds and self.cross.wrong is None

    @property
    def good(self) -> bool:
        """No hole, and that is proved."""
        return self.certain and not self.holes


def check_ladder(question: LadderQuestion) -> LadderReport:
    """Every batch within the question's limits, with what happens to it and the proofs of it."""
    found = ranges(question)
    return LadderReport(
        question,
        found,
        prove_ranges(question, found),
        cross_check(question, found),
        tuple(_notes(question, found)),
    )


def _notes(question: LadderQuestion, found: tuple[Range, ...]) -> Iterator[str]:
    buckets, q = question.ladder.buckets, question.query_len
    if question.repeated:
        yield f"listed more than once: {listed(question.repeated)}"
    used = {r.index for r in found}
    unreachable = [b for i, b in enumerate(buckets) if i not in used]
    if unreachable:
        yield f"no batch within the limits ever replays in {listed(unreachable)}"
    unaligned = [b for b in buckets if b.num_tokens % question.align]
    if unaligned:
        yield f"no multiple of {question.align} rows: {listed(unaligned)}"
    short = [b for b in buckets if b.num_tokens < q]
    if short:
        yield f"below the query length {q}, so no decode batch fits: {listed(short)}"
    truncated = [b for b in buckets if b.num_tokens > q and b.num_tokens % q]
    if truncated:
        yield (
            f"no multiple of the query length {q}, so a decode batch leaves the last rows empty: "
            f"{listed(truncated)}"
        )
    idle = [b for b in buckets if b.slots is not None and b.slots > b.num_tokens]
    if idle:
        yield f"more request slots than tokens, of which a request has one: {listed(idle)}"
    if any(r.reason == "guard" for r in found):
        yield "what the guard refuses is a hole where smaller batches replay, else as asked for"
    yield from (
        f"{name} is not given, and taken to be {getattr(question, name):,}: what lies above is "
        "not looked at"
        for name in question.assumed
    )


def listed(buckets: Iterable[Bucket]) -> str:
    """The first buckets as T or (T, S), and how many there are beyond."""
    names = [named(bucket) for bucket in buckets]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def named(bucket: Bucket) -> str:
    """T, or (T, S) with slots."""
    size = bucket.num_tokens
    return str(size) if bucket.slots is None else f"({size}, {bucket.slots})"
