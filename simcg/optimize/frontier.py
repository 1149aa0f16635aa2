"""The answer to a ladder problem for every number of buckets at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.errors import InputError, require
from simcg.optimize.evidence import Certificate, Proof
from simcg.optimize.lattice import Lattice, edge_costs
from simcg.optimize.layers import Layers
from simcg.optimize.price import has_price


@dataclass(frozen=True, slots=True)
class Frontier:
    """Least cost and best ladder with exactly, and with at most, k buckets, k = 0..max_buckets.

    ``exact_costs_ns[k]``: least cost with exactly k buckets, None where no ladder of k buckets
    satisfies the limits (k = 0 means all eager).  ``ceilings[k]``: the top of such a ladder (0
    for k = 0).  Under a hard guard one more bucket can cost time, so exactly and at most differ.
    """

    lattice: Lattice
    layers: Layers
    proof: Proof
    exact_costs_ns: tuple[int | None, ...]
    ceilings: tuple[int | None, ...]

    @property
    def max_buckets(self) -> int:
        """The largest number of buckets that was asked for."""
        return len(self.exact_costs_ns) - 1

    def exact_cost(self, k: int) -> int | None:
        """Least cost in ns with exactly ``k`` buckets, None if there is no such ladder."""
        return self.exact_costs_ns[self._checked(k)]

    def best_count(self, k: int) -> int | None:
        """The least number of buckets, at most ``k``, that attains ``best_cost(k)``."""
        costs = [
            (c, n)
            for n, c in enumerate(self.exact_costs_ns[: self._checked(k) + 1])
            if c is not None
        ]
        return min(costs)[1] if costs else None

    def best_cost(self, k: int) -> int | None:
        """Least cost in ns with at most ``k`` buckets, None if there is no such ladder."""
        count = self.best_count(k)
        return None if count is None else self.exact_costs_ns[count]

    def ladder(self, k: int) -> tuple[int, ...]:
        """Sizes of a least-cost ladder with exactly ``k`` buckets; InputError if there is none."""
        ceiling = self.ceilings[self._checked(k)]
        if ceiling is None:
            raise InputError("ladder", "buckets", k, "a number of buckets that the limits permit")
        sizes = []
        position = int(np.searchsorted(self.lattice.sizes, ceiling))
        for layer in range(k, 0, -1):
            sizes.append(int(self.lattice.sizes[position]))
            floor = int(self.lattice.floor[position])
            below = self.layers.potentials[layer - 1, floor:position]
            position = floor + int(np.argmin(below + edge_costs(self.lattice, position)))
        return tuple(reversed(sizes))

    def best_ladder(self, k: int) -> tuple[int, ...]:
        """Sizes of a least-cost ladder with at most ``k`` buckets; InputError if there is none."""
        count = self.best_count(k)
        return self.ladder(k if count is None else count)

    def certificate(self, k: int, *, exactly: bool = False) -> Certificate:
        """Evidence that the ladder is optimal among those with at most (or exactly) k buckets."""
        count = k if exactly else self.best_count(k)
        price_ns = None if count is None else price(self, count)
        layers = k + 1 if price_ns is None or count is None else max(k, count + 1) + 1
        return Certificate(
            max_buckets=k,
            exactly=exactly,
            proof=self.proof,
            potentials=self.layers.potentials[:layers],
            parents=self.layers.parents[:layers],
            price_ns=price_ns,
        )

    def _checked(self, k: int) -> int:
        """``k``, if it was solved for."""
        require(0 <= k <= self.max_buckets, "frontier", "k", k, f"0..{self.max_buckets}")
        return k


def price(frontier: Frontier, k: int) -> int | None:
    """What one more bucket than ``k`` saves, in ns: the integer price per bucket at k.

    f(k) - f(k+1) <= price <= f(k-1) - f(k) over ladders of at least one bucket. None where f
    need not be convex (a hard guard, costs that fall), or where f(k) or f(k+1) is not known.
    """
    if not (1 <= k < frontier.max_buckets and has_price(frontier.lattice.problem)):
        return None
    here, more = frontier.exact_cost(k), frontier.exact_cost(k + 1)
    return None if here is None or more is None else here - more
