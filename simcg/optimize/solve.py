"""The exact optimum of a ladder problem, for every number of buckets at once."""

from __future__ import annotations

import numpy as np

from simcg.errors import require
from simcg.optimize.evidence import UNREACHABLE, Proof
from simcg.optimize.frontier import Frontier
from simcg.optimize.lattice import Lattice
from simcg.optimize.layers import Layers, Path, choose_path, solve_layers
from simcg.optimize.problem import LadderProblem


def solve(problem: LadderProblem, max_buckets: int) -> Frontier:
    """Least cost and best ladder for exactly and for at most k buckets, k = 0..max_buckets.

    Each size n runs in the smallest bucket T >= n; it runs eager above the top, where the hard
    guard refuses it, and, under ``eager_if_cheaper``, where that is cheaper. The optimum is exact
    in integer ns. Raises ``InputError`` for a negative ``max_buckets``.
    """
    lattice = Lattice.of(problem)
    return solve_by(lattice, max_buckets, choose_path(lattice))


def solve_by(lattice: Lattice, max_buckets: int, path: Path) -> Frontier:
    """``solve`` by a given path, which must apply (``choose_path`` says when)."""
    require(max_buckets >= 0, "solve", "max_buckets", max_buckets, "an integer >= 0")
    layers = solve_layers(lattice, max_buckets, path)
    costs, ceilings = _with_tails(lattice, layers)
    missing = [None] * (max_buckets + 1 - len(costs))
    proof = Proof.PAIRS if path is Path.DENSE else Proof.ROWS
    return Frontier(lattice, layers, proof, (*costs, *missing), (*ceilings, *missing))


def _with_tails(lattice: Lattice, layers: Layers) -> tuple[list[int | None], list[int | None]]:
    """Least cost and its ceiling per layer, the eager tail above the ceiling included."""
    problem = lattice.problem
    total_eager_ns = int(problem.eager_ns[1:].sum())
    least_top = problem.required[-1] if problem.required else 1
    usable = problem.tops[lattice.sizes] & (lattice.sizes >= least_top)
    tops = np.flatnonzero(usable)
    costs: list[int | None] = [None if problem.required else total_eager_ns]
    ceilings: list[int | None] = [None if problem.required else 0]
    for buckets, layer in enumerate(layers.potentials[1:], 1):
        within = tops[lattice.sizes[tops] <= problem.largest_top(buckets)]
        reached = within[layer[within] < UNREACHABLE]
        totals = layer[reached] + (total_eager_ns - lattice.eager_ns[reached])
        best = int(np.argmin(totals)) if len(reached) else None
        costs.append(None if best is None else int(totals[best]))
        ceilings.append(None if best is None else int(lattice.sizes[reached[best]]))
    return costs, ceilings
