"""How long exact ladders take, beside a textbook recurrence and an integer program.

Run: ``python -m benchmarks.bench_ladder``. The traffic is a Poisson draw with means in
proportion to 1/n, the time per step a noisy staircase made monotone, both from a fixed seed.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import scipy
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from simcg.optimize.certificate import check_certificate
from simcg.optimize.frontier import Frontier
from simcg.optimize.problem import LadderProblem
from simcg.optimize.solve import solve

SEED = 20260101
STEPS = 1_000_000
RUNS = 7
T = TypeVar("T")


def realistic(
    largest: int, *, max_ratio: Fraction | None = None, eager_if_cheaper: bool = False
) -> LadderProblem:
    """A million steps of 1..N tokens; the ceiling is N and every size may be captured."""
    rng = np.random.default_rng(SEED)
    sizes = np.arange(largest + 1)
    means = np.where(sizes > 0, 1 / np.maximum(sizes, 1), 0)
    weights = rng.poisson(STEPS * means / means.sum()).astype(np.int64)
    # a tile of 64 tokens costs the same however full it is; neighbours differ by 5 % noise
    noise = 1 + 0.05 * rng.standard_normal(largest + 1)
    work_ns = (sizes + 63) // 64 * 64 * 2300 * noise
    replay_ns = np.maximum.accumulate((2_000_000 + work_ns).astype(np.int64))
    # launching kernel by kernel costs more, and no padding: cheaper for some large steps
    eager_ns = weights * (6_000_000 + 2200 * sizes)
    return LadderProblem(
        weights=weights,
        replay_ns=replay_ns,
        eager_ns=eager_ns,
        charge_ns=np.zeros_like(weights),
        allowed=sizes > 0,
        tops=sizes == largest,
        max_ratio=max_ratio,
        eager_if_cheaper=eager_if_cheaper,
    )


def textbook(problem: LadderProblem, buckets: int) -> int:
    """Pure padding by f'(j) = min over i < j of f(i) + c_j (W_j - W_i), one row at a time."""
    replay_ns, upto = problem.replay_ns, np.cumsum(problem.weights)
    layer = np.full(len(upto), 2**61, dtype=np.int64)
    layer[0] = 0
    for _ in range(buckets):
        following = np.full(len(upto), 2**61, dtype=np.int64)
        for j in range(1, len(upto)):
            following[j] = np.min(layer[:j] + replay_ns[j] * (upto[j] - upto[:j]))
        layer = following
    return int(layer[-1])


def highs(problem: LadderProblem, buckets: int, *, whole: bool) -> int:
    """Pure padding as a shortest path of exactly K edges, solved by HiGHS in whole numbers or not.

    Pure padding is convex in K, so the linear relaxation has no gap, only rounding errors.
    """
    largest = problem.max_tokens
    low, high = np.triu_indices(largest + 1, k=1)
    upto = np.cumsum(problem.weights)
    cost = problem.replay_ns[high] * (upto[high] - upto[low])
    scale = float(cost.max())
    edges = np.arange(len(low))
    # flow out of node i minus flow in, for all nodes but the last; and the number of edges
    into = high < largest
    rows = np.concatenate((low, high[into], np.full(len(low), largest)))
    columns = np.concatenate((edges, edges[into], edges))
    values = np.concatenate((np.ones(len(low)), -np.ones(int(into.sum())), np.ones(len(low))))
    matrix = coo_array((values, (rows, columns)), shape=(largest + 1, len(low))).tocsr()
    right = np.zeros(largest + 1)
    right[0], right[-1] = 1, buckets
    result = milp(
        cost / scale,
        constraints=LinearConstraint(matrix, right, right),
        bounds=Bounds(0, 1),
        integrality=np.full(len(low), int(whole)),
    )
    if result.x is None:
        raise ValueError(result.message)
    return round(float(cost @ result.x))


def median_ms(call: Callable[[], T], runs: int = RUNS) -> tuple[float, T]:
    """Median wall time of the calls in ms, and the last result."""
    spent = []
    for _ in range(runs):
        start = time.perf_counter()
        result = call()
        spent.append(1000 * (time.perf_counter() - start))
    return statistics.median(spent), result


def row(what: str, milliseconds: float, remark: str = "") -> None:
    """One line of the table."""
    print(f"{what:<58} {milliseconds:>10.1f}  {remark}")


def machine() -> str:
    """The processor's name and the versions that matter."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    processor = f"{len(names)} x {names[0]}" if names else platform.processor()
    return (
        f"{processor}; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, SciPy {scipy.__version__}"
    )


def exact_cost(frontier: Frontier, buckets: int) -> int:
    """The least cost with exactly that many buckets, which these problems have."""
    cost = frontier.exact_cost(buckets)
    if cost is None:
        raise ValueError(f"no ladder of {buckets} buckets")
    return cost


def bench_solver() -> None:
    """Solve times, and the time to check the certificate of 58 buckets."""
    two = Fraction(2)
    cases = (
        ("pure padding", realistic(8192), 64),
        ("hard guard 2x", realistic(8192, max_ratio=two), 64),
        ("min(graph, eager)", realistic(8192, eager_if_cheaper=True), 64),
        ("min(graph, eager), guard 2x", realistic(8192, max_ratio=two, eager_if_cheaper=True), 64),
        ("pure padding", realistic(131_072), 16),
        ("pure padding", realistic(131_072), 64),
    )
    for name, problem, buckets in cases:
        size = f"N = {problem.max_tokens:,}"
        spent, frontier = median_ms(partial(solve, problem, buckets))
        row(f"solve, {name}, {size}, all K <= {buckets}", spent)
        claim = min(58, buckets - 1)
        ladder, cost = frontier.ladder(claim), exact_cost(frontier, claim)
        proof = frontier.certificate(claim, exactly=True)
        spent, _ = median_ms(partial(check_certificate, problem, ladder, cost, proof))
        row(f"  check its certificate, K = {claim}", spent, f"{proof.proof.value} proof")


def bench_peers() -> None:
    """The textbook recurrence and HiGHS on the same numbers, with their answers compared."""
    problem = realistic(8192)
    ours = solve(problem, 4)
    spent, cost = median_ms(partial(textbook, problem, 4), runs=1)
    same = "same cost" if cost == exact_cost(ours, 4) else "DIFFERENT COST"
    row(
        "textbook O(K N^2) in NumPy, N = 8,192, K = 4 only", spent, f"{same}; K = 64 is 16 times it"
    )
    for largest, whole in ((128, True), (256, True), (256, False), (512, False)):
        problem = realistic(largest)
        kind = "integer" if whole else "linear"
        spent, cost = median_ms(partial(highs, problem, 8, whole=whole), runs=1)
        error = abs(cost / exact_cost(solve(problem, 8), 8) - 1)
        row(f"HiGHS, {kind} program, N = {largest}, K = 8 only", spent, f"cost within {error:.0e}")
        spent, _ = median_ms(partial(solve, problem, 8))
        row(f"  solve, pure padding, N = {largest}, all K <= 8", spent)


if __name__ == "__main__":
    print(machine())
    print(f"{'medians of ' + str(RUNS) + ' runs':<58} {'ms':>10}")
    bench_solver()
    bench_peers()
