"""Events a second of the machine beside a SimPy program of timeouts alone.

Both have the same number of processes and of heap operations. Programs are prepared before the
clock starts, as for many runs of one; the rest of a run, from its processes to its result, is
timed. Prints the median of five alternating pairs, in processor time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator
from unittest.mock import patch

import simpy

from benchmarks.bench_ladder import machine
from simcg.backend import BREAKABLE, EAGER, FULL, CaptureBackend
from simcg.cost.step import OpTimes, StepCost
from simcg.des.machine.lower import lower, machine_of, ranks_of
from simcg.des.machine.machine import run_prepared
from simcg.des.machine.setup import Machine
from simcg.des.machine.work import Prepared, prepare
from simcg.hardware.catalog import load_profile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from tests.costs import one_request

PAIRS, GOAL, LEAST_EVENTS = 5, 0.7, 200_000


class Counted(simpy.Environment):
    """Counts what is put on its heap."""

    scheduled = 0

    def schedule(self, *args: object, **kwargs: object) -> None:
        """As SimPy's."""
        Counted.scheduled += 1
        super().schedule(*args, **kwargs)  # type: ignore[arg-type]


def heap_operations(programs: list[Prepared], one: Machine) -> int:
    """Events that a run of the machine puts on its heap."""
    Counted.scheduled = 0
    with patch("simcg.des.machine.machine.Environment", Counted):
        run_prepared(programs, one)
    return Counted.scheduled


def timeouts(processes: int, events: int) -> float:
    """Seconds of a program of so many processes and about as many heap operations."""
    env = simpy.Environment()

    def tick(every: int) -> Generator[simpy.Event, None, None]:
        for _ in range(events // processes):
            yield env.timeout(every)

    for number in range(processes):
        env.process(tick(7 + number))
    start = time.process_time()
    env.run()
    return time.process_time() - start


def bench(name: str, tp: int, backend: CaptureBackend, tokens: int) -> None:
    """One step, over and over until it has enough events."""
    cost = StepCost(forward_pass(architecture_named(name), tp=tp), load_profile("h200"), backend)
    op_times = OpTimes(cost.profile, one_request([tokens]))
    one, ranks = machine_of(cost, op_times), ranks_of(cost.forward)
    program = prepare(lower(cost, op_times), ranks)
    events = heap_operations([program] * ranks, one)
    times = -(-LEAST_EVENTS // events)
    pairs = []
    for _ in range(PAIRS):
        start = time.process_time()
        for _ in range(times):
            run_prepared([program] * ranks, one)
        spent = time.process_time() - start
        # a host and a stream a rank
        pairs.append((events * times / spent, events * times / timeouts(2 * ranks, events * times)))
    ours, theirs = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    step = f"{name} tp{tp} {backend.name}, {tokens} tokens"
    print(f"{step:<42} {events:>7,} {ours / 1e3:>8.0f} {theirs / 1e3:>9.0f} {ratio:>6.2f}")


if __name__ == "__main__":
    print(machine())
    print(f"{'step':<42} {'events':>7} {'machine':>8} {'timeouts':>9} {'ratio':>6}   goal {GOAL}")
    for backend in (EAGER, BREAKABLE, FULL):
        for tokens in (64, 4096):
            bench("qwen3-235b-a22b", 4, backend, tokens)
    for tokens in (64, 4096):
        bench("qwen3-8b", 1, EAGER, tokens)
