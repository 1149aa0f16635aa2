"""The lemmas hold, each within a second, and speak of the code that runs.

The stand-ins that carry numbers into terms are held against NumPy, against the constructors of
ladders and rules, and against the dispatch itself on whole small scopes.
"""

from __future__ import annotations

import importlib.util
import runpy
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
import z3
from hypothesis import given
from hypothesis import strategies as st

import simcg.formal.lemmas as package
from simcg.errors import SimcgError
from simcg.formal.invariants import INVARIANTS
from simcg.formal.lemmas import LEMMAS, Claim, Lemma
from simcg.formal.lemmas import lemma as lemma_module
from simcg.formal.lemmas.lockstep import LOCKSTEP_LEMMAS
from simcg.formal.lemmas.symbols import AnyLadder, AnyRule, symbolic_dispatch, symbolic_least_tokens
from simcg.ladder import EAGER_INDEX, AdmissionRule, Bucket, Ladder, dispatch
from tests.ladders import plain_ladders, rules, slotted_ladders

choose = symbolic_dispatch()
n, m = z3.Ints("n m")
BY_NAME = {lemma.name: lemma for lemma in LEMMAS}


@pytest.mark.parametrize("name", BY_NAME)
def test_each_lemma_holds_within_a_second_of_processor_time(name: str) -> None:
    lemma = BY_NAME[name]
    proof = lemma.prove()
    assert proof.holds, proof
    assert proof.ms < 1000
    assert (proof.counterexample is None) == (lemma.kind == "always")


def test_names_differ_and_every_lemma_serves_an_invariant() -> None:
    assert len(BY_NAME) == len(LEMMAS)
    assert all(lemma.invariant in INVARIANTS for lemma in LEMMAS)


def test_the_hole_of_the_public_rule_is_found() -> None:
    """Its smallest maximum with a range at all is 17, and the batch without an entry is 17."""
    assert (
        BY_NAME["a guard beside the list has a hole"].prove().counterexample == "max = 17, n = 17"
    )


@pytest.mark.parametrize("kind", ["always", "sometimes"])
def test_premises_that_cannot_be_met_prove_nothing(kind: str) -> None:
    x = z3.Int("x")
    empty = Claim((x > 0, x < 0), x == 0)
    proof = Lemma("empty", "I10", kind, "", "", "", lambda: [empty]).prove()  # type: ignore[arg-type]
    assert not proof.holds
    assert proof.counterexample == "no values meet the premises"


@pytest.mark.parametrize("kind", ["always", "sometimes"])
def test_what_z3_gives_up_on_is_not_proved(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lemma_module, "TIMEOUT_MS", 20)
    x, y, z = z3.Ints("x y z")
    sums = x**3 + y**3 + z**3 != 114  # open: no three cubes are known
    proof = Lemma("cubes", "I10", kind, "", "", "", lambda: [Claim((), sums)]).prove()  # type: ignore[arg-type]
    assert not proof.holds
    assert proof.counterexample is not None
    assert proof.counterexample.startswith("z3 gave up")


def test_every_claim_of_a_lemma_counts() -> None:
    """One that fails among many that hold is told with its values."""
    x = z3.Int("x")
    claims = [Claim((x > 0,), x >= 1), Claim((x > 4,), x != 7, {"x": x}), Claim((x > 0,), x >= 1)]
    proof = Lemma("seven", "I10", "always", "", "", "", lambda: claims).prove()
    assert (proof.holds, proof.counterexample) == (False, "x = 7")


def test_without_z3_the_error_is_one_line_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SimcgError, match=r"z3-solver, expected pip install 'simcg\[verify\]'"):
        runpy.run_path(str(package.__file__))


def small_ladders() -> Iterator[Ladder]:
    """All over sizes 1..4, and all over sizes 1..3 x slots 1..2."""
    plain = [Bucket(size) for size in range(1, 5)]
    slotted = [Bucket(size, slots) for size in range(1, 4) for slots in (1, 2)]
    for buckets in (plain, slotted):
        for count in range(len(buckets) + 1):
            yield from map(Ladder, combinations(buckets, count))


SMALL_RULES = (
    AdmissionRule(),
    AdmissionRule(Fraction(3, 2)),
    AdmissionRule(eager_ranges=((2, 3), (5, 5))),
    AdmissionRule(Fraction(2), ((1, 1),)),
)


def differ(ladder: Ladder, rule: AdmissionRule, tokens: list[int], requests: list[int]) -> bool:
    """Does the symbolic dispatch differ from the real one on one of these batches?"""
    real = dispatch(ladder, rule, np.array(tokens), np.array(requests))
    chosen = choose(ladder, rule, n, m)
    solver = z3.SimpleSolver()
    batches = zip(tokens, requests, real.tolist(), strict=True)
    solver.add(z3.Or(*(z3.And(n == a, m == b, chosen != index) for a, b, index in batches)))
    return bool(solver.check() != z3.unsat)


def test_symbols_choose_as_numbers_do_on_every_small_ladder() -> None:
    """Whole scope: 80 ladders, 4 rules, batches of 1..6 tokens and 1..3 requests."""
    tokens, requests = zip(*product(range(1, 7), range(1, 4)), strict=True)
    ladders = list(small_ladders())
    assert len(ladders) == 16 + 64
    for ladder, rule in product(ladders, SMALL_RULES):
        assert not differ(ladder, rule, list(tokens), list(requests)), (ladder, rule)


batches = st.lists(st.tuples(st.integers(1, 70), st.integers(1, 9)), min_size=1, max_size=12)


@given(plain_ladders() | slotted_ladders(), rules(), batches)
def test_symbols_choose_as_numbers_do(
    ladder: Ladder, rule: AdmissionRule, pairs: list[tuple[int, int]]
) -> None:
    tokens, requests = map(list, zip(*pairs, strict=True))
    assert not differ(ladder, rule, tokens, requests)


@given(plain_ladders() | slotted_ladders(), rules(), batches)
def test_dispatch_treats_every_batch_alone(
    ladder: Ladder, rule: AdmissionRule, pairs: list[tuple[int, int]]
) -> None:
    """So that arrays of one entry stand for all arrays."""
    tokens, requests = (np.array(side) for side in zip(*pairs, strict=True))
    alone = [dispatch(ladder, rule, tokens[[i]], requests[[i]])[0] for i in range(len(pairs))]
    assert dispatch(ladder, rule, tokens, requests).tolist() == alone


@pytest.mark.parametrize("slotted", [False, True])
def test_premises_about_ladders_are_the_checks_of_their_constructor(slotted: bool) -> None:
    """All ladders of two buckets over sizes and slots 0..3."""
    known = AnyLadder.of(2, slotted)
    numbers = (*known.sizes, *known.slots)
    for values in product(range(4), repeat=len(numbers)):
        sizes, slots = values[:2], values[2:] or (None, None)
        assert accepted(lambda t=sizes, s=slots: Ladder(tuple(map(Bucket, t, s)))) == met(
            known.well_formed, numbers, values
        )


def test_premises_about_rules_are_the_checks_of_their_constructor() -> None:
    """All ratios and pairs of ranges over 0..2, but denominator 0, which no fraction has."""
    known = AnyRule.of(2)
    numbers = (known.numerator, known.denominator, *known.ranges[0], *known.ranges[1])
    for values in product(range(3), range(1, 3), *[range(3)] * 4):
        p, q, *ends = values
        ranges = ((ends[0], ends[1]), (ends[2], ends[3]))
        assert accepted(lambda r=Fraction(p, q), e=ranges: AdmissionRule(r, e)) == met(
            known.well_formed, numbers, values
        )


def accepted(build: object) -> bool:
    assert callable(build)
    try:
        build()
    except SimcgError:
        return False
    return True


def met(premises: tuple[object, ...], numbers: tuple[object, ...], values: tuple[int, ...]) -> bool:
    """Do the premises hold of these values?"""
    pairs = [(number, z3.IntVal(value)) for number, value in zip(numbers, values, strict=True)]
    return bool(z3.is_true(z3.simplify(z3.substitute(z3.And(*premises), *pairs))))


@given(st.integers(1, 999), st.fractions(min_value=1, max_value=9, max_denominator=9))
def test_least_tokens_of_symbols_is_that_of_numbers(size: int, ratio: Fraction) -> None:
    rule, unknown = AdmissionRule(ratio), z3.Int("T")
    term = z3.substitute(symbolic_least_tokens(rule, unknown), (unknown, z3.IntVal(size)))
    assert z3.simplify(term).as_long() == rule.least_tokens(size)


def test_the_list_holds_its_maximum_exactly_where_the_lemma_says() -> None:
    """The real dispatch, for every maximum up to 400."""
    for most in range(1, 401):
        ladder = Ladder.of([1, 2, 4, 8, *range(16, most + 1, 16)])
        tokens = np.arange(1, most + 1)
        eager = np.flatnonzero(dispatch(ladder, AdmissionRule(), tokens, tokens) == EAGER_INDEX) + 1
        assert (len(eager) == 0) == (most <= 8 or most % 16 == 0)
        assert len(eager) == 0 or most in eager


def values_of(name: str) -> dict[str, int]:
    text = BY_NAME[name].prove().counterexample
    assert text is not None
    return {k: int(v) for k, v in (pair.split(" = ") for pair in text.split(", ")) if v.isdigit()}


@pytest.mark.parametrize("lemma", [x.name for x in LOCKSTEP_LEMMAS if x.kind == "sometimes"])
def test_examples_of_broken_lockstep_break_it_in_the_real_dispatch(lemma: str) -> None:
    v = values_of(lemma)
    ladder = Ladder((Bucket(v["T0"], v["S0"]), Bucket(v["T1"], v["S1"])))
    n0, m0, n1, m1 = (v[name] for name in ("n0", "m0", "n1", "m1"))
    most = max(n0, n1)

    def real(tokens: int, requests: int) -> int:
        batch = (np.array([tokens]), np.array([requests]))
        return int(dispatch(ladder, AdmissionRule(), *batch)[0])

    if lemma == "own sizes break lockstep":
        assert real(n0, m0) != real(n1, m1)
    elif lemma == "own requests break lockstep":
        assert real(most, m0) != real(most, m1)
    elif lemma == "own guards break lockstep":
        size = ladder.sizes[real(most, max(m0, m1))]
        assert (size <= 2 * n0) != (size <= 2 * n1)
    else:
        taken = ladder.buckets[max(real(n0, m0), real(n1, m1))]
        assert taken.num_tokens < most or (taken.slots or 0) < max(m0, m1)
