"""Random ladder problems, slow plain oracles that share nothing with the solver, and its paths."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from typing import TypedDict, Unpack

import numpy as np

from simcg.arrays import Bools, Ints
from simcg.optimize.certificate import check_certificate
from simcg.optimize.evaluate import ladder_cost
from simcg.optimize.frontier import Frontier
from simcg.optimize.lattice import Lattice
from simcg.optimize.layers import Path, choose_path
from simcg.optimize.problem import LadderProblem
from simcg.optimize.solve import solve_by

RATIOS = (None, Fraction(2), Fraction(3, 2), Fraction(1), Fraction(7, 3), Fraction(50))


class Rules(TypedDict, total=False):
    """Everything about a problem that most tests leave at its default."""

    charge: list[int]
    allowed: set[int]
    tops: set[int]
    required: tuple[int, ...]
    max_ratio: Fraction | None
    eager_if_cheaper: bool
    top_by_count: tuple[int, ...]


def build(
    weights: list[int], replay: list[int], eager: list[int], **rules: Unpack[Rules]
) -> LadderProblem:
    """A problem from lists over n = 1..N; ``eager`` is per size, already times the weight."""
    largest = len(weights)
    every = set(range(1, largest + 1))

    def column(values: list[int]) -> Ints:
        return np.array([0, *values], dtype=np.int64)

    def mask(sizes: set[int]) -> Bools:
        return np.array([n in sizes for n in range(largest + 1)], dtype=np.bool_)

    return LadderProblem(
        weights=column(weights),
        replay_ns=column(replay),
        eager_ns=column(eager),
        charge_ns=column(rules.get("charge", [0] * largest)),
        allowed=mask(rules.get("allowed", every)),
        tops=mask(rules.get("tops", every)),
        required=rules.get("required", ()),
        max_ratio=rules.get("max_ratio"),
        eager_if_cheaper=rules.get("eager_if_cheaper", False),
        top_by_count=rules.get("top_by_count", ()),
    )


def random_problem(rng: np.random.Generator, largest: int, *, plain: bool = False) -> LadderProblem:
    """Any mixture of rules, limits and shapes of cost; ``plain`` keeps to pure padding."""

    def flip(chance: float) -> bool:
        return bool(rng.random() < chance)

    scale = int(rng.choice([3, 12, 1000]))
    weights = rng.integers(0, scale, largest) * (rng.random(largest) < rng.choice([0.4, 1.0]))
    replay = rng.integers(0, scale, largest)
    if plain or flip(0.75):
        replay = np.sort(replay)
    per_step = rng.integers(0, 2 * scale, largest)
    if flip(0.6):
        per_step = np.sort(per_step)
    eager = weights * per_step
    if flip(0.3):
        eager = rng.integers(-scale, scale * scale, largest)
    sizes = np.arange(1, largest + 1)
    density = float(rng.choice([1.0, 0.6]))
    allowed = {int(n) for n in sizes if flip(density)} | {int(rng.integers(1, largest + 1))}
    tops = {max(allowed)} if flip(0.4) else {int(n) for n in sizes if flip(0.6)}
    charges = [0] * largest
    if flip(0.3):
        charges = rng.integers(0, scale * 3, largest).tolist()
    elif flip(0.2):
        charges = [int(rng.integers(0, scale * 3))] * largest
    required: tuple[int, ...] = ()
    if not plain and flip(0.3):
        count = min(len(allowed), int(rng.integers(1, 4)))
        required = tuple(sorted(rng.choice(sorted(allowed), count, replace=False).tolist()))
    ratio = RATIOS[int(rng.integers(len(RATIOS)))] if flip(0.6) else None
    by_count: tuple[int, ...] = ()
    if flip(0.2):  # as a memory limit has it: more buckets, a lower ceiling; then none at all
        falling = np.sort(rng.integers(0, largest + 1, int(rng.integers(1, largest + 1))))[::-1]
        by_count = (0, *falling.tolist())
    return build(
        weights.tolist(),
        replay.tolist(),
        eager.tolist(),
        charge=charges,
        allowed=allowed,
        tops=tops,
        required=required,
        max_ratio=None if plain else ratio,
        eager_if_cheaper=not plain and flip(0.4),
        top_by_count=by_count,
    )


def may_top(problem: LadderProblem, top: int, count: int) -> bool:
    """May a ladder of so many buckets end there?"""
    limits = problem.top_by_count
    fits = not limits or (count < len(limits) and top <= limits[count])
    return bool(problem.tops[top]) and fits


def size_cost(problem: LadderProblem, size: int, bucket: int | None) -> int:
    """Time of all steps of one size in a bucket (None: above the ceiling), from the rules."""
    eager = int(problem.eager_ns[size])
    if bucket is None:
        return eager
    if problem.max_ratio is not None and Fraction(bucket, size) > problem.max_ratio:
        return eager
    replayed = int(problem.weights[size]) * int(problem.replay_ns[bucket])
    return min(eager, replayed) if problem.eager_if_cheaper else replayed


def cost_of(problem: LadderProblem, ladder: tuple[int, ...]) -> int:
    """The cost of a ladder, size by size."""
    total = sum(int(problem.charge_ns[bucket]) for bucket in ladder)
    for size in range(1, problem.max_tokens + 1):
        bucket = next((b for b in ladder if b >= size), None)
        total += size_cost(problem, size, bucket)
    return total


def legal_ladders(problem: LadderProblem) -> Iterator[tuple[int, ...]]:
    """Every ladder that the problem's limits permit."""
    sizes = [n for n in range(1, problem.max_tokens + 1) if problem.allowed[n]]
    for count in range(len(sizes) + 1):
        for ladder in combinations(sizes, count):
            if set(problem.required) <= set(ladder) and (
                not ladder or may_top(problem, ladder[-1], count)
            ):
                yield ladder


def brute_force(problem: LadderProblem) -> list[int | None]:
    """The least cost with exactly k buckets for k = 0..N, over all ladders."""
    best: list[int | None] = [None] * (problem.max_tokens + 1)
    # a bucket's cost depends on the bucket below it only: tabulate once, add per ladder
    largest = problem.max_tokens
    edge = {
        (low, high): sum(size_cost(problem, n, high) for n in range(low + 1, high + 1))
        + int(problem.charge_ns[high])
        for high in range(1, largest + 1)
        for low in range(high)
    }
    tail = [sum(problem.eager_ns[low + 1 :].tolist()) for low in range(largest + 1)]
    for ladder in legal_ladders(problem):
        total, below = 0, 0
        for bucket in ladder:
            total += edge[below, bucket]
            below = bucket
        total += tail[below]
        known = best[len(ladder)]
        best[len(ladder)] = total if known is None else min(known, total)
    return best


def textbook(problem: LadderProblem, max_buckets: int) -> list[int | None]:
    """The least cost with exactly k buckets by the textbook recurrence, in plain Python."""
    largest = problem.max_tokens
    sizes = [0, *(n for n in range(1, largest + 1) if problem.allowed[n])]
    edge: dict[tuple[int, int], int] = {}
    for high in sizes[1:]:
        running = int(problem.charge_ns[high])
        for low in range(high - 1, -1, -1):
            running += size_cost(problem, low + 1, high)
            if any(low < must < high for must in problem.required):
                break
            edge[low, high] = running
    last = problem.required[-1] if problem.required else 0
    tail = {t: sum(problem.eager_ns[t + 1 :].tolist()) for t in sizes}
    layer: dict[int, int] = {0: 0}
    answer: list[int | None] = [None if problem.required else tail[0]]
    for count in range(1, max_buckets + 1):
        layer = {
            high: min(options)
            for high in sizes[1:]
            if (
                options := [
                    layer[low] + edge[low, high]
                    for low in sizes
                    if low < high and low in layer and (low, high) in edge
                ]
            )
        }
        ends = [layer[t] + tail[t] for t in layer if may_top(problem, t, count) and t >= last]
        answer.append(min(ends, default=None))
    return answer


def every_path(problem: LadderProblem, max_buckets: int) -> list[Frontier]:
    """The problem solved by each path that applies to it."""
    lattice = Lattice.of(problem)
    paths = list(Path)
    paths = paths[paths.index(choose_path(lattice)) :]
    return [solve_by(lattice, max_buckets, path) for path in paths]


def check_frontier(problem: LadderProblem, frontier: Frontier, want: list[int | None]) -> None:
    """The frontier has these costs, ladders that attain them, and certificates that hold."""
    assert list(frontier.exact_costs_ns) == want
    for k, cost in enumerate(want):
        known = [c for c in want[: k + 1] if c is not None]
        assert frontier.best_cost(k) == min(known, default=None)
        if cost is not None:
            ladder = frontier.ladder(k)
            assert len(ladder) == k
            assert (ladder[-1] if ladder else 0) == frontier.ceilings[k]
            assert ladder_cost(problem, ladder) == cost_of(problem, ladder) == cost
            check_certificate(problem, ladder, cost, frontier.certificate(k, exactly=True))
        if known:
            ladder = frontier.best_ladder(k)
            check_certificate(problem, ladder, min(known), frontier.certificate(k))
