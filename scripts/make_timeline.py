"""Writes docs/timeline.png: four layers of Qwen3-8B, 64 tokens, on the h200 profile."""

from __future__ import annotations

from pathlib import Path

import simcg
from simcg.report.timeline_plot import plot_steps

LAYERS, TOKENS = 4, 64
OUT = Path(__file__).parents[1] / "docs" / "timeline.png"


def main() -> None:
    server = simcg.Server(model="qwen3-8b", hardware="h200")
    runs = {
        backend: simcg.run_step(TOKENS, server, backend=backend, layers=LAYERS)
        for backend in ("eager", "tc_piecewise", "breakable", "full")
    }
    title = f"the first {LAYERS} layers of Qwen3-8B, {TOKENS} tokens, simulated H200"
    plot_steps(runs, OUT, title)
    print(OUT.name, {name: run.end_ns for name, run in runs.items()})


if __name__ == "__main__":
    main()
