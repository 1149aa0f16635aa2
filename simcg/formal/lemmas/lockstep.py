"""Lemmas about ranks: which of them choose the same bucket, and whether it holds their batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import z3

from simcg.formal.lemmas.choice import FREE, MOST_BUCKETS, REAL, UP_TO_EIGHT
from simcg.formal.lemmas.lemma import Claim, Lemma
from simcg.formal.lemmas.symbols import AnyLadder, AnyRule, Choose, Term
from simcg.ladder import EAGER_INDEX

_EXAMPLE_BUCKETS = 2


def _larger(a: Term, b: Term) -> Term:
    return z3.If(a >= b, a, b)


def chosen_from_maxima(choose: Choose) -> Iterator[Claim]:
    """The bucket of the maxima holds the batch of any rank; under a rule, too, or all run eager.

    The choice reads the maxima alone, so ranks agree; any rank's n and m are at most the maxima,
    so one unknown rank stands for all of them, however many.
    """
    n, m, most_n, most_m = z3.Ints("n m N M")
    rank = (n >= 1, m >= 1, n <= most_n, m <= most_m)
    for count in range(1, MOST_BUCKETS + 1):
        known, rule = AnyLadder.of(count, slotted=True), AnyRule.of(1)
        chosen = choose(known.ladder, rule.rule, most_n, most_m)
        fits = [z3.Implies(chosen == i, known.holds(i, n, m)) for i in range(count)]
        shown = known.unknowns | {"n": n, "m": m, "N": most_n, "M": most_m}
        yield Claim((*known.well_formed, *rule.well_formed, *rank), z3.And(*fits), shown)


def largest_of_own_choices(choose: Choose) -> Iterator[Claim]:
    """Without slots and rule: the later of two ranks' own choices is that of the maximum.

    Eager counts as latest. More ranks follow one by one, as the maximum does.
    """
    a, b, m = z3.Ints("n0 n1 m")
    for count in range(1, MOST_BUCKETS + 1):
        known = AnyLadder.of(count, slotted=False)
        own = [_late(choose(known.ladder, FREE, n, m), count) for n in (a, b)]
        common = _late(choose(known.ladder, FREE, _larger(a, b), m), count)
        shown = known.unknowns | {"n0": a, "n1": b}
        yield Claim((*known.well_formed, a >= 1, b >= 1, m >= 1), common == _larger(*own), shown)


def _late(chosen: Term, count: int) -> Term:
    return z3.If(chosen == EAGER_INDEX, count, chosen)


def _two_ranks() -> tuple[AnyLadder, tuple[Term, ...], tuple[Term, ...], dict[str, Term]]:
    """A small ladder with slots, (n0, m0, n1, m1), the premises and what to show."""
    known = AnyLadder.of(_EXAMPLE_BUCKETS, slotted=True)
    sizes = z3.Ints("n0 m0 n1 m1")
    n0, m0, n1, m1 = sizes
    real = (*known.well_formed, m0 >= 1, m1 >= 1, n0 >= m0, n1 >= m1)
    shown = known.unknowns | {"n0": n0, "m0": m0, "n1": n1, "m1": m1}
    return known, (n0, m0, n1, m1), real, shown


def own_sizes(choose: Choose) -> Iterator[Claim]:
    """The careless rule: each rank chooses from its own batch."""
    known, (n0, m0, n1, m1), real, shown = _two_ranks()
    chosen = [choose(known.ladder, FREE, n, m) for n, m in ((n0, m0), (n1, m1))]
    shown = shown | {"rank 0": chosen[0], "rank 1": chosen[1]}
    yield Claim(real, chosen[0] == chosen[1], shown, least=sum(known.sizes) + n0 + n1)


def own_requests(choose: Choose) -> Iterator[Claim]:
    """The careless rule: tokens are all-reduced, requests are not."""
    known, (n0, m0, n1, m1), real, shown = _two_ranks()
    most = _larger(n0, n1)
    chosen = [choose(known.ladder, FREE, most, m) for m in (m0, m1)]
    shown = shown | {"rank 0": chosen[0], "rank 1": chosen[1]}
    yield Claim(real, chosen[0] == chosen[1], shown, least=sum(known.sizes) + n0 + n1)


def own_guard(choose: Choose) -> Iterator[Claim]:
    """The careless rule: the bucket comes from the maxima, the guard from each rank's own n."""
    known, (n0, m0, n1, m1), real, shown = _two_ranks()
    common = choose(known.ladder, FREE, _larger(n0, n1), _larger(m0, m1))
    size = z3.If(common == 0, *known.sizes)
    admitted = [size <= 2 * n for n in (n0, n1)]
    shown = shown | {"bucket": common, "rank 0 replays": admitted[0], "rank 1 replays": admitted[1]}
    premises = (*real, common != EAGER_INDEX)
    yield Claim(premises, admitted[0] == admitted[1], shown, least=sum(known.sizes) + n0 + n1)


def largest_with_slots(choose: Choose) -> Iterator[Claim]:
    """The careless rule: all ranks take the latest of their own choices, in a ladder with slots."""
    known, (n0, m0, n1, m1), real, shown = _two_ranks()
    own = [choose(known.ladder, FREE, n, m) for n, m in ((n0, m0), (n1, m1))]
    replays = [choice != EAGER_INDEX for choice in own]
    taken = _larger(*own)
    holds = [
        z3.Implies(taken == i, z3.And(known.holds(i, n0, m0), known.holds(i, n1, m1)))
        for i in range(_EXAMPLE_BUCKETS)
    ]
    shown = shown | {"taken": taken}
    yield Claim((*real, *replays), z3.And(*holds), shown, least=sum(known.sizes) + n0 + n1)


_TWO = f"two ranks, a ladder of {_EXAMPLE_BUCKETS} buckets; the smallest example"

LOCKSTEP_LEMMAS = (
    Lemma(
        "a choice from the maxima holds every rank",
        "I19",
        "always",
        "The bucket that dispatch gives to the all-reduced maxima has the rows and slots for "
        "every rank's own batch.",
        "choose(max n_r, max m_r) = (T, S) => T >= n_r, S >= m_r for all r",
        f"any number of ranks, {UP_TO_EIGHT}, any guard, an eager range",
        partial(chosen_from_maxima, REAL),
    ),
    Lemma(
        "without slots the largest own choice is the common one",
        "I19",
        "always",
        "Without slots and rule, reducing the ranks' own choices gives the choice from the "
        "maximum.",
        "max_r choose(n_r) = choose(max_r n_r), eager counting as last",
        f"{UP_TO_EIGHT}",
        partial(largest_of_own_choices, REAL),
    ),
    Lemma(
        "own sizes break lockstep",
        "I19",
        "sometimes",
        "Ranks that choose from their own sizes run different graphs.",
        "choose(n_0, m_0) != choose(n_1, m_1)",
        _TWO,
        partial(own_sizes, REAL),
    ),
    Lemma(
        "own requests break lockstep",
        "I19",
        "sometimes",
        "Ranks that reduce their tokens and keep their own requests run different graphs.",
        "choose(max n, m_0) != choose(max n, m_1)",
        _TWO,
        partial(own_requests, REAL),
    ),
    Lemma(
        "own guards break lockstep",
        "I19",
        "sometimes",
        "Ranks that share the bucket and ask the guard about their own tokens part: one replays.",
        "T <= 2 n_0 and T > 2 n_1",
        _TWO,
        partial(own_guard, REAL),
    ),
    Lemma(
        "with slots the largest own choice is too small",
        "I19",
        "sometimes",
        "With request slots the latest of the ranks' own buckets does not hold every rank's batch.",
        "max_r choose(n_r, m_r) = (T, S) and S < m_r",
        _TWO,
        partial(largest_with_slots, REAL),
    ),
)
