"""Lemmas about guards and ceilings: which of them leave holes in a ladder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import z3

from simcg.formal.lemmas.choice import FREE, MOST_BUCKETS, REAL, UP_TO_EIGHT, any_batch
from simcg.formal.lemmas.lemma import Claim, Lemma
from simcg.formal.lemmas.symbols import (
    AnyLadder,
    AnyRule,
    Choose,
    Term,
    symbolic_least_tokens,
)
from simcg.ladder import EAGER_INDEX


def least_tokens_is_the_guard() -> Iterator[Claim]:
    """T <= r n if and only if n >= least_tokens(T)."""
    size, n = z3.Ints("T n")
    rule = AnyRule.of(0)
    least = symbolic_least_tokens(rule.rule, size)
    shown = {"T": size, "n": n, **rule.unknowns, "least": least}
    yield Claim((*rule.well_formed, size >= 1, n >= 1), rule.admits(size, n) == (n >= least), shown)


def derived_ceilings_cover(choose: Choose) -> Iterator[Claim]:
    """A batch replays if and only if it is at most the ladder's own ceiling."""
    n, m, batch = any_batch()
    for count in range(1, MOST_BUCKETS + 1):
        known = AnyLadder.of(count, slotted=False)
        replays = choose(known.ladder, FREE, n, m) != EAGER_INDEX
        covered = n <= known.ladder.ceiling
        yield Claim((*known.well_formed, *batch), replays == covered, known.unknowns | {"n": n})


def guard_without_holes(choose: Choose) -> Iterator[Claim]:
    """All n that the guard lets into the first bucket, up to the ceiling, replay; or n = T + 1 of
    the step that is too wide runs eager.
    """
    n, m, batch = any_batch()
    for count in range(1, MOST_BUCKETS + 1):
        known, rule = AnyLadder.of(count, slotted=False), AnyRule.of(0)
        sizes = known.sizes
        narrow = [rule.admits(sizes[k + 1], sizes[k] + 1) for k in range(count - 1)]
        given = (*known.well_formed, *rule.well_formed, *batch)
        shown = known.unknowns | rule.unknowns | {"n": n}
        within = (n <= sizes[-1], rule.admits(sizes[0], n))
        chosen = choose(known.ladder, rule.rule, n, m)
        yield Claim((*given, *within, *narrow), chosen != EAGER_INDEX, shown)
        above = [choose(known.ladder, rule.rule, sizes[k] + 1, m) for k in range(count - 1)]
        eager = [z3.Or(narrow[k], above[k] == EAGER_INDEX) for k in range(count - 1)]
        yield Claim(given, z3.And(*eager), shown)


def _listed(most: Term, entry: Term, k: Term) -> Term:
    """Is ``entry`` in [1, 2, 4, 8] + range(16, most + 1, 16), as one of the four or as 16 k?"""
    first = z3.Or(*(entry == size for size in (1, 2, 4, 8)))
    return z3.Or(first, z3.And(k >= 1, entry == 16 * k, entry <= most))


def listed_maximum() -> Iterator[Claim]:
    """The list holds every n <= most if most <= 8 or most is a multiple of 16; else not n = most.

    The entry that holds n is told where there is one: 8, or n rounded up to 16; where there is
    none, k is any.
    """
    n, most, entry, k = z3.Ints("n max T k")
    covered = z3.Or(most <= 8, most % 16 == 0)
    up = (n + 15) / 16
    held = z3.And(z3.If(n <= 8, 8, 16 * up) >= n, z3.Or(n <= 8, 16 * up <= most))
    shown = {"max": most, "n": n, "T": entry}
    yield Claim((n >= 1, n <= most, covered), held, shown)
    alone = (most >= 1, z3.Not(covered), _listed(most, entry, k))
    yield Claim(alone, entry < most, shown)


def listed_hole() -> Iterator[Claim]:
    """The careless rule: a guard n <= most beside the list [1, 2, 4, 8] + range(16, most + 1, 16).

    Asked for most >= 16, where the range has an entry at all.
    """
    n, most, entry, k = z3.Ints("n max T k")
    has = z3.Exists([entry, k], z3.And(_listed(most, entry, k), entry >= n))
    yield Claim((most >= 16, n >= 1, n <= most), has, {"max": most, "n": n}, least=most)


GUARD_LEMMAS = (
    Lemma(
        "the least size under a guard",
        "I10",
        "always",
        "The guard lets a batch into a bucket exactly from least_tokens(T) tokens on.",
        "T <= r n <=> n >= ceil(T / r)",
        "all T and n, any ratio r >= 1",
        least_tokens_is_the_guard,
    ),
    Lemma(
        "a ceiling derived from the ladder has no holes",
        "I10",
        "always",
        "Without slots and rule a batch replays exactly up to the ladder's own ceiling.",
        "n <= T_last <=> choose(n) != eager",
        UP_TO_EIGHT,
        partial(derived_ceilings_cover, REAL),
    ),
    Lemma(
        "a guard leaves holes exactly at wide steps",
        "I10",
        "always",
        "Under a guard r nothing between the first bucket and the ceiling runs eager if each size "
        "is at most r times one more than the size before; where one is not, that n runs eager.",
        "T_{k+1} <= r (T_k + 1) for all k <=> no n in [T_0 / r, T_last] is eager",
        f"{UP_TO_EIGHT}, any ratio r >= 1",
        partial(guard_without_holes, REAL),
    ),
    Lemma(
        "when a list of steps holds its maximum",
        "I10",
        "always",
        "The rule [1, 2, 4, 8] + range(16, max + 1, 16) holds every n <= max exactly if max is "
        "at most 8 or a multiple of 16; otherwise n = max has no entry.",
        "(n <= max => some T >= n) for all n <=> max <= 8 or 16 | max",
        "all max and n",
        listed_maximum,
    ),
    Lemma(
        "a guard beside the list has a hole",
        "I10",
        "sometimes",
        "With that rule and a guard n <= max that was derived separately, a batch that the guard "
        "admits has no entry.",
        "n <= max and no T >= n",
        "the smallest max >= 16, found by z3",
        listed_hole,
    ),
)
