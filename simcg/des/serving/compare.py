"""Two servers on the same random numbers: is the difference more than chance?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simcg.des.serving.arrivals import Arrivals
from simcg.des.serving.config import ServerConfig
from simcg.des.serving.result import ServingResult
from simcg.des.serving.simulate import simulate
from simcg.des.serving.statistics import Interval, interval, paired
from simcg.errors import require

Figure = Callable[[ServingResult], float]


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of two servers over replications, and their difference, seed by seed."""

    first: Interval
    second: Interval
    difference: Interval  # second less first

    @property
    def is_significant(self) -> bool:
        """The interval of the difference leaves out 0."""
        return not self.difference.contains(0.0)


def replications(
    config: ServerConfig, arrivals: Arrivals, seeds: Sequence[int]
) -> list[ServingResult]:
    """One independent run a seed."""
    clock = config.clock()
    return [simulate(config, arrivals, seed, clock=clock) for seed in seeds]


def compare(
    first: ServerConfig,
    second: ServerConfig,
    arrivals: Arrivals,
    seeds: Sequence[int],
    figure: Figure,
) -> Compared:
    """``figure`` of both servers: each seed gives both the same arrivals and lengths.

    Raises ``InputError`` for fewer than two different seeds.
    """
    require(len(set(seeds)) >= 2, "compare", "seeds", list(seeds), "two different seeds or more")
    one, other = (
        [figure(result) for result in replications(config, arrivals, seeds)]
        for config in (first, second)
    )
    return Compared(interval(one), interval(other), paired(one, other))
