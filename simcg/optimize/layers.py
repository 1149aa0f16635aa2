"""All layers of the shortest path: the least cost with exactly k buckets and a given top.

f_0(0) = 0 and f_{k+1}(j) = charge(j) + min over floor(j) <= i < j of f_k(i) + cost(i, j]. Three
ways, one answer. With h the split of row j, W steps and E eager time up to a size,

    cost(i, j] = E_h - E_i + c_j (W_j - W_h)    for i < h    (a prefix minimum of f - E)
    cost(i, j] = c_j (W_j - W_i)                for i >= h   (a band, in product form)

- hull: no split, nothing required, one charge for all. The minimum may then run over ALL i:
  for i >= j replace the buckets from j up by j alone, which costs no more as c does not fall,
  and fill up with any free buckets below j, which costs no more either. The leftmost minimiser
  is below j, because some i < j attains the same value. By the same exchange, of candidates
  with equal steps the first that k buckets can reach has the least f_k.
- band: a split exists. Both ends of the band [max(h, floor), j) are non-decreasing.
- dense: any costs at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from simcg.arrays import Bools, Ints
from simcg.optimize.certificate import NO_PARENT, UNREACHABLE
from simcg.optimize.hull import MAX_PRODUCT, leftmost_minimisers
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
    exact = int(lattice.replay_ns.max()) * int(lattice.steps[-1]) < MAX_PRODUCT
    return Path.HULL if plain and exact else Path.BAND


def solve_layers(lattice: Lattice, max_buckets: int, path: Path) -> Layers:
    """Layers 0..max_buckets (at most M: there are no more candidates) by one path."""
    layers = Layers.empty(min(max_buckets, lattice.top) + 1, lattice.top + 1)
    if lattice.top > 0:
        _SOLVERS[path](lattice, layers)
    return layers


def _solve_hull(lattice: Lattice, layers: Layers) -> None:
    """Each layer is one discrete Legendre transform; the charges, all equal, are added last."""
    steps, replay_ns = lattice.steps, lattice.replay_ns
    own_ns = replay_ns * steps
    potentials = layers.potentials
    new_steps = np.diff(steps, prepend=-1) > 0
    for k in range(1, len(potentials)):
        # k - 1 buckets reach positions k - 1 and up, and 0 buckets reach position 0 only
        columns = np.arange(k - 1, lattice.top + 1 if k > 1 else 1)
        first = new_steps[columns]
        first[0] = True
        columns = columns[first]
        below = potentials[k - 1, columns]
        chosen = columns[leftmost_minimisers(steps[columns], below, replay_ns[k:])]
        layers.parents[k, k:] = chosen
        potentials[k, k:] = potentials[k - 1, chosen] + own_ns[k:] - replay_ns[k:] * steps[chosen]
    if lattice.charge_ns[1]:
        charges = lattice.charge_ns[1] * np.arange(len(potentials))
        potentials += np.where(potentials < UNREACHABLE, charges[:, None], 0)


def _solve_band(lattice: Lattice, layers: Layers) -> None:
    """Each layer is the least of a prefix minimum (eager part) and a banded minimum."""
    split = np.zeros_like(lattice.sizes) if lattice.split is None else lattice.split
    rows = np.arange(lattice.top + 1)
    # the first position at or above the split: the band is [low, row)
    low = np.maximum(np.searchsorted(lattice.sizes, split), lattice.floor)
    banded = np.flatnonzero(low < rows)
    band = Band.of(low[banded], banded - 1, lattice.replay_ns[banded], lattice.top + 1)
    own_ns = lattice.replay_ns * lattice.steps + lattice.charge_ns
    split_steps = prefix_sums(lattice.problem.weights)[split]
    split_ns = prefix_sums(lattice.problem.eager_ns)[split] - lattice.replay_ns * split_steps
    crossing = np.flatnonzero(low > lattice.floor)
    for k in range(1, len(layers.potentials)):
        below, layer = layers.potentials[k - 1], layers.potentials[k]
        argmins, minima = row_minima(band, below, lattice.steps)
        layer[banded] = minima + own_ns[banded]
        layers.parents[k, banded] = np.where(layer[banded] < COST_LIMIT_NS, argmins, NO_PARENT)
        if len(crossing):
            cheapest = _running_minima(below - lattice.eager_ns, lattice.floor)
            eager_part = cheapest[low[crossing] - 1] + (split_ns + own_ns)[crossing]
            layer[crossing] = np.minimum(layer[crossing], eager_part)
        layer[layer >= COST_LIMIT_NS] = UNREACHABLE


def _running_minima(values: Ints, floor: Ints) -> Ints:
    """Running minimum of the values, started anew at each required position."""
    minima = np.empty_like(values)
    starts = np.unique(floor)
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
