"""Two proofs that the ranges are right: z3 for all batches, and the real dispatch one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import z3

from simcg.arrays import Ints
from simcg.formal.ladder_check.question import LadderQuestion
from simcg.formal.ladder_check.ranges import Range
from simcg.formal.lemmas import Claim, Lemma, Proof
from simcg.formal.lemmas.symbols import Term, symbolic_dispatch
from simcg.ladder import dispatch

MOST_COUNTED = 1_000_000
_UNSEEN = -2
_TOGETHER = 64  # ranges a query: measured, one query of a thousand takes z3 a minute


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """``batches`` dispatched one by one, and the first whose range is wrong, if any."""

    batches: int
    wrong: tuple[int, int] | None


def prove_ranges(question: LadderQuestion, found: tuple[Range, ...]) -> Proof:
    """z3 on unknown n and m: some range has the batch, and each range's answer is dispatch's."""
    claims = partial(_claims, question, found)
    return Lemma(
        "ranges",
        "I10",
        "always",
        "Every batch lies in a range, and dispatch answers as the range says.",
        "(n, m) in range r => choose(n, m) = answer(r)",
        f"n <= {question.max_tokens}, m <= min(n, {question.max_requests})",
        claims,
    ).prove()


def _claims(question: LadderQuestion, found: tuple[Range, ...]) -> Iterator[Claim]:
    n, m = z3.Ints("n m")
    batch = (n >= 1, m >= 1, m <= n, n <= question.max_tokens, m <= question.max_requests)
    shown = {"n": n, "m": m}
    yield Claim(batch, z3.Or(*(_inside(r, n, m) for r in found)), shown)
    chosen = symbolic_dispatch()(question.ladder, question.rule, n, m)
    for start in range(0, len(found), _TOGETHER):
        some = found[start : start + _TOGETHER]
        near = (some[0].first_n <= n, n <= some[-1].last_n)
        right = (z3.Implies(_inside(r, n, m), chosen == r.index) for r in some)
        yield Claim((*batch, *near), z3.And(*right), shown | {"chosen": chosen})


def _inside(r: Range, n: Term, m: Term) -> Term:
    return z3.And(r.first_n <= n, n <= r.last_n, r.first_m <= m, m <= r.last_m)


def cross_check(question: LadderQuestion, found: tuple[Range, ...]) -> CrossCheck:
    """Dispatch every n up to MOST_COUNTED, at both ends of every span of m."""
    most = min(question.max_tokens, MOST_COUNTED)
    counts = sorted({m for r in found for m in (r.first_m, r.last_m)})
    batches = 0
    for m in counts:
        tokens = np.arange(m, most + 1, dtype=np.int64)
        if not len(tokens):
            break
        chosen = dispatch(question.ladder, question.rule, tokens, np.full_like(tokens, m))
        wrong = np.flatnonzero(chosen != _answers(found, tokens, m))
        batches += len(tokens)
        if len(wrong):
            return CrossCheck(batches, (int(tokens[wrong[0]]), m))
    return CrossCheck(batches, None)


def _answers(found: tuple[Range, ...], tokens: Ints, m: int) -> Ints:
    """What the ranges say of (n, m) for each n of an ascending run that begins with m."""
    said = np.full(tokens.shape, _UNSEEN, dtype=np.int64)
    for r in found:
        if r.first_m <= m <= r.last_m:
            said[max(r.first_n - m, 0) : max(r.last_n - m + 1, 0)] = r.index
    return said
