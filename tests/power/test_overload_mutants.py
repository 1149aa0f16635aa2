"""Wrong capacities and verdicts, each told from the right ones by bursts, waves and single steps.

No mutant in the list is equivalent to the original.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

import simcg.des.serving.overload
from simcg.arrays import Ints
from simcg.des.serving import Arrivals, AtOnce, Poisson, Traced, simulate
from simcg.des.serving.lines import TICKS_PER_NS
from simcg.workload.builtin import builtin_workload
from simcg.workload.requests import Requests
from tests.mutants import mutated
from tests.serving import small_server

CONV = builtin_workload("azure-conv", 400)
CONFIG = replace(small_server(64, 128, 256, 512), max_running=400, kv_tokens=600_000)
CLOCK = replace(CONFIG.clock(), pace=None)

MUTANTS = {
    "the start counts": ("int(done[min(2 * held, many - 1)])", "0"),
    "part of a wave": (
        'int(done[np.searchsorted(done, begun[max(many - 1 - held, 0)], side="right") - 1])',
        "int(begun[max(many - 1 - held, 0)])",
    ),
    "no output": ("array(\"q\", part.astype(np.int64).tobytes()) for part in parts",
                  "array(\"q\", np.maximum(part // 2, 1).astype(np.int64).tobytes()) "
                  "for part in parts"),
    "those that never fit": (
        "requests.prompt_tokens + output - 1 <= room * config.block_tokens",
        "output >= 0",
    ),
    "asked for outputs are ignored": ("if arrivals.output_tokens is not None:", "if False:"),
    "a trace's rate is exact": ("if isinstance(arrivals.process, Traced):", "if False:"),
    "diverges when unsure": (
        "if self.offered.low <= self.capacity.high:",
        "if self.offered.low <= self.capacity.low:",
    ),
    "keeps up when unsure": (
        "return self.offered.high < self.capacity.low",
        "return self.offered.mean < self.capacity.high",
    ),
    "rates and gaps confused": ("low = 1 / gap_s.high if", "low = 1 / gap_s.low if"),
}  # fmt: skip


def made(arrival_ns: list[int], prompt: list[int], output: list[int]) -> Requests:
    columns: list[Ints] = [np.array(one, dtype=np.int64) for one in (arrival_ns, prompt, output)]
    return Requests(columns[0], columns[1], np.zeros_like(columns[1]), columns[2], "made")


def agrees(module: ModuleType) -> bool:
    """Capacities of steps, waves, uneven requests; verdicts far, near and on too few arrivals."""
    try:
        return _capacities(module) and _verdicts(module)
    except (ValueError, ZeroDivisionError):
        return False


def _capacities(module: ModuleType) -> bool:
    step_ns = CLOCK.chunked_step(512, 512 * 513 // 2, 1) / TICKS_PER_NS
    single = Arrivals(made([0], [512], [9]), AtOnce(), output_tokens=1)
    found = module.capacity(CONFIG, single, seed=0, clock=CLOCK)
    if abs(found.mean * step_ns / 1e9 - 1) > 1e-3:
        return False
    for requests in (CONV, made([0], [300], [200])):
        burst = simulate(CONFIG, Arrivals(requests, AtOnce(), 20_000), 5, clock=CLOCK)
        done = np.sort(burst.finish_ns)[[4_000, 16_000]]  # whole waves of 400 apart
        rate = 12_000e9 / float(done[1] - done[0])
        found = module.capacity(CONFIG, Arrivals(requests, AtOnce()), seed=1, clock=CLOCK)
        if abs(found.mean / rate - 1) > 0.01 or found.half_width > 0.12 * rate:
            return False
    long = Arrivals(made([0, 9], [50, 700_000], [5, 5]), Poisson(1.0), 1)
    return bool(module.capacity(CONFIG, long, seed=0, clock=CLOCK).mean > 0)


def _verdicts(module: ModuleType) -> bool:
    near = module.Load(module.Interval(9.9, 9.9, 9.9), module.Interval(10.0, 9.8, 10.2))
    if near.overload is not None or near.keeps_up:
        return False
    few = Arrivals(made([0, 900], [300, 300], [9, 9]), Traced())
    run = simulate(CONFIG, few, 0, clock=CLOCK)
    load = module.load_of(CONFIG, few, run, seed=0, clock=CLOCK)
    if load.overload is not None or load.keeps_up:
        return False
    times = np.cumsum(np.random.default_rng(1).exponential(1e9, 60)).astype(np.int64)
    slow = Arrivals(made(times.tolist(), [300] * 60, [9] * 60), Traced())
    run = simulate(CONFIG, slow, 0, clock=CLOCK)
    load = module.load_of(CONFIG, slow, run, seed=0, clock=CLOCK)
    offered = load.offered
    return bool(load.keeps_up and offered.low < offered.mean < offered.high)


def test_the_original_agrees() -> None:
    """So a mutant that fails does so for its change."""
    assert agrees(simcg.des.serving.overload)


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each gives another capacity, or a verdict where nobody can tell."""
    assert not agrees(mutated(monkeypatch, simcg.des.serving.overload, *MUTANTS[name]))
