"""How long it takes to price a model's steps, and to answer one question from the shell.

    python -m benchmarks.bench_timeline

The timeline of 8,192 sizes under all five backends of Qwen3-235B-A22B on the h200 profile, beside
a loop over the same items with vectors over the sizes; then ``simcg optimize``, beside an
interpreter that only imports NumPy. Goals: 15 ms and 64 MiB traced; 8 times and 200 MiB.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from benchmarks.bench_ladder import machine, median_ms, row
from simcg.arrays import Ints
from simcg.backend import BACKENDS
from simcg.cost.kernels import Work
from simcg.cost.step import OpTimes, StepCost
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import HardwareProfile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.model.ops import ForwardPass

SIZES = 8192
RUNS = 15
TRACED_GOAL_MIB, TIME_GOAL_MS = 64, 15
RATIO_GOAL, RSS_GOAL_MIB = 8, 200


def loop_over_items(costs: list[StepCost], op_times: OpTimes) -> list[Ints]:
    """The recurrence item by item, vectors over the sizes; plans and kernel times are given."""
    latency = round(costs[0].profile.host.launch_latency.value)
    out = []
    for cost in costs:
        distinct, _ = cost.forward.numbered
        host, items, wider = 0, cost.plan.items, cost.wider_ns(op_times.work)
        end: Ints = np.zeros(len(op_times.work), dtype=np.int64)
        durations: list[Ints] = []
        for one in items:
            kernels = sum(distinct[index].kernels * times for index, times in one.ops)
            parts = [op_times.of(distinct[index]).ns * times for index, times in one.ops]
            total: Ints = np.sum(parts, axis=0) + kernels * wider
            inner = (kernels - 1) * one.inner_gap_ns if one.parts == 1 else 0
            durations.append(total // one.parts + inner)
        for unit, times in cost.plan.runs:
            for key in unit * times:
                for _ in range(items[key].parts):
                    host += items[key].host_ns
                    start = np.maximum(end + items[key].gap_ns, host + latency)
                    end = start + durations[key]
        out.append(end)
    return out


def bench_timeline(forward: ForwardPass, profile: HardwareProfile) -> None:
    """Times of the stages, the traced peak, and whether the loop agrees."""
    n = np.arange(1, SIZES + 1, dtype=np.int64)
    work = Work(rows=n, tokens=n, requests=np.ones_like(n), pairs=n * (n + 1) // 2)
    ops = forward.numbered[0]

    def planned() -> list[StepCost]:
        costs = [StepCost(forward, profile, backend) for backend in BACKENDS.values()]
        for cost in costs:
            _ = cost.plan
        return costs

    def kernels() -> OpTimes:
        op_times = OpTimes(profile, work)
        for op in ops:
            op_times.of(op)
        return op_times

    costs, op_times = planned(), kernels()

    def composed() -> list[Ints]:
        return [cost.times_from(op_times).ns for cost in costs]

    def everything() -> list[Ints]:
        fresh = OpTimes(profile, work)
        return [StepCost(forward, profile, b).times_from(fresh).ns for b in BACKENDS.values()]

    def with_plans() -> list[Ints]:
        fresh = OpTimes(profile, work)
        return [cost.times_from(fresh).ns for cost in costs]

    whole, ours = median_ms(everything, RUNS)
    row(f"{forward.name}: {SIZES:,} sizes, five backends", whole, f"goal {TIME_GOAL_MS}")
    row("  with plans kept", median_ms(with_plans, RUNS)[0])
    for name, stage in (("plans", planned), ("kernel times", kernels), ("composition", composed)):
        row(f"  of it: {name}", median_ms(stage, RUNS)[0])
    spent, naive = median_ms(lambda: loop_over_items(costs, op_times), 3)
    same = all(np.array_equal(a, b) for a, b in zip(ours, naive, strict=True))
    row("  loop over items instead of composition", spent, "same" if same else "DIFFERENT")
    tracemalloc.start()
    everything()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    print(f"{'  traced peak, MiB':<58} {peak:>10.1f}  goal {TRACED_GOAL_MIB}")


def process(command: list[str]) -> tuple[float, float]:
    """Wall time in ms and peak resident MiB of one process."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    spent = 1000 * (time.perf_counter() - start)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command}: exit {child.returncode}")
    return spent, usage.ru_maxrss / 1024


def bench_process() -> None:
    """simcg and bare NumPy in turns, so that both see the same machine."""
    simcg = [sys.executable, "-m", "simcg", "optimize", "--max-chunk", "8192"]
    numpy = [sys.executable, "-c", "import numpy"]
    samples: dict[str, list[tuple[float, float]]] = {"simcg": [], "numpy": []}
    for _ in range(7):
        samples["simcg"].append(process(simcg))
        samples["numpy"].append(process(numpy))

    def middle(name: str, of: Callable[[tuple[float, float]], float]) -> float:
        return statistics.median(map(of, samples[name]))

    ours, theirs = middle("simcg", lambda s: s[0]), middle("numpy", lambda s: s[0])
    row("simcg optimize --max-chunk 8192, whole process", ours)
    row('python -c "import numpy"', theirs)
    print(f"{'  ratio':<58} {ours / theirs:>10.1f}  goal {RATIO_GOAL}")
    rss = middle("simcg", lambda s: s[1])
    print(f"{'  peak resident, MiB':<58} {rss:>10.1f}  goal {RSS_GOAL_MIB}")


if __name__ == "__main__":
    print(machine())
    print(f"{'medians':<58} {'ms':>10}")
    qwen = architecture_named("qwen3-235b-a22b")
    for ranks in (1, 4):
        bench_timeline(forward_pass(qwen, tp=ranks), load_profile("h200"))
    bench_process()
