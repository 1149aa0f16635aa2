"""A step of any backend on the machine."""

from __future__ import annotations

from simcg.cost.kernels import Work
from simcg.cost.step import OpTimes, StepCost
from simcg.des.machine.jitter import Jitter
from simcg.des.machine.lower import lower, machine_of, ranks_of
from simcg.des.machine.machine import run_programs
from simcg.des.machine.run import StepRun
from simcg.des.machine.setup import CUDA_QUEUE
from simcg.errors import require


def simulate_step(
    cost: StepCost,
    work: Work,
    *,
    queue: int | None = CUDA_QUEUE,
    jitter: Jitter | None = None,
    trace: bool = False,
) -> StepRun:
    """One step on as many ranks as its collectives join; ``work`` has one entry.

    Without jitter and with a queue that does not fill, it ends when ``StepCost.times`` says.
    """
    require(len(work) == 1, "simulate_step", "work", len(work), "one entry")
    op_times = OpTimes(cost.profile, work)
    programs = [lower(cost, op_times)] * ranks_of(cost.forward)
    machine = machine_of(cost, op_times, queue=queue)
    return run_programs(programs, machine, jitter, trace=trace)
