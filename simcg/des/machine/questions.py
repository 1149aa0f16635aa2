"""What one rank's timeline cannot answer: what jitter, other ranks and full queues cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from simcg.cost.kernels import Work
from simcg.cost.step import OpTimes, StepCost
from simcg.des.machine.jitter import Jitter
from simcg.des.machine.lower import lower, machine_of, ranks_of
from simcg.des.machine.machine import run_prepared
from simcg.des.machine.work import prepare
from simcg.errors import require


@dataclass(frozen=True, slots=True)
class JitterCost:
    """A step with and without jitter of the host's calls, over ``runs`` seeds.

    ``quiet_ns``: without.  ``alone_ns``: the mean step of a rank that waits for no other.
    ``mean_ns``, ``error_ns``: of all ranks together, whose collectives start at the latest, and
    the standard error of that mean.  ``peers_share``: the mean share of it spent waiting for ranks.
    """

    ranks: int
    runs: int
    quiet_ns: int
    alone_ns: float
    mean_ns: float
    error_ns: float
    peers_share: float

    @property
    def slowdown(self) -> float:
        """By which share jitter makes the step longer."""
        return self.mean_ns / self.quiet_ns - 1

    @property
    def waiting_ns(self) -> float:
        """How much longer ranks take together than each does alone: the price of the latest."""
        return self.mean_ns - self.alone_ns


def jitter_cost(
    cost: StepCost, work: Work, sigma: float, *, runs: int = 30, seed: int = 0
) -> JitterCost:
    """What jitter of ``sigma`` costs a step on as many ranks as its collectives join.

    ``work`` has one entry. Equal seeds give other backends and sizes the same luck, call by call.
    """
    require(len(work) == 1, "jitter_cost", "work", len(work), "one entry")
    require(runs >= 2, "jitter_cost", "runs", runs, "an integer >= 2")
    op_times, ranks = OpTimes(cost.profile, work), ranks_of(cost.forward)
    program, machine = lower(cost, op_times), machine_of(cost, op_times)
    own, shared = prepare(program, 1), prepare(program, ranks)
    quiet = run_prepared([own], machine)
    together, alone = [], []
    for number in range(runs):
        jitter = Jitter(sigma, seed + number)
        together.append(run_prepared([shared] * ranks, machine, jitter))
        alone.append(run_prepared([own], machine, jitter).end_ns)
    ends = np.array([run.end_ns for run in together], dtype=np.float64)
    return JitterCost(
        ranks,
        runs,
        quiet.end_ns,
        float(np.mean(alone)),
        float(ends.mean()),
        float(ends.std(ddof=1) / np.sqrt(runs)),
        float(np.mean([run.peers_share for run in together])),
    )


def queue_costs(cost: StepCost, work: Work, depths: Iterable[int | None]) -> dict[int | None, int]:
    """The step time in ns by the depth of the launch queue; ``work`` has one entry."""
    require(len(work) == 1, "queue_costs", "work", len(work), "one entry")
    op_times = OpTimes(cost.profile, work)
    program = prepare(lower(cost, op_times), 1)
    return {
        depth: run_prepared([program], machine_of(cost, op_times, queue=depth)).end_ns
        for depth in depths
    }
