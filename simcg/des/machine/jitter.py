"""How much longer a host call takes at one time than at another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Ints
from simcg.errors import require


@dataclass(frozen=True, slots=True)
class Jitter:
    """Host calls take a log-normal multiple, of mean 1, of their cost.

    ``sigma``: standard deviation of the multiple's logarithm. The multiple of a call follows from
    the seed, the rank and the call's place alone, so that two machines or programs are compared
    under the same luck.
    """

    sigma: float
    seed: int

    def __post_init__(self) -> None:
        require(0 <= self.sigma <= 3, "Jitter", "sigma", self.sigma, "a number in 0..3")
        require(self.seed >= 0, "Jitter", "seed", self.seed, "an integer >= 0")

    def costs(self, host_ns: Ints, rank: int) -> Ints:
        """The costs of a rank's calls, by place; a larger cost never gives a smaller one."""
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence((self.seed, rank))))
        logs = self.sigma * random.standard_normal(len(host_ns)) - self.sigma**2 / 2
        costs: Ints = np.rint(host_ns * np.exp(logs)).astype(np.int64)
        return costs
