"""All layers of the shortest path: the least cost with exactly k buckets and a given top.

f_0(0) = 0 and f_{k+1}(j) = charge(j) + min over floor(j) <= i < j of f_k(i) + cost(i, j]. Three
ways, one answer. With h the split of row j, W steps and E eager time up to a size,

    cost(i, j] = E_h - E_i + c_j (W_j - W_h)    for i < h    (a prefix minimum of f - E)
    cost(i, j] = c_j (W_j - W_i)                for i >= h   (a band, in product form)

- hull: no split, nothing required, one charge for all. The minimum may then run over ALL i:
  for i >= j replace the buckets from j up by j alone, which costs no more as c does not fall,
  and fill up with any free buckets below j, which costs no more either. The leftmost minimiser
  is below j, because some i < j attains the same value.
- band: a split exists. Both ends of the band [max(h, floor), j) are non-decreasing.
- dense: any costs at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from simcg.arrays import Bools, Ints
from simcg.optimize.evidence import NO_PARENT, UNREACHABLE
from simcg.optimize.hull import MAX_EXACT, leftmost_minimisers
from simcg.optimize.lattice import Lattice, edge_costs, prefix_sums
from simcg.optimize.monotone import Band, row_minima
from simcg.optimize.problem import COST_LIMIT_NS


class Path(Enum):
    """The way to solve the layers; ``choose_path`` picks the first that applies."""

    HULL = "hull"
    BAND = "band"
    DENSE = "dense"


@dataclass(frozen=True, slots=True)
class Layers:
    """``potentials[k, j]``: least cost in ns with exactly k buckets and top j, or UNREACHABLE.

    ``parents[k, j]``: a best predecessor at or above the split of row j (for ``Path.DENSE``
    any predecessor), NO_PARENT where none is reachable.
    """

    potentials: Ints
    parents: NDArray[np.int32]

    @staticmethod
    def empty(num_layers: int, num_positions: int) -> Layers:
        """Layer 0 solved, all others unreachable."""
        potentials = np.full((num_layers, num_positions), UNREACHABLE, dtype=np.int64)
        potentials[0, 0] = 0
        return Layers(potentials, np.full(potentials.shape, NO_PARENT, dtype=np.int32))


def choose_path(lattice: Lattice) -> Path:
    """The fastest exact path for this problem."""
    if lattice.split is None:
        return Path.DENSE
    charges = lattice.charge_ns[1:]
    plain = not (lattice.split.any() or lattice.floor.any() or np.any(charges != charges[:1]))
    return Path.HULL if plain and _floats_are_exact(lattice) else Path.BAND


def solve_layers(lattice: Lattice, max_buckets: int, path: Path) -> Layers:
    """Layers 0..max_buckets (at most M: there are no more candidates) by one path."""
    layers = Layers.empty(min(max_buckets, lattice.top) + 1, lattice.top + 1)
    if lattice.top > 0:
        _SOLVERS[path](lattice, layers)
    return layers


def _floats_are_exact(lattice: Lattice) -> bool:
    """Whether the hulls' float slopes give exact argmins, for any layer."""
    problem = lattice.problem
    eager_ns = np.abs(problem.eager_ns.astype(np.float64)).sum()
    replay_ns = float(lattice.replay_ns.max()) * float(lattice.steps[-1])
    return replay_ns + float(eager_ns + lattice.charge_ns.sum()) < MAX_EXACT


def _solve_hull(lattice: Lattice, layers: Layers) -> None:
    """Each layer is one discrete Legendre transform; the charges, all equal, are added last."""
    steps, replay_ns, potentials = lattice.steps, lattice.replay_ns, layers.potentials
    own_ns = replay_ns * steps + lattice.charge_ns
    for k in range(1, len(potentials)):
        # k - 1 buckets reach positions k - 1 and up, and 0 buckets reach position 0 only
        below = potentials[k - 1, : 1 if k == 1 else None]
        chosen = leftmost_minimisers(steps[k - 1 : len(below)], below[k - 1 :], replay_ns[k:])
        chosen += k - 1
        layers.parents[k, k:] = chosen
        potentials[k, k:] = below[chosen] + own_ns[k:] - replay_ns[k:] * steps[chosen]


def _solve_band(lattice: Lattice, layers: Layers) -> None:
    """Each layer is the least of a prefix minimum (eager part) and a banded minimum."""
    split = np.zeros_like(lattice.sizes) if lattice.split is None else lattice.split
    positions = np.arange(lattice.top + 1)
    # the first position at or above the split: the band is [low, position)
    low = np.maximum(np.searchsorted(lattice.sizes, split), lattice.floor)
    rows = np.flatnonzero(low < positions)
    band = Band(low[rows], rows - 1, lattice.replay_ns[rows])
    exact = _floats_are_exact(lattice)
    own_ns = lattice.replay_ns * lattice.steps + lattice.charge_ns
    split_steps = prefix_sums(lattice.problem.weights)[split]
    split_ns = prefix_sums(lattice.problem.eager_ns)[split] - lattice.replay_ns * split_steps
    crossing = np.flatnonzero(low > lattice.floor)
    outer_ns, last_outer = (split_ns + own_ns)[crossing], low[crossing] - 1
    starts = np.unique(lattice.floor)
    for k in range(1, len(layers.potentials)):
        below, layer = layers.potentials[k - 1], layers.potentials[k]
        argmins = _banded_argmins(band, below, lattice.steps, hull=exact)
        minima = below[argmins] - band.slopes * lattice.steps[argmins] + own_ns[rows]
        layer[rows] = minima
        layers.parents[k, rows] = np.where(minima < COST_LIMIT_NS, argmins, NO_PARENT)
        cheapest = _running_minima(below - lattice.eager_ns, starts)
        layer[crossing] = np.minimum(layer[crossing], cheapest[last_outer] + outer_ns)
        layer[layer >= COST_LIMIT_NS] = UNREACHABLE


def _banded_argmins(band: Band, below: Ints, steps: Ints, *, hull: bool) -> Ints:
    """Leftmost argmin of each row of the band.

    The hull gives each row's leftmost argmin over all reachable columns. Where it lies in the
    row's band it is the answer, and as the leftmost argmins of a band are non-decreasing it
    bounds the answer of the other rows, which are left to monotone minima.
    """
    reached = np.flatnonzero(below < UNREACHABLE)
    if not hull or not len(reached):
        return row_minima(band, below, steps)
    argmins = reached[leftmost_minimisers(steps[reached], below[reached], band.slopes)]
    inside = (argmins >= band.low) & (argmins <= band.high)
    # rows that end before the first reachable column keep a column that is unreachable
    argmins = np.minimum(argmins, band.high)
    solved, rest = np.flatnonzero(inside), np.flatnonzero(~inside & (band.high >= reached[0]))
    if len(rest):
        known = np.concatenate(([0], argmins[solved], [len(below) - 1]))
        place = np.searchsorted(solved, rest)
        low = np.maximum(band.low[rest], known[place])
        high = np.minimum(band.high[rest], known[place + 1])
        argmins[rest] = row_minima(Band(low, high, band.slopes[rest]), below, steps)
    return argmins


def _running_minima(values: Ints, starts: Ints) -> Ints:
    """Running minimum of the values, started anew at each required position."""
    minima = np.empty_like(values)
    for start, stop in zip(starts, np.append(starts[1:], len(values)), strict=True):
        np.minimum.accumulate(values[start:stop], out=minima[start:stop])
    return minima


def _solve_dense(lattice: Lattice, layers: Layers) -> None:
    """Row by row, all layers at once, over all predecessors: O(N M + K M^2)."""
    potentials = layers.potentials
    for target in range(1, lattice.top + 1):
        floor = int(lattice.floor[target])
        through = potentials[:-1, floor:target] + edge_costs(lattice, target)
        argmins = through.argmin(axis=1)
        minima = np.take_along_axis(through, argmins[:, None], axis=1)[:, 0]
        reached: Bools = minima < COST_LIMIT_NS
        potentials[1:, target][reached] = minima[reached]
        layers.parents[1:, target][reached] = argmins[reached] + floor


_SOLVERS = {Path.HULL: _solve_hull, Path.BAND: _solve_band, Path.DENSE: _solve_dense}
