"""The lemmas about dispatch claim what their sentences say, of any dispatch.

Each is given a dispatch of which nothing is known: its answers c0, c1, ... are unknowns. Then a
claim's conclusion says of which answers it holds, and that is compared with the sentence in plain
Python, on random ladders of up to three buckets that are well formed and that are not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise, product, zip_longest
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("z3", reason="z3 is not installed: pip install '.[verify]'")

import z3

from simcg.formal.lemmas import LEMMAS, Claim, baked, choice, guards, lockstep
from simcg.formal.lemmas.symbols import Term, symbolic_dispatch
from simcg.ladder import AdmissionRule, Ladder
from tests.claims import Said, Values, check_claim, unknowns

ALL = range(9)
"""Ladders are proved up to eight buckets."""


@dataclass
class AnyChoice:
    """A dispatch that answers c0, c1, ... to whatever it is asked, and remembers that."""

    asked: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, ladder: Ladder, rule: AdmissionRule, n: Term, m: Term) -> Term:
        sizes = " ".join(str(b.num_tokens) for b in ladder.buckets)
        ruled = "free" if rule.max_ratio is None and not rule.eager_ranges else "ruled"
        self.asked.append((sizes, ruled, str(z3.simplify(n)), str(z3.simplify(m))))
        return z3.Int(f"c{len(self.asked) - 1}")


@dataclass(frozen=True)
class Point:
    """Numbers for a claim about ``count`` buckets, by name; ``first``: the number of its c0."""

    count: int
    first: int
    v: Values

    @property
    def sizes(self) -> list[int]:
        return [self.v[f"T{i}"] for i in range(self.count)]

    @property
    def slots(self) -> list[int]:
        return [self.v[f"S{i}"] for i in range(self.count) if f"S{i}" in self.v]

    def c(self, number: int) -> int:
        return self.v[f"c{self.first + number}"]

    def formed(self) -> bool:
        keys = list(zip(self.sizes, self.slots or [1] * self.count, strict=True))
        return keys == sorted(set(keys)) and all(min(key) >= 1 for key in keys)

    def ruled(self) -> bool:
        """The guard's ratio is at least 1 and the ranges ascend."""
        last, v = 0, self.v
        for i in range(2):
            if f"lo{i}" in v:
                if not last < v[f"lo{i}"] <= v[f"hi{i}"]:
                    return False
                last = v[f"hi{i}"]
        return 1 <= v["q"] <= v["p"]

    def guarded(self, size: int, n: int) -> bool:
        """The guard and the ranges let n tokens into a bucket of that size."""
        v = self.v
        apart = all(not v[f"lo{i}"] <= n <= v[f"hi{i}"] for i in range(2) if f"lo{i}" in v)
        return size * v["q"] <= n * v["p"] and apart

    def fits(self, i: int, n: int, m: int) -> bool:
        return self.sizes[i] >= n and (not self.slots or self.slots[i] >= m)

    def smallest(self, n: int, m: int) -> int:
        keys = list(zip(self.sizes, self.slots or [0] * self.count, strict=True))
        return min((i for i in range(self.count) if self.fits(i, n, m)), key=keys.__getitem__,
                   default=-1)  # fmt: skip


Law = Callable[[Point], bool]


@dataclass(frozen=True)
class Family:
    """The claims of one lemma, one for each of ``counts`` buckets.

    ``names``: its unknowns but those of the ladder and the answers. ``answers``: how many a claim
    asks for; ``asks``: under which rule and for which n and m. ``measure``: what is to be small.
    """

    claims: Callable[[Any], Iterable[Claim]]
    names: str
    slotted: bool
    answers: Callable[[int], int]
    premises: Law
    conclusion: Law
    asks: tuple[tuple[str, str, str], ...] | None = None
    counts: Sequence[int] = range(1, 9)
    measure: Callable[[Point], int] | None = None
    functions: dict[str, Callable[..., Any]] | None = None


def late(chosen: int, count: int) -> int:
    return count if chosen == -1 else chosen


def need(n: Any, m: Any) -> Any:
    """Something that grows with the requests and shrinks with the tokens, where it may not."""
    return 2 * m - n


def batch(p: Point) -> bool:
    return p.formed() and min(p.v["n"], p.v["m"]) >= 1


def narrow(p: Point) -> list[bool]:
    """Of each step between sizes: one more than the lower may replay in the upper."""
    return [p.guarded(upper, lower + 1) for lower, upper in pairwise(p.sizes)]


def ranked(p: Point) -> bool:
    """Two ranks' batches, each with a token a request."""
    return p.formed() and all(p.v[f"n{r}"] >= p.v[f"m{r}"] >= 1 for r in range(2))


def extent(p: Point) -> int:
    return sum(p.sizes) + p.v["n0"] + p.v["n1"]


RANKS = "n0 m0 n1 m1"
LARGER_N = "If(n0 >= n1, n0, n1)"

FAMILIES = {
    "every batch gets the smallest bucket that holds it": Family(
        lambda choose: choice.total_and_minimal(choose, slotted=False),
        "n m", False, lambda _: 1, batch,
        lambda p: p.c(0) == p.smallest(p.v["n"], p.v["m"]),
        (("free", "n", "m"),), counts=ALL,
    ),
    "and with slots": Family(
        lambda choose: choice.total_and_minimal(choose, slotted=True),
        "n m", True, lambda _: 1, batch,
        lambda p: p.c(0) == p.smallest(p.v["n"], p.v["m"]),
        (("free", "n", "m"),), counts=ALL,
    ),
    "a rule leaves a bucket or sends to eager": Family(
        lambda choose: choice.rules_only_refuse(choose, slotted=True),
        "n m p q lo0 hi0 lo1 hi1", True, lambda _: 2, lambda p: batch(p) and p.ruled(),
        lambda p: p.c(1) == -1 if p.c(0) == -1 else p.c(0) not in range(p.count) or p.c(1) == (
            p.c(0) if p.guarded(p.sizes[p.c(0)], p.v["n"]) else -1),
        (("free", "n", "m"), ("ruled", "n", "m")), counts=ALL,
    ),
    "a smaller batch has no later bucket": Family(
        lambda choose: choice.monotone(choose, slotted=True),
        "n m n' m'", True, lambda _: 2,
        lambda p: batch(p) and p.v["n'"] >= p.v["n"] and p.v["m'"] >= p.v["m"],
        lambda p: p.c(1) == -1 or (p.c(0) != -1 and p.c(0) <= p.c(1)),
        (("free", "n", "m"), ("free", "n'", "m'")),
    ),
    "a batch replays exactly up to the ceiling": Family(
        guards.derived_ceilings_cover,
        "n m", False, lambda _: 1, batch,
        lambda p: (p.c(0) != -1) == (p.v["n"] <= p.sizes[-1]),
        (("free", "n", "m"),),
    ),
    "a bucket admits its own shape": Family(
        baked.full_shapes,
        "p q", True, lambda count: count, lambda p: p.formed() and p.ruled(),
        lambda p: all(p.slots[i] > p.sizes[i] or p.c(i) == i for i in range(p.count)),
    ),
    "a bound for the full bucket is sound": Family(
        baked.sound_bounds,
        "n m p q bound", True, lambda _: 1, lambda p: batch(p) and p.ruled(),
        lambda p: all(
            p.c(0) != i or p.v["bound"] < need(size, slots) or p.v["bound"] >= need(*nm)
            or (nm[0] <= size and nm[1] <= slots and need(*nm) > need(size, slots))
            for i, (size, slots) in enumerate(zip(p.sizes, p.slots, strict=True))
            for nm in [(p.v["n"], p.v["m"])]
        ),
        (("ruled", "n", "m"),), functions={"need": need},
    ),
    "the choice from the maxima holds every rank": Family(
        lockstep.chosen_from_maxima,
        "n m N M p q lo0 hi0", True, lambda _: 1,
        lambda p: batch(p) and p.ruled() and p.v["N"] >= p.v["n"] and p.v["M"] >= p.v["m"],
        lambda p: p.c(0) not in range(p.count) or p.fits(p.c(0), p.v["n"], p.v["m"]),
        (("ruled", "N", "M"),),
    ),
    "the largest own choice is the common one": Family(
        lockstep.largest_of_own_choices,
        "n0 n1 m", False, lambda _: 3,
        lambda p: p.formed() and min(p.v["n0"], p.v["n1"], p.v["m"]) >= 1,
        lambda p: late(p.c(2), p.count) == max(late(p.c(0), p.count), late(p.c(1), p.count)),
        (("free", "n0", "m"), ("free", "n1", "m"), ("free", LARGER_N, "m")),
    ),
    "a guard with narrow steps leaves no hole": Family(
        lambda choose: islice(guards.guard_without_holes(choose), 0, None, 2),
        "n m p q", False, lambda _: 1,
        lambda p: (
            batch(p) and p.ruled() and p.v["n"] <= p.sizes[-1]
            and p.guarded(p.sizes[0], p.v["n"]) and all(narrow(p))
        ),
        lambda p: p.c(0) != -1,
        (("ruled", "n", "m"),),
    ),
    "a wide step is a hole": Family(
        lambda choose: islice(guards.guard_without_holes(choose), 1, None, 2),
        "n m p q", False, lambda count: count - 1, lambda p: batch(p) and p.ruled(),
        lambda p: all(step or p.c(k) == -1 for k, step in enumerate(narrow(p))),
    ),
    "ranks that choose by their own sizes agree": Family(
        lockstep.own_sizes, RANKS, True, lambda _: 2, ranked,
        lambda p: p.c(0) == p.c(1),
        (("free", "n0", "m0"), ("free", "n1", "m1")), (2,), extent,
    ),
    "ranks that choose by their own requests agree": Family(
        lockstep.own_requests, RANKS, True, lambda _: 2, ranked,
        lambda p: p.c(0) == p.c(1),
        (("free", LARGER_N, "m0"), ("free", LARGER_N, "m1")), (2,), extent,
    ),
    "ranks that ask the guard about their own tokens agree": Family(
        lockstep.own_guard, RANKS, True, lambda _: 1, lambda p: ranked(p) and p.c(0) != -1,
        lambda p: len({p.sizes[p.c(0) != 0] <= 2 * p.v[n] for n in ("n0", "n1")}) == 1,
        (("free", LARGER_N, "If(m0 >= m1, m0, m1)"),), (2,), extent,
    ),
    "the latest of the ranks' own buckets holds every rank": Family(
        lockstep.largest_with_slots, RANKS, True, lambda _: 2,
        lambda p: ranked(p) and -1 not in (p.c(0), p.c(1)),
        lambda p: max(p.c(0), p.c(1)) not in range(2) or all(
            p.fits(max(p.c(0), p.c(1)), p.v[f"n{r}"], p.v[f"m{r}"]) for r in range(2)),
        (("free", "n0", "m0"), ("free", "n1", "m1")), (2,), extent,
    ),
}  # fmt: skip


def points(family: Family, count: int, first: int) -> Iterator[Values]:
    """Random numbers, most of them with an ascending ladder and a ratio of at least 1."""
    drawn = random.Random(count)
    names = [f"T{i}" for i in range(count)]
    slots = [f"S{i}" for i in range(count if family.slotted else 0)]
    for number in range(4000):
        least = int(number % 4 > 0)
        v = {name: drawn.randint(least or -1, 6) for name in family.names.split()}
        if least and "q" in v:
            v["q"], v["p"] = sorted((v["q"], v["p"]))
        sizes = [drawn.randint(least, 6) for _ in names]
        v |= zip(names, sorted(sizes) if least else sizes, strict=True)
        v |= {name: drawn.randint(least, 4) for name in slots}
        v |= {f"c{first + i}": drawn.randint(-1, count) for i in range(family.answers(count))}
        yield v


@pytest.mark.parametrize("name", FAMILIES)
def test_a_claim_about_dispatch_says_what_its_sentence_says(name: str) -> None:
    family, choose = FAMILIES[name], AnyChoice()
    for count, claim in zip_longest(family.counts, family.claims(choose)):
        first = len(choose.asked) - family.answers(count)
        asked = choose.asked[first:]
        assert {one[0] for one in asked} <= {" ".join(f"T{i}" for i in range(count))}
        assert family.asks is None or tuple(one[1:] for one in asked) == family.asks
        if count <= 3:
            check(family, claim, count, first)


def check(family: Family, claim: Claim, count: int, first: int) -> None:
    """The claim is the family's, and where its premises hold not every answer is right."""
    sides: dict[tuple[bool, bool], list[Values]] = {}
    for v in points(family, count, first):
        p = Point(count, first, v)
        side = sides.setdefault((family.premises(p), family.conclusion(p)), [])
        if len(side) < 15:
            side.append(v)
    assert (True, True) in sides
    assert ((True, False) in sides) == (family.answers(count) > 0)
    found = [v for side in sides.values() for v in side]
    measure = family.measure
    said = Said(
        " ".join(found[0]),
        lambda **v: family.premises(Point(count, first, v)),
        lambda **v: family.conclusion(Point(count, first, v)),
        (lambda **v: measure(Point(count, first, v))) if measure else None,
        defined=lambda **v: Point(count, first, v).formed(),
        functions=family.functions,
    )
    check_claim(claim, said, found)


@pytest.mark.parametrize("word", ["<", "<=", ">", ">="])
def test_a_dispatch_may_compare_entries_in_any_way(word: str) -> None:
    """A stand-in for NumPy that got one wrong would prove lemmas about another dispatch."""
    text = f"""
def dispatch(ladder, rule, tokens, requests):
    chosen = np.full(tokens.shape, 0, dtype=np.int64)
    chosen[tokens {word} requests] = 1
    return chosen
"""
    module = ModuleType("made")
    exec(text, module.__dict__)
    choose = symbolic_dispatch(module)
    for a, b in product(range(3), range(3)):
        chosen = choose(Ladder(()), AdmissionRule(), z3.IntVal(a), z3.IntVal(b))
        assert z3.simplify(chosen).as_long() == int(eval(f"{a} {word} {b}"))


SLOTTED = {
    "dispatch is total and minimal": False,
    "dispatch is total and minimal with request slots": True,
    "rules only refuse": False,
    "rules only refuse with request slots": True,
    "dispatch is monotone": True,
    "a ceiling derived from the ladder has no holes": False,
    "a guard leaves holes exactly at wide steps": False,
    "a choice from the maxima holds every rank": True,
    "without slots the largest own choice is the common one": False,
    "a bucket admits its own shape": True,
    "a bound for the full bucket holds for all its batches": True,
}


@pytest.mark.parametrize("name", SLOTTED)
def test_a_lemma_is_about_ladders_with_or_without_slots_as_it_says(name: str) -> None:
    """And about the dispatch that runs: its choice is a term of the ladder's own numbers."""
    (lemma,) = (one for one in LEMMAS if one.name == name)
    *_, last = lemma.claims()
    found = unknowns((*last.premises, last.conclusion))
    assert {x for x in found if x[0] == "T"} == {f"T{i}" for i in range(8)}
    slots = {x for x in found if x[0] == "S"}
    assert slots == ({f"S{i}" for i in range(8)} if SLOTTED[name] else set())
