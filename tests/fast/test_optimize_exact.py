"""The solver against oracles: every ladder of small problems, the textbook recurrence of larger."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from simcg.errors import InputError
from simcg.optimize.certificate import check_certificate
from simcg.optimize.evaluate import ladder_cost
from simcg.optimize.lattice import Lattice
from simcg.optimize.layers import Path, choose_path
from simcg.optimize.solve import solve
from tests.ladder_problems import (
    Rules,
    brute_force,
    build,
    check_frontier,
    every_path,
    random_problem,
    textbook,
)


@pytest.mark.parametrize("largest", range(1, 9))
def test_every_path_equals_brute_force(largest: int) -> None:
    """For every k the least cost equals the least over all ladders, whatever rules and limits."""
    rng = np.random.default_rng(largest)
    for turn in range(40):
        problem = random_problem(rng, largest, plain=turn % 4 == 0)
        want = brute_force(problem)
        for frontier in every_path(problem, largest):
            check_frontier(problem, frontier, want)


def test_every_path_equals_the_textbook_recurrence() -> None:
    """On 20..60 sizes the paths agree with the recurrence written out in plain Python."""
    rng = np.random.default_rng(20)
    for turn in range(24):
        problem = random_problem(rng, int(rng.integers(20, 61)), plain=turn % 4 == 0)
        want = textbook(problem, 7)
        for frontier in every_path(problem, 7):
            check_frontier(problem, frontier, want)


def test_every_path_is_taken() -> None:
    """The random problems reach each path, so the comparisons above are about all of them."""
    rng = np.random.default_rng(0)
    chosen = {
        choose_path(Lattice.of(random_problem(rng, 9, plain=turn % 3 == 0))) for turn in range(60)
    }
    assert chosen == set(Path)


def test_dropping_dominated_buckets_is_wrong_under_a_hard_guard() -> None:
    """Without the buckets that cost no less than a larger one, 81 becomes 89."""
    limits: Rules = {"tops": {6}, "max_ratio": Fraction(2)}
    weights, replay = [5, 1, 5, 3, 1, 0], [6, 6, 4, 9, 5, 5]
    eager = [w * e for w, e in zip(weights, [9, 10, 8, 8, 9, 13], strict=True)]
    whole = build(weights, replay, eager, **limits)
    undominated = {n for n in range(1, 7) if all(c > replay[n - 1] for c in replay[n:])}
    fewer = limits.copy()
    fewer["allowed"] = undominated
    dropped = build(weights, replay, eager, **fewer)
    assert solve(whole, 2).best_cost(2) == 81
    assert solve(dropped, 2).best_cost(2) == 89


@pytest.mark.parametrize(
    ("tops", "costs"),
    [({4}, [55, 50, 50, 49]), ({1, 2, 3, 4}, [50, 50, 49, 49])],
    ids=["top N", "free ceiling"],
)
def test_costs_need_not_be_convex_under_a_hard_guard(tops: set[int], costs: list[int]) -> None:
    """The gains of one more bucket are 5, 0, 1 with the top at N, and no price is claimed."""
    weights = [5, 1, 4, 0]
    eager = [w * e for w, e in zip(weights, [4, 8, 8, 8], strict=True)]
    problem = build(weights, [4, 5, 6, 7], eager, tops=tops, max_ratio=Fraction(2))
    frontier = solve(problem, 4)
    assert [frontier.best_cost(k) for k in (1, 2, 3, 4)] == costs
    assert frontier.certificate(2).price_ns is None


def test_exactly_and_at_most_differ_with_a_charge_per_bucket() -> None:
    """Two buckets can cost more than one: exactly two is then dearer than at most two."""
    frontier = solve(build([1, 1], [1, 2], [9, 9], charge=[5, 5]), 2)
    assert (frontier.exact_cost(1), frontier.exact_cost(2)) == (9, 13)
    assert (frontier.best_cost(2), frontier.best_count(2), frontier.best_ladder(2)) == (9, 1, (2,))
    assert frontier.ladder(2) == (1, 2)


def test_more_buckets_than_sizes_have_no_exact_ladder() -> None:
    """With two allowed sizes, exactly three buckets is infeasible and at most three is not."""
    frontier = solve(build([1, 1, 1], [1, 2, 3], [9, 9, 9], allowed={1, 3}), 5)
    assert frontier.exact_costs_ns[3:] == (None, None, None)
    assert frontier.best_ladder(5) == (1, 3)
    check_certificate(frontier.lattice.problem, (1, 3), 7, frontier.certificate(5))


def test_nothing_is_feasible_below_the_number_of_required_sizes() -> None:
    """Two required sizes leave no ladder of fewer than two buckets, and all eager is out."""
    frontier = solve(build([1, 1, 1], [1, 2, 3], [0, 0, 0], required=(1, 2)), 3)
    assert frontier.exact_costs_ns[:2] == (None, None)
    assert frontier.best_cost(1) is None
    assert frontier.ladder(2) == (1, 2)
    with pytest.raises(InputError, match="buckets: got 1, expected"):
        frontier.best_ladder(1)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"max_ratio": Fraction(1, 2)}, "max_ratio"),
        ({"max_ratio": Fraction(2**62 + 1, 2**61)}, "max_ratio"),
        ({"required": (2, 1)}, "required"),
        ({"required": (3,)}, "required"),
        ({"charge": [2**60, 0]}, "total cost"),
    ],
)
def test_a_problem_that_cannot_be_solved_exactly_is_refused(change: Rules, field: str) -> None:
    """The error names the field: a bad ratio, required sizes out of order, int64 too small."""
    with pytest.raises(InputError, match=field):
        build([1, 1], [1, 2], [9, 9], **change)


def test_sizes_and_counts_outside_the_problem_are_refused() -> None:
    """A ladder above N, a negative number of buckets and a k that was not solved are errors."""
    problem = build([1, 1], [1, 2], [9, 9])
    with pytest.raises(InputError, match="sizes"):
        ladder_cost(problem, (3,))
    with pytest.raises(InputError, match="max_buckets"):
        solve(problem, -1)
    with pytest.raises(InputError, match=r"0\.\.1"):
        solve(problem, 1).best_cost(2)
