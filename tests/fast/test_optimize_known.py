"""Published and derived figures, the peer's problem, and laws of the optimum."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from simcg.arrays import Ints
from simcg.optimize.evaluate import ladder_cost
from simcg.optimize.frontier import price
from simcg.optimize.hull import leftmost_minimisers
from simcg.optimize.lattice import Lattice
from simcg.optimize.layers import Path
from simcg.optimize.monotone import Band, row_minima
from simcg.optimize.price import has_price
from simcg.optimize.problem import LadderProblem
from simcg.optimize.solve import solve, solve_by
from tests.ladder_problems import build, random_problem

N = 8192


def padding(weights: Ints, replay_ns: Ints | None = None) -> LadderProblem:
    """Pure padding with the top at N and a dear eager; costs are the bucket's tokens or given."""
    sizes = np.arange(len(weights), dtype=np.int64)
    top = sizes == sizes[-1]
    replay = sizes if replay_ns is None else replay_ns
    dear = weights * (1 + replay.max())
    return LadderProblem(weights, replay, dear, np.zeros_like(sizes), sizes > 0, top)


def uniform() -> Ints:
    """One step of each size."""
    weights = np.ones(N + 1, dtype=np.int64)
    weights[0] = 0
    return weights


def inverse() -> Ints:
    """Steps in proportion to 1/n; at 10**9 steps of size 1, rounding shifts no printed digit."""
    sizes = np.arange(N + 1)
    weights = np.rint(10**9 / np.maximum(sizes, 1)).astype(np.int64)
    weights[0] = 0
    return weights


def waste(problem: LadderProblem, cost: int) -> float:
    """Padded over real tokens, minus 1, in percent with two decimals."""
    real = int((problem.weights * np.arange(N + 1)).sum())
    return round(100 * (cost / real - 1), 2)


POWERS = tuple(2**i for i in range(14))
LADDERS = {
    "powers of two": (POWERS, 33.32, 38.55),
    "step 512": (tuple(range(512, N + 1, 512)), 6.24, 45.47),
    "step 256": (tuple(range(256, N + 1, 256)), 3.11, 21.65),
}


@pytest.mark.parametrize("name", LADDERS)
def test_waste_of_usual_ladders(name: str) -> None:
    """Ladders in use waste what an independent calculation gives, for both densities."""
    ladder, flat, steep = LADDERS[name]
    for weights, percent in ((uniform(), flat), (inverse(), steep)):
        problem = padding(weights)
        assert waste(problem, ladder_cost(problem, ladder)) == percent


def test_least_waste_for_8_to_56_buckets() -> None:
    """The optimum for cost = tokens at N = 8192 is the independently calculated one."""
    expected = {
        "uniform": {8: 12.49, 16: 6.24, 24: 4.15, 32: 3.11, 56: 1.77},
        "1/n": {8: 29.50, 16: 13.45, 24: 8.68, 32: 6.39, 56: 3.55},
    }
    for name, weights in (("uniform", uniform()), ("1/n", inverse())):
        problem = padding(weights)
        frontier = solve(problem, 56)
        found = {k: waste(problem, frontier.exact_cost(k) or 0) for k in expected[name]}
        assert found == expected[name]


def fewest_padded_tokens(histogram: list[int], buckets: int) -> int:
    """The peer's objective, PG-CG Lite: least sum of (bucket - n) over a histogram, O(K N^2)."""
    largest = len(histogram)
    padded = [[0] * (largest + 1) for _ in range(largest + 1)]
    for high in range(1, largest + 1):
        for low in range(high - 1, -1, -1):
            padded[low][high] = padded[low + 1][high] + histogram[low] * (high - low - 1)
    best = [0 if n == 0 else 10**18 for n in range(largest + 1)]
    least = 10**18
    for _ in range(buckets):
        best = [10**18] + [
            min(best[low] + padded[low][high] for low in range(high))
            for high in range(1, largest + 1)
        ]
        least = min(least, best[largest])
    return least


def test_with_cost_equal_to_tokens_the_answer_is_the_peers() -> None:
    """Minimising padded tokens is the special case cost = tokens, all sizes allowed, top at N."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        largest = int(rng.integers(5, 60))
        histogram = rng.integers(0, 50, largest).tolist()
        problem = padding(np.array([0, *histogram], dtype=np.int64))
        real = sum(n * count for n, count in enumerate(histogram, 1))
        frontier = solve(problem, 6)
        for k in range(1, 7):
            cost = frontier.best_cost(k)
            assert cost is not None
            assert cost - real == fewest_padded_tokens(histogram, k)


def test_fewest_padded_tokens_can_be_a_slower_ladder() -> None:
    """On a staircase of time per step, the ladder with the least padding takes longer."""
    # sizes 1..6, time steps up after 4 only: a bucket at 4 saves time, one at 5 saves tokens
    weights = np.array([0, 0, 0, 0, 10, 12, 3], dtype=np.int64)
    staircase = np.array([0, 100, 100, 100, 100, 200, 200], dtype=np.int64)
    tokens, time = padding(weights), padding(weights, staircase)
    fewest, fastest = solve(tokens, 2).ladder(2), solve(time, 2).ladder(2)
    assert ladder_cost(tokens, fewest) < ladder_cost(tokens, fastest)
    assert ladder_cost(time, fewest) > ladder_cost(time, fastest)


def test_cost_is_convex_in_the_buckets_where_a_price_is_claimed() -> None:
    """Each further bucket saves no more than the one before, so the gain is the price."""
    rng = np.random.default_rng(3)
    priced = 0
    for turn in range(300):
        problem = random_problem(rng, int(rng.integers(3, 25)), plain=turn % 2 == 0)
        if not has_price(problem):
            continue
        frontier = solve(problem, 10)
        costs = [c for c in frontier.exact_costs_ns[1:] if c is not None]
        gains = [a - b for a, b in pairwise(costs)]
        assert gains == sorted(gains, reverse=True)
        first = next((k for k in range(1, 10) if frontier.exact_cost(k) is not None), 10)
        assert [price(frontier, first + i) for i in range(len(gains))] == gains
        priced += len(gains)
    assert priced > 300


def some_problems() -> list[LadderProblem]:
    """Twenty-five problems of every kind on 12 sizes."""
    rng = np.random.default_rng(11)
    return [random_problem(rng, 12) for _ in range(25)]


def test_scaling_all_times_scales_the_optimum() -> None:
    """Seven times the replay, eager and charge times give seven times the least cost."""
    for problem in some_problems():
        scaled = replace(
            problem,
            replay_ns=7 * problem.replay_ns,
            eager_ns=7 * problem.eager_ns,
            charge_ns=7 * problem.charge_ns,
        )
        costs = solve(problem, 6).exact_costs_ns
        assert solve(scaled, 6).exact_costs_ns == tuple(c if c is None else 7 * c for c in costs)


def test_scaling_the_traffic_scales_the_optimum_without_charges() -> None:
    """Three times the steps of each size give three times the least cost."""
    for given in some_problems():
        problem = replace(given, charge_ns=np.zeros_like(given.charge_ns))
        tripled = replace(problem, weights=3 * problem.weights, eager_ns=3 * problem.eager_ns)
        costs = solve(problem, 6).exact_costs_ns
        assert solve(tripled, 6).exact_costs_ns == tuple(c if c is None else 3 * c for c in costs)


def test_freedom_never_costs() -> None:
    """More buckets at most, every size allowed, or a choice per size: never a dearer optimum."""
    for problem in some_problems():
        costs = [c for c in (solve(problem, 8).best_cost(k) for k in range(9)) if c is not None]
        assert costs == sorted(costs, reverse=True)
        everywhere = np.ones_like(problem.allowed)
        for freer in (
            replace(problem, allowed=everywhere, tops=problem.tops & problem.allowed),
            replace(problem, required=()),
            replace(problem, tops=everywhere),
            replace(problem, eager_if_cheaper=True),
        ):
            before, after = solve(problem, 8).best_cost(8), solve(freer, 8).best_cost(8)
            assert before is None or (after is not None and after <= before)


def test_a_guard_that_admits_all_is_no_guard() -> None:
    """A ratio of N sends no size to eager."""
    for problem in some_problems():
        free, guarded = replace(problem, max_ratio=None), replace(problem, max_ratio=Fraction(12))
        assert solve(free, 6).exact_costs_ns == solve(guarded, 6).exact_costs_ns


def test_hulls_stay_exact_up_to_the_bound_of_their_floats() -> None:
    """Slopes that differ by one part in 2**50 are told apart: hull and band agree."""
    rng = np.random.default_rng(5)
    for largest in (40, 90):
        weights = rng.integers(0, 2**17, largest + 1)
        weights[0] = 0
        replay = 2**26 + np.cumsum(rng.integers(0, 2, largest + 1))
        lattice = Lattice.of(padding(weights, replay))
        hull, dense = (solve_by(lattice, 12, path) for path in (Path.HULL, Path.DENSE))
        assert np.array_equal(hull.layers.potentials, dense.layers.potentials)


def test_beyond_the_bound_of_floats_the_band_is_exact() -> None:
    """Costs near 2**58 are summed without rounding."""
    problem = build([2**20, 1, 2**20], [2**36, 2**36 + 1, 2**37], [0, 0, 0], tops={3})
    lattice = Lattice.of(problem)
    assert solve(problem, 2).exact_costs_ns == solve_by(lattice, 2, Path.DENSE).exact_costs_ns
    assert solve(problem, 2).exact_cost(2) == 2**56 + 2**57 + 2**36 + 2**20 + 1


def test_the_worst_case_of_peeling_is_solved_too() -> None:
    """A deep last point costs a hull one point a round: monotone minima take over, exactly."""
    positions = np.arange(1000, dtype=np.int64)
    heights = positions * positions
    heights[-1] = -(10**9)
    slopes = np.arange(0, 3000, 7, dtype=np.int64)
    wanted = np.argmin(heights - slopes[:, None] * positions, axis=1)
    assert np.array_equal(leftmost_minimisers(positions, heights, slopes), wanted)


def test_hulls_and_bands_find_the_leftmost_minimum_of_any_points() -> None:
    """Ties, equal positions and falling heights included, and for rows with a band of columns."""
    rng = np.random.default_rng(13)
    for _ in range(300):
        columns, rows = (int(n) for n in rng.integers(1, 30, 2))
        positions = np.sort(rng.integers(0, 15, columns))
        heights = rng.integers(-20, 20, columns)
        slopes = np.sort(rng.integers(0, 12, rows))
        matrix = heights - slopes[:, None] * positions
        hull = leftmost_minimisers(positions, heights, slopes)
        assert np.array_equal(hull, matrix.argmin(axis=1))
        low = np.sort(rng.integers(0, columns, rows))
        high = np.maximum(low, np.sort(rng.integers(0, columns, rows)))
        at = np.arange(columns)
        outside = (at < low[:, None]) | (at > high[:, None])
        wanted = np.where(outside, 10**9, matrix).argmin(axis=1)
        assert np.array_equal(row_minima(Band(low, high, slopes), heights, positions), wanted)
