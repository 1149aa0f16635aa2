"""Lemmas about dispatch: total, minimal, and only refused by guards. They are about its code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import z3

from simcg.formal.lemmas.lemma import Claim, Lemma
from simcg.formal.lemmas.symbols import AnyLadder, AnyRule, Choose, Term, symbolic_dispatch
from simcg.ladder import EAGER_INDEX, AdmissionRule

MOST_BUCKETS = 8
UP_TO_EIGHT = f"ladders of up to {MOST_BUCKETS} buckets of any size, all n and m"
_RANGES = 2
FREE = AdmissionRule()
REAL = symbolic_dispatch()


def any_batch() -> tuple[Term, Term, tuple[Term, ...]]:
    """Unknown tokens n and requests m, and that both are at least 1."""
    n, m = z3.Ints("n m")
    return n, m, (n >= 1, m >= 1)


def total_and_minimal(choose: Choose, slotted: bool) -> Iterator[Claim]:
    """Index i is returned if and only if bucket i is the least that holds the batch."""
    n, m, batch = any_batch()
    for count in range(MOST_BUCKETS + 1):
        known = AnyLadder.of(count, slotted)
        chosen = choose(known.ladder, FREE, n, m)
        holds = [known.holds(i, n, m) for i in range(count)]
        least = [
            z3.And(
                holds[i],
                *(z3.Implies(holds[j], known.before(i, j)) for j in range(count) if j != i),
            )
            for i in range(count)
        ]
        right = [(chosen == i) == least[i] for i in range(count)]
        inside = z3.And(chosen >= EAGER_INDEX, chosen < count)
        shown = known.unknowns | {"n": n, "m": m, "chosen": chosen}
        yield Claim((*known.well_formed, *batch), z3.And(inside, *right), shown)


def rules_only_refuse(choose: Choose, slotted: bool) -> Iterator[Claim]:
    """Under a rule a batch has the bucket that it has without, or the rule sends it to eager."""
    n, m, batch = any_batch()
    for count in range(MOST_BUCKETS + 1):
        known, rule = AnyLadder.of(count, slotted), AnyRule.of(_RANGES)
        free = choose(known.ladder, FREE, n, m)
        chosen = choose(known.ladder, rule.rule, n, m)
        right = [z3.Implies(free == EAGER_INDEX, chosen == EAGER_INDEX)]
        for i in range(count):
            ruled = z3.If(rule.admits(known.sizes[i], n), i, EAGER_INDEX)
            right.append(z3.Implies(free == i, chosen == ruled))
        shown = known.unknowns | rule.unknowns | {"n": n, "m": m, "chosen": chosen, "free": free}
        premises = (*known.well_formed, *rule.well_formed, *batch)
        yield Claim(premises, z3.And(*right), shown)


def monotone(choose: Choose, slotted: bool) -> Iterator[Claim]:
    """A smaller batch has a bucket where a larger one has, and no later one."""
    n, m, batch = any_batch()
    more_n, more_m = z3.Ints("n' m'")
    for count in range(1, MOST_BUCKETS + 1):
        known = AnyLadder.of(count, slotted)
        small = choose(known.ladder, FREE, n, m)
        large = choose(known.ladder, FREE, more_n, more_m)
        ordered = z3.And(small != EAGER_INDEX, small <= large)
        shown = known.unknowns | {"n": n, "m": m, "n'": more_n, "m'": more_m}
        premises = (*known.well_formed, *batch, more_n >= n, more_m >= m)
        yield Claim(premises, z3.Implies(large != EAGER_INDEX, ordered), shown)


_MINIMAL = "choose(n, m) = i <=> b_i = min {(T, S) in ladder : T >= n, S >= m}; none <=> eager"
_REFUSE = "choose_rule(n, m) = choose(n, m) if T <= r n and n in no range, else eager"

CHOICE_LEMMAS = (
    Lemma(
        "dispatch is total and minimal",
        "I10",
        "always",
        "Every batch gets the smallest bucket with at least its tokens, or eager where there is "
        "none.",
        "choose(n) = i <=> T_i = min {T in ladder : T >= n}; none <=> eager",
        UP_TO_EIGHT,
        partial(total_and_minimal, REAL, slotted=False),
    ),
    Lemma(
        "dispatch is total and minimal with request slots",
        "I10",
        "always",
        "Every batch gets the fewest tokens that hold it in a bucket with enough request slots, "
        "then the fewest slots, or eager where there is none.",
        _MINIMAL,
        UP_TO_EIGHT,
        partial(total_and_minimal, REAL, slotted=True),
    ),
    Lemma(
        "rules only refuse",
        "I10",
        "always",
        "A guard or an eager range leaves a batch its bucket or sends it to eager; it never "
        "selects another one, so never a smaller one.",
        _REFUSE,
        f"{UP_TO_EIGHT}, any ratio r >= 1, up to {_RANGES} eager ranges",
        partial(rules_only_refuse, REAL, slotted=False),
    ),
    Lemma(
        "rules only refuse with request slots",
        "I10",
        "always",
        "The same for buckets with request slots.",
        _REFUSE,
        f"{UP_TO_EIGHT}, any ratio r >= 1, up to {_RANGES} eager ranges",
        partial(rules_only_refuse, REAL, slotted=True),
    ),
    Lemma(
        "dispatch is monotone",
        "I10",
        "always",
        "Without a rule a batch with no more tokens and no more requests gets no later bucket.",
        "n <= n', m <= m' => choose(n, m) <= choose(n', m')",
        UP_TO_EIGHT,
        partial(monotone, REAL, slotted=True),
    ),
)
