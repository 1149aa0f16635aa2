"""The checker accepts what the solver proves and rejects every forgery of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypedDict, Unpack

import numpy as np
import pytest

from simcg.optimize.certificate import Certificate, CertificateError, Proof, check_certificate
from simcg.optimize.evaluate import ladder_cost
from simcg.optimize.evidence import NO_PARENT, UNREACHABLE
from simcg.optimize.frontier import Frontier
from simcg.optimize.problem import LadderProblem
from simcg.optimize.solve import solve
from tests.ladder_problems import Rules, build, every_path, random_problem

K = 5


def padded(**rules: Unpack[Rules]) -> LadderProblem:
    """A problem of 24 sizes without ties: all have traffic, and costs rise unevenly."""
    largest = 24
    rules.setdefault("tops", {largest})
    rng = np.random.default_rng(17)
    weights = rng.integers(100, 10_000, largest)
    replay = np.cumsum(rng.integers(1000, 100_000, largest))
    return build(
        weights.tolist(),
        replay.tolist(),
        (weights * (100_000 + replay * 4 // 5)).tolist(),
        **rules,
    )


RULES: dict[str, Rules] = {
    "padding": {},
    "guard": {"max_ratio": Fraction(3, 2)},
    "choice": {"eager_if_cheaper": True},
    "required": {"required": (5, 11), "max_ratio": Fraction(2)},
}
all_proofs = pytest.mark.parametrize(
    ("rules", "last"), [(r, last) for r in RULES for last in (False, True)]
)


def solved(rules: str, last: bool) -> tuple[LadderProblem, Frontier]:
    """A problem solved by its fastest path (proof by rows) or by the last (proof by pairs)."""
    problem = padded(**RULES[rules])
    frontiers = every_path(problem, K + 1)
    frontier = frontiers[-1 if last else 0]
    assert frontier.proof is (Proof.PAIRS if last else Proof.ROWS)
    return problem, frontier


def rejects(
    problem: LadderProblem, ladder: tuple[int, ...], cost: int, certificate: Certificate
) -> bool:
    """Whether the checker refuses."""
    try:
        check_certificate(problem, ladder, cost, certificate)
    except CertificateError:
        return True
    return False


@all_proofs
def test_every_changed_potential_is_rejected(rules: str, last: bool) -> None:
    """One nanosecond more or less at any position of any layer, or another reachability, shows."""
    problem, frontier = solved(rules, last)
    ladder, cost = frontier.ladder(K), frontier.exact_cost(K)
    certificate = frontier.certificate(K, exactly=True)
    assert cost is not None
    assert not rejects(problem, ladder, cost, certificate)
    for layer, position in np.ndindex(certificate.potentials.shape):
        held = int(certificate.potentials[layer, position])
        changes = [0] if held == UNREACHABLE else [held - 1, held + 1, UNREACHABLE]
        for value in changes:
            potentials = certificate.potentials.copy()
            potentials[layer, position] = value
            forged = replace(certificate, potentials=potentials)
            assert rejects(problem, ladder, cost, forged), (layer, position, value)


@all_proofs
def test_every_changed_parent_is_rejected(rules: str, last: bool) -> None:
    """Without ties each parent is the only one that attains its minimum."""
    problem, frontier = solved(rules, last)
    ladder, cost = frontier.ladder(K), frontier.exact_cost(K)
    certificate = frontier.certificate(K, exactly=True)
    assert cost is not None
    for layer, position in np.ndindex(certificate.parents.shape):
        for value in (NO_PARENT, 0, position - 1, position, 10**6):
            if certificate.parents[layer, position] != value:
                parents = certificate.parents.copy()
                parents[layer, position] = value
                forged = replace(certificate, parents=parents)
                assert rejects(problem, ladder, cost, forged), (layer, position, value)


@all_proofs
def test_another_cost_or_ladder_is_rejected(rules: str, last: bool) -> None:
    """The cost must be the ladder's, and no other ladder of as many buckets is proven."""
    problem, frontier = solved(rules, last)
    ladder, cost = frontier.ladder(K), frontier.exact_cost(K)
    certificate = frontier.certificate(K, exactly=True)
    assert cost is not None
    for wrong in (cost - 1, cost + 1):
        with pytest.raises(CertificateError, match="the ladder costs"):
            check_certificate(problem, ladder, wrong, certificate)
    rng = np.random.default_rng(1)
    for _ in range(50):
        others = {*problem.required, problem.max_tokens}
        while len(others) < K:
            others.add(int(rng.integers(1, problem.max_tokens)))
        other = tuple(sorted(others))
        if other != ladder:
            with pytest.raises(CertificateError, match="the ladder costs"):
                check_certificate(problem, other, cost, certificate)
            with pytest.raises(CertificateError, match=f"{K} buckets can cost {cost} ns"):
                check_certificate(problem, other, ladder_cost(problem, other), certificate)


def test_a_price_outside_its_interval_is_rejected() -> None:
    """The price lies between what the next bucket saves and what the last one saved."""
    problem = padded()
    frontier = solve(problem, K + 1)
    costs = frontier.exact_costs_ns
    ladder, cost = frontier.ladder(K), costs[K]
    certificate = frontier.certificate(K, exactly=True)
    before, after = costs[K - 1], costs[K + 1]
    assert cost is not None
    assert before is not None
    assert after is not None
    assert certificate.price_ns == cost - after < before - cost
    check_certificate(problem, ladder, cost, replace(certificate, price_ns=before - cost))
    for wrong in (cost - after - 1, before - cost + 1):
        with pytest.raises(CertificateError, match="price"):
            check_certificate(problem, ladder, cost, replace(certificate, price_ns=wrong))


def test_there_is_no_price_under_a_hard_guard() -> None:
    """The solver claims none, and the checker takes none."""
    problem = padded(max_ratio=Fraction(2))
    frontier = solve(problem, K + 1)
    cost, certificate = frontier.exact_cost(K), frontier.certificate(K, exactly=True)
    assert cost is not None
    assert certificate.price_ns is None
    with pytest.raises(CertificateError, match="no price under a hard guard"):
        check_certificate(problem, frontier.ladder(K), cost, replace(certificate, price_ns=1))


def test_at_most_is_not_proven_by_a_ladder_of_exactly_as_many() -> None:
    """With charges two buckets are the best of exactly two and not of at most two."""
    problem = build([1, 1], [1, 2], [9, 9], charge=[5, 5])
    frontier = solve(problem, 2)
    check_certificate(problem, (1, 2), 13, frontier.certificate(2, exactly=True))
    with pytest.raises(CertificateError, match="fewer buckets costs less"):
        check_certificate(problem, (1, 2), 13, frontier.certificate(2))
    with pytest.raises(CertificateError, match="has 1 buckets, the claim is about 2"):
        check_certificate(problem, (2,), 9, frontier.certificate(2, exactly=True))


def test_all_eager_can_be_the_optimum() -> None:
    """No graphs at all is a ladder too, with a certificate, where eager is cheaper."""
    problem = build([1, 1], [5, 9], [1, 1])
    frontier = solve(problem, 2)
    assert frontier.best_ladder(2) == ()
    check_certificate(problem, (), 2, frontier.certificate(2))


@pytest.mark.parametrize(
    ("ladder", "reason"),
    [
        ((1, 2, 25), "25 is not an allowed size"),
        ((0, 11, 24), "0 is not an allowed size"),
        ((7, 11, 24), "7 is not an allowed size"),
        ((11, 8, 24), "does not ascend"),
        ((11, 11, 24), "does not ascend"),
        ((8, 10, 24), "lacks the required sizes"),
        ((8, 11, 22), "may not be the ceiling"),
        ((8, 9, 11, 24), "has 4 buckets"),
    ],
)
def test_a_ladder_beyond_the_limits_is_rejected(ladder: tuple[int, ...], reason: str) -> None:
    """Allowed sizes, order, required sizes, the ceiling and the number of buckets are checked."""
    problem = padded(required=(11,))
    problem.allowed[7] = False
    frontier = solve(problem, 3)
    with pytest.raises(CertificateError, match=reason):
        check_certificate(problem, ladder, 0, frontier.certificate(3))


class Fields(TypedDict, total=False):
    """The tables of a certificate."""

    potentials: Any  # some forgeries have another type than the field's
    parents: Any


Forgery = Callable[[Certificate], Fields]
FORGERIES: list[tuple[Forgery, str]] = [
    (lambda c: {"potentials": c.potentials[:-2], "parents": c.parents[:-2]}, "are needed"),
    (lambda c: {"potentials": c.potentials[:, :-1], "parents": c.parents[:, :-1]}, "are needed"),
    (lambda c: {"potentials": c.potentials[:-1]}, "one shape"),
    (lambda c: {"potentials": c.potentials[0], "parents": c.parents[0]}, "one shape"),
    (lambda c: {"potentials": c.potentials.astype(np.float64)}, "not integers"),
    (lambda c: {"parents": c.parents.astype(np.float64)}, "not integers"),
    (lambda c: {"potentials": np.where(c.potentials > 0, 2**60, c.potentials)}, "out of range"),
    (lambda c: {"potentials": np.full_like(c.potentials, -(2**63))}, "out of range"),
]


@pytest.mark.parametrize(("forge", "reason"), FORGERIES)
def test_a_malformed_certificate_is_rejected(forge: Forgery, reason: str) -> None:
    """Too few layers or columns, other types and numbers that overflow are named."""
    problem = padded(max_ratio=Fraction(2))
    frontier = solve(problem, K)
    certificate = frontier.certificate(K)
    forged = replace(certificate, **forge(certificate))
    cost = frontier.best_cost(K)
    assert cost is not None
    with pytest.raises(CertificateError, match=reason):
        check_certificate(problem, frontier.best_ladder(K), cost, forged)


def test_a_proof_by_rows_needs_the_form_of_costs_it_rests_on() -> None:
    """Falling replay costs, or eager costs per step that fall under a choice, end such a proof."""
    falling = build([1, 1, 1], [3, 1, 2], [9, 9, 9])
    uneven = build([1, 1, 1], [1, 2, 3], [2, 1, 9], eager_if_cheaper=True)
    for problem, reason in ((falling, "replay costs"), (uneven, "eager costs per step")):
        frontier = solve(problem, 2)
        cost, certificate = frontier.best_cost(2), frontier.certificate(2)
        assert certificate.proof is Proof.PAIRS
        assert cost is not None
        check_certificate(problem, frontier.best_ladder(2), cost, certificate)
        by_rows = replace(certificate, proof=Proof.ROWS)
        with pytest.raises(CertificateError, match=reason):
            check_certificate(problem, frontier.best_ladder(2), cost, by_rows)


def test_a_certificate_speaks_of_its_own_problem_only() -> None:
    """With one step more, one charge more or a free ceiling the same certificate fails."""
    problem = padded(max_ratio=Fraction(2))
    frontier = solve(problem, K)
    ladder, certificate = frontier.ladder(K), frontier.certificate(K, exactly=True)
    more_steps, charge = problem.weights.copy(), problem.charge_ns.copy()
    more_steps[3] += 1
    charge[2] = 1
    cheap = problem.eager_ns.copy()
    cheap[20:] = 0
    free = np.ones_like(problem.tops)
    for other in (
        replace(problem, weights=more_steps),
        replace(problem, charge_ns=charge),
        replace(problem, max_ratio=Fraction(9, 4)),
        replace(problem, max_ratio=None),
        replace(problem, eager_ns=cheap, tops=free),
    ):
        assert rejects(other, ladder, ladder_cost(other, ladder), certificate)


def test_random_forgeries_are_rejected() -> None:
    """Potentials of random problems, ties and all: any changed number is found."""
    rng = np.random.default_rng(23)
    tried = 0
    for _ in range(60):
        problem = random_problem(rng, int(rng.integers(2, 14)))
        for frontier in every_path(problem, 4):
            cost = frontier.best_cost(4)
            if cost is None:
                continue
            ladder, certificate = frontier.best_ladder(4), frontier.certificate(4)
            for _ in range(8):
                potentials = certificate.potentials.copy()
                entry = tuple(int(rng.integers(extent)) for extent in potentials.shape)
                step = int(rng.choice([-5, -1, 1, 3]))
                reached = potentials[entry] != UNREACHABLE
                potentials[entry] = potentials[entry] + step if reached else step
                assert rejects(problem, ladder, cost, replace(certificate, potentials=potentials))
                tried += 1
    assert tried > 300
