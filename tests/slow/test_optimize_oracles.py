"""Two thousand random problems against brute force and the textbook recurrence; HiGHS besides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from simcg.optimize.certificate import CertificateError, check_certificate
from simcg.optimize.evidence import UNREACHABLE
from simcg.optimize.problem import LadderProblem
from simcg.optimize.solve import solve
from tests.ladder_problems import (
    brute_force,
    build,
    check_frontier,
    every_path,
    random_problem,
    textbook,
)


@pytest.mark.parametrize("largest", range(1, 11))
def test_every_path_equals_brute_force(largest: int) -> None:
    """40 to 350 problems for each N up to 10: costs, ladders and certificates of all K."""
    rng = np.random.default_rng(1000 + largest)
    for turn in range(350 if largest < 4 else 150 if largest < 6 else 75 if largest < 8 else 40):
        problem = random_problem(rng, largest, plain=turn % 4 == 0)
        want = brute_force(problem)
        for frontier in every_path(problem, largest):
            check_frontier(problem, frontier, want)


@pytest.mark.parametrize("seed", range(4))
def test_every_path_equals_the_textbook_recurrence(seed: int) -> None:
    """80 problems of 20 to 120 sizes, all paths against plain Python."""
    rng = np.random.default_rng(2000 + seed)
    for turn in range(80):
        problem = random_problem(
            rng, int(rng.integers(20, 41 if turn % 10 else 121)), plain=turn % 4 == 0
        )
        want = textbook(problem, 9)
        for frontier in every_path(problem, 9):
            check_frontier(problem, frontier, want)


def test_the_paths_agree_on_a_thousand_sizes() -> None:
    """Hull, band and dense give the same potentials, position by position."""
    rng = np.random.default_rng(3000)
    for turn in range(12):
        problem = random_problem(rng, int(rng.integers(400, 1001)), plain=turn % 2 == 0)
        first, *others = every_path(problem, 20)
        for other in others:
            assert np.array_equal(first.layers.potentials, other.layers.potentials)


def test_changed_parents_pass_only_where_they_attain_the_same_value() -> None:
    """A parent that the checker accepts in place of another gives the same frontier costs."""
    rng = np.random.default_rng(4000)
    rejected = 0
    for _ in range(200):
        problem = random_problem(rng, int(rng.integers(3, 16)))
        for frontier in every_path(problem, 4):
            cost = frontier.best_cost(4)
            if cost is None:
                continue
            ladder, certificate = frontier.best_ladder(4), frontier.certificate(4)
            parents = certificate.parents.copy()
            layer, row = (int(rng.integers(1, extent)) for extent in parents.shape)
            held, moved = int(parents[layer, row]), int(rng.integers(-1, row))
            parents[layer, row] = moved
            below = certificate.potentials[layer - 1]
            try:
                check_certificate(problem, ladder, cost, replace(certificate, parents=parents))
            except CertificateError:
                rejected += 1
            else:
                assert held == moved or (below[moved] != UNREACHABLE and held >= 0)
    assert rejected > 100


def integer_program(problem: LadderProblem, buckets: int) -> int:
    """p-median on a line: size n is served by an open bucket T >= n; exactly K open, N among them.

    x[n, T] serves, y[T] opens; every problem here is pure padding with the ceiling N.
    """
    largest = problem.max_tokens
    pairs = [(n, t) for n in range(1, largest + 1) for t in range(n, largest + 1)]
    column = {pair: i for i, pair in enumerate(pairs)}
    opened = [len(pairs) + t - 1 for t in range(1, largest + 1)]
    width = len(pairs) + largest
    served = np.zeros((largest, width))
    only_open = np.zeros((len(pairs), width))
    for (n, t), i in column.items():
        served[n - 1, i] = 1
        only_open[i, i], only_open[i, opened[t - 1]] = 1, -1
    count = np.zeros((1, width))
    count[0, opened] = 1
    cost = np.zeros(width)
    for (n, t), i in column.items():
        cost[i] = float(problem.weights[n] * problem.replay_ns[t])
    least = np.zeros(width)
    least[opened[-1]] = 1
    result = milp(
        cost,
        constraints=[
            LinearConstraint(served, 1, 1),
            LinearConstraint(only_open, -np.inf, 0),
            LinearConstraint(count, buckets, buckets),
        ],
        bounds=Bounds(least, 1),
        integrality=(np.arange(width) >= len(pairs)).astype(np.int64),
    )
    assert result.fun is not None
    return round(result.fun)


def test_an_integer_program_finds_the_same_optimum() -> None:
    """HiGHS on the p-median formulation agrees on random padding problems."""
    rng = np.random.default_rng(5000)
    for _ in range(6):
        largest = int(rng.integers(6, 15))
        weights = rng.integers(0, 40, largest).tolist()
        replay = np.sort(rng.integers(0, 50, largest)).tolist()
        problem = build(weights, replay, [0] * largest, tops={largest})
        frontier = solve(problem, 4)
        for k in (1, 2, 4):
            assert frontier.exact_cost(k) == integer_program(problem, k)
