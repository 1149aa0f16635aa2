"""Writes docs/timeline.png: four layers of Qwen3-8B, 64 tokens, on the h200 profile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from simcg.backend import BREAKABLE, EAGER, FULL, TC_PIECEWISE
from simcg.cost.kernels import Work
from simcg.cost.step import StepCost
from simcg.des.machine.run import StepRun
from simcg.des.machine.step import simulate_step
from simcg.hardware.catalog import load_profile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.report.timeline_plot import plot_steps

LAYERS, TOKENS = 4, 64
OUT = Path(__file__).parents[1] / "docs" / "timeline.png"


def main() -> None:
    forward = forward_pass(architecture_named("qwen3-8b"))
    forward = replace(forward, layers=forward.layers[:LAYERS], tail=())
    n = np.array([TOKENS], dtype=np.int64)
    work = Work(rows=n, tokens=n, requests=np.ones_like(n), pairs=n * (n + 1) // 2)
    profile = load_profile("h200")
    runs: dict[str, StepRun] = {
        backend.name: simulate_step(StepCost(forward, profile, backend), work, trace=True)
        for backend in (EAGER, TC_PIECEWISE, BREAKABLE, FULL)
    }
    title = f"the first {LAYERS} layers of Qwen3-8B, {TOKENS} tokens, simulated H200"
    plot_steps(runs, OUT, title)
    print(OUT.name, {name: run.end_ns for name, run in runs.items()})


if __name__ == "__main__":
    main()
