"""That potentials are least costs: verified by all pairs, or in linear time by rows.

Each potential must be attained by a predecessor and be a lower bound over all of them.
``Proof.PAIRS`` looks at all pairs. ``Proof.ROWS`` takes linear time where
costs have the product form that it verifies first: buckets that do not get cheaper with size,
and in bucket j exactly the sizes up to some h(j), non-decreasing in j, run eager. Then
predecessors below h(j) need only a running minimum of d[k, i] - E_i, and the others form the
matrix A(j, i) = d[k, i] + c_j (W_j - W_i) on the band low(j) <= i < j, low non-decreasing.

Claim: let q(j), the parents, be non-decreasing over the rows, and for each column i let
A(m, i) >= A(m, q(m)) hold in the last row m with q(m) < i and in the first row m with q(m) > i,
where (m, i) is in the band. Then q(j) is a minimum of row j, for all j.
Proof. Take i > q(j) in the band of row j, and let m >= j be the last row with q(m) < i. Both
i and q(m) are in the bands of rows j and m: low(j) <= q(j) <= q(m) < i < j <= m and
low(m) <= q(m). A is Monge there, as (c_m - c_j)(W_i - W_q(m)) >= 0, that is
A(j, i) - A(j, q(m)) >= A(m, i) - A(m, q(m)) >= 0. So A(j, i) >= A(j, q(m)) with
q(j) <= q(m) < i; repeat with q(m) for i until q(j) is reached. The case i < q(j) mirrors it with
the first row m <= j that has q(m) > i: low(m) <= low(j) <= i < q(m) < m and q(m) <= q(j).
Columns that k buckets cannot reach, and rows that have no reachable column in their band, are
left out of A; a submatrix of a Monge matrix is Monge.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simcg.arrays import Bools, Ints
from simcg.optimize.evidence import NO_PARENT, UNREACHABLE, Certificate, reject
from simcg.optimize.problem import LadderProblem


class View:
    """Positions, sums and limits, derived from the problem for the checker alone."""

    def __init__(self, problem: LadderProblem) -> None:
        self.problem = problem
        allowed = [0, *(n for n in np.nonzero(problem.allowed)[0].tolist() if n > 0)]
        self.sizes = np.array(allowed, dtype=np.int64)
        self.steps_upto = np.zeros(len(problem.weights), dtype=np.int64)
        self.eager_upto = np.zeros(len(problem.weights), dtype=np.int64)
        np.cumsum(problem.weights[1:], out=self.steps_upto[1:])
        np.cumsum(problem.eager_ns[1:], out=self.eager_upto[1:])
        self.steps = self.steps_upto[self.sizes]
        self.eager = self.eager_upto[self.sizes]
        self.replay = problem.replay_ns[self.sizes]
        self.charge = problem.charge_ns[self.sizes]
        # the lowest predecessor of each row: a position that holds a required size ends a segment
        self.segments = [0, *(allowed.index(size) for size in problem.required)]
        self.floor = np.zeros(len(allowed), dtype=np.int64)
        for start in self.segments:
            self.floor[start + 1 :] = start


def spent_in(problem: LadderProblem, below: int, bucket: int) -> Ints:
    """Time of all steps of each size below+1..bucket in that bucket, by the rules."""
    sizes = np.arange(below + 1, bucket + 1, dtype=np.int64)
    eager = problem.eager_ns[below + 1 : bucket + 1]
    replayed = problem.weights[below + 1 : bucket + 1] * problem.replay_ns[bucket]
    runs_eager = np.zeros(len(sizes), dtype=np.bool_)
    if problem.max_ratio is not None:
        ratio = problem.max_ratio
        runs_eager |= bucket * ratio.denominator > sizes * ratio.numerator
    if problem.eager_if_cheaper:
        runs_eager |= eager < replayed
    return np.where(runs_eager, eager, replayed)


def check_by_pairs(view: View, certificate: Certificate) -> None:
    """Every potential against every predecessor, with costs taken size by size."""
    below, above = certificate.potentials[:-1], certificate.potentials[1:]
    for row in range(1, len(view.sizes)):
        first = int(view.floor[row])
        spent = spent_in(view.problem, int(view.sizes[first]), int(view.sizes[row]))
        # cost of the sizes above each predecessor: sums from the right
        from_right = np.cumsum(spent[::-1])[::-1]
        offsets = view.sizes[first:row] - view.sizes[first]
        edge = from_right[offsets] + view.charge[row]
        sources, parents = below[:, first:row], certificate.parents[1:, row]
        reached = np.any(sources != UNREACHABLE, axis=1)
        bounds = np.where(sources == UNREACHABLE, UNREACHABLE, sources + edge)
        if np.any(above[:, row, None] > bounds):
            reject(f"a potential of size {view.sizes[row]} is no lower bound")
        if np.any((parents != NO_PARENT) != reached):
            reject(f"the parents of size {view.sizes[row]} do not match what is reachable")
        inside = (parents >= first) & (parents < row)
        if not np.all(inside[reached]):
            reject(f"a parent of size {view.sizes[row]} is no predecessor")
        layer = np.flatnonzero(reached)
        attained = bounds[layer, parents[layer] - first]
        if np.any(attained != above[layer, row]) or np.any(above[~reached, row] != UNREACHABLE):
            reject(f"a potential of size {view.sizes[row]} is not attained")


def _eager_prefix(view: View) -> Ints:
    """h(j): the bucket at j serves exactly the sizes above h(j); rejects other cost forms."""
    problem = view.problem
    if np.any(view.replay[2:] < view.replay[1:-1]):
        reject("the proof by rows needs replay costs that do not fall")
    prefix = np.zeros(len(view.sizes), dtype=np.int64)
    if problem.max_ratio is not None:
        # n is refused iff n * numerator < size * denominator
        ratio = problem.max_ratio
        prefix[1:] = (view.sizes[1:] * ratio.denominator - 1) // ratio.numerator
    if not problem.eager_if_cheaper:
        return prefix
    weights, eager = problem.weights[1:], problem.eager_ns[1:]
    counted = (weights > 0) | (eager != 0)
    # the least replay cost at which eager is strictly cheaper
    onset = eager // np.maximum(weights, 1) + 1
    onset = np.where(weights > 0, onset, np.where(eager < 0, -UNREACHABLE, UNREACHABLE))[counted]
    if np.any(onset[1:] < onset[:-1]):
        reject("the proof by rows needs eager costs per step that do not fall")
    # a size that costs nothing both ways counts with the size below it
    ends = np.append(np.flatnonzero(counted), len(counted))
    cheaper = ends[np.searchsorted(onset, view.replay, side="right")]
    return np.asarray(np.minimum(np.maximum(prefix, cheaper), view.sizes), dtype=np.int64)


def check_by_rows(view: View, certificate: Certificate) -> None:
    """Each layer by a running minimum and the local test of the claim above."""
    prefix = _eager_prefix(view)
    low = np.maximum(np.searchsorted(view.sizes, prefix, side="left"), view.floor)
    steps_h, eager_h = view.steps_upto[prefix], view.eager_upto[prefix]
    outer = eager_h + view.replay * (view.steps - steps_h) + view.charge
    potentials, parents = certificate.potentials, certificate.parents
    for k in range(len(potentials) - 1):
        banded = _band_minima(view, low, potentials[k], parents[k + 1])
        least = _running_least(view, low, potentials[k])
        least = np.where(least < UNREACHABLE // 2, least + outer, UNREACHABLE)
        wrong = potentials[k + 1] != np.minimum(least, banded)
        if np.any(wrong):
            size = view.sizes[np.argmax(wrong)]
            reject(f"the potential of size {size} with {k + 1} buckets is not the least cost")


def _running_least(view: View, low: Ints, below: Ints) -> Ints:
    """For each row the least d - E over predecessors floor..low-1; large where there is none."""
    least = np.full(len(below), UNREACHABLE, dtype=np.int64)
    gains = np.where(below == UNREACHABLE, UNREACHABLE, below - view.eager)
    for start, stop in pairwise([*view.segments, len(below) - 1]):
        if start < stop:
            best = np.minimum.accumulate(gains[start:stop])
            rows = np.arange(start + 1, stop + 1)
            rows = rows[low[rows] > start]
            least[rows] = best[low[rows] - 1 - start]
    return least


def _band_minima(view: View, low: Ints, below: Ints, parents: NDArray[np.int32]) -> Ints:
    """The minimum of each row's band, UNREACHABLE where empty; rejects parents that fail."""
    reached: Bools = below != UNREACHABLE
    has_parent = parents != NO_PARENT
    rows, others = np.flatnonzero(has_parent), np.flatnonzero(~has_parent)
    columns = np.flatnonzero(reached)
    if np.any(np.searchsorted(columns, low[others]) < np.searchsorted(columns, others)):
        reject("a row that can be reached has no parent")
    minima = np.full(len(below), UNREACHABLE, dtype=np.int64)
    if not len(rows):
        return minima
    best = parents[rows].astype(np.int64)
    if np.any(best < low[rows]) or np.any(best >= rows) or not np.all(reached[best]):
        reject("a parent is no predecessor in the row's band")
    if np.any(best[1:] < best[:-1]):
        reject("the parents are not in ascending order")
    slope = view.replay[rows]
    least = below[best] - slope * view.steps[best]
    minima[rows] = least + slope * view.steps[rows] + view.charge[rows]
    if not _passes_locally(rows, low[rows], best, (slope, least), (below, view.steps)):
        reject("a parent does not attain the minimum of its row")
    return minima


def _passes_locally(
    rows: Ints, first: Ints, best: Ints, by_row: tuple[Ints, Ints], by_column: tuple[Ints, Ints]
) -> bool:
    """The local test of the claim above: each column in the two rows next to it.

    ``by_row``: slope and least value; ``by_column``: height and position. A column that cannot be
    reached is so high that it passes.
    """
    slope, least = np.append(by_row[0], 0), np.append(by_row[1], -UNREACHABLE)
    height, position = by_column
    columns = np.arange(len(height))
    parents_upto = np.cumsum(np.bincount(best, minlength=len(height)))
    # where there is no such row the index, -1 or len(rows), meets the entry appended above
    lower = np.append(0, parents_upto[:-1]) - 1
    below_least = height - slope[lower] * position < least[lower]
    # there columns are above the row's first: it is at most the parent, which is lower still
    if np.any(below_least & (columns < np.append(rows, 0)[lower])):
        return False
    higher = parents_upto
    below_least = height - slope[higher] * position < least[higher]
    # there columns are below the row: its parent is higher than they are
    return not np.any(below_least & (columns >= np.append(first, 0)[higher]))
