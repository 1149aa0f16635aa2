"""The ladder problem as a shortest path: candidate sizes, and what an edge between two costs.

Positions count the candidates: 0 is the start (size 0), position j >= 1 the j-th allowed size.
An edge (i, j] makes j the bucket of the sizes above candidate i up to candidate j. A ladder of
k buckets is a path of k edges from position 0 to its top, and then a tail that runs eager.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Ints
from simcg.optimize.problem import LadderProblem

ALWAYS_EAGER = -(2**62)
NEVER_EAGER = 2**62


@dataclass(frozen=True, slots=True)
class Lattice:
    """Columns over positions 0..M, from a problem: see ``Lattice.of``.

    ``sizes``: candidate sizes.  ``steps``: steps of at most that size.  ``eager_ns``: all of
    those run eager.  ``replay_ns``, ``charge_ns``: of the bucket (0 at the start).
    ``floor``: the lowest predecessor, since an edge may not jump over a required size.
    ``split``: in the bucket at j exactly the sizes n <= split[j] run eager; None where the
    sizes that run eager are no such prefix, or where a larger bucket can be cheaper.
    """

    problem: LadderProblem
    sizes: Ints
    steps: Ints
    eager_ns: Ints
    replay_ns: Ints
    charge_ns: Ints
    floor: Ints
    split: Ints | None

    @staticmethod
    def of(problem: LadderProblem) -> Lattice:
        """The candidates of a problem and their prefix sums, in O(N)."""
        sizes = np.concatenate(([0], 1 + np.flatnonzero(problem.allowed[1:]))).astype(np.int64)
        replay_ns = problem.replay_ns[sizes]
        charge_ns = problem.charge_ns[sizes]
        replay_ns[0] = charge_ns[0] = 0
        required = np.array([0, *problem.required], dtype=np.int64)
        last_required = required[np.maximum(np.searchsorted(required, sizes) - 1, 0)]
        return Lattice(
            problem=problem,
            sizes=sizes,
            steps=prefix_sums(problem.weights)[sizes],
            eager_ns=prefix_sums(problem.eager_ns)[sizes],
            replay_ns=replay_ns,
            charge_ns=charge_ns,
            floor=np.searchsorted(sizes, last_required).astype(np.int64),
            split=_splits(problem, sizes, replay_ns),
        )

    @property
    def top(self) -> int:
        """M, the position of the largest candidate: no ladder has more buckets."""
        return len(self.sizes) - 1


def prefix_sums(column: Ints) -> Ints:
    """Sums over n = 1..N as an array over n = 0..N."""
    sums: Ints = np.cumsum(column)
    return np.asarray(sums - column[0], dtype=np.int64)


def edge_costs(lattice: Lattice, target: int) -> Ints:
    """Cost of the edges (i, target] for i = floor..target-1, size by size as the rules say.

    It holds for every problem and takes O(N); the fast paths use closed forms instead.
    """
    problem, size = lattice.problem, int(lattice.sizes[target])
    tokens = slice(1, size + 1)
    spent_ns = problem.weights[tokens] * lattice.replay_ns[target]
    eager_ns = problem.eager_ns[tokens]
    if problem.eager_if_cheaper:
        spent_ns = np.minimum(spent_ns, eager_ns)
    refused = guard_split(problem, lattice.sizes[target : target + 1])[0]
    spent_ns[:refused] = eager_ns[:refused]
    upto = np.concatenate(([0], np.cumsum(spent_ns)))
    sources = lattice.sizes[lattice.floor[target] : target]
    return np.asarray(upto[size] - upto[sources] + lattice.charge_ns[target], dtype=np.int64)


def guard_split(problem: LadderProblem, sizes: Ints) -> Ints:
    """For buckets of these sizes, the largest n that the hard guard sends to eager (0: none)."""
    if problem.max_ratio is None:
        return np.zeros_like(sizes)
    least = -(-sizes * problem.max_ratio.denominator // problem.max_ratio.numerator)
    return np.maximum(least - 1, 0)


def eager_thresholds(problem: LadderProblem) -> Ints:
    """For each n = 1..N the number that replay_ns must exceed for eager to be cheaper.

    A size with neither steps nor eager cost costs 0 both ways: it takes its left neighbour's.
    """
    weights, eager_ns = problem.weights[1:], problem.eager_ns[1:]
    no_steps = np.where(eager_ns < 0, ALWAYS_EAGER, NEVER_EAGER)
    thresholds = np.where(weights > 0, eager_ns // np.maximum(weights, 1), no_steps)
    neutral = (weights == 0) & (eager_ns == 0)
    source = np.where(neutral, -1, np.arange(len(weights)))
    source = np.maximum.accumulate(source)
    return np.where(source < 0, ALWAYS_EAGER, thresholds[np.maximum(source, 0)])


def _splits(problem: LadderProblem, sizes: Ints, replay_ns: Ints) -> Ints | None:
    """``Lattice.split``, non-decreasing over positions."""
    if np.any(np.diff(replay_ns[1:]) < 0):
        return None
    split = guard_split(problem, sizes)
    if problem.eager_if_cheaper:
        thresholds = eager_thresholds(problem)
        if np.any(np.diff(thresholds) < 0):
            return None
        cheaper = np.searchsorted(thresholds, replay_ns, side="left").astype(np.int64)
        split = np.maximum(split, np.minimum(cheaper, sizes))
    return split
