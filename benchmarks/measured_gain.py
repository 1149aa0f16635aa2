"""Gains predicted from op curves beside gains from whole forwards measured on an H200.

    python -m benchmarks.measured_gain

The forwards (real_gpu/calibrate/data/h200_ladders.json) were measured in another session than the
profile, at every size of SGLang's default ladder and of an answer for azure-conv. A step is given
the measured time of its bucket, or of eager at the next measured size.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from real_gpu.calibrate.check import check_steps, decoder_pass
from simcg.arrays import Floats, Ints
from simcg.backend import BREAKABLE, EAGER
from simcg.cost.table import ReplayModel
from simcg.engines import engine_named
from simcg.hardware.catalog import load_profile
from simcg.optimize.scenario import Scenario
from simcg.optimize.score import LadderScore
from simcg.optimize.study import study
from simcg.workload.builtin import builtin_workload
from simcg.workload.steps import Steps

DATA = Path(__file__).parent.parent / "real_gpu" / "calibrate" / "data" / "h200_ladders.json"
CASES = (("azure-conv", 1.0), ("azure-conv", 3.0), ("azure-code", 1.0), ("uniform", 1.0))


def mean_measured_ns(
    score: LadderScore, steps: Steps, sizes: Ints, replay: Floats, eager: Floats
) -> float:
    """Mean step time with measured forwards in the place of predicted ones."""
    rows = np.where(score.bucket_tokens > 0, score.bucket_tokens, steps.tokens)
    at = np.searchsorted(sizes, rows)
    ns = np.where(score.bucket_tokens > 0, replay[at], eager[at])
    return float(np.average(ns, weights=steps.count))


def main() -> None:
    raw = json.loads(DATA.read_text())
    profile = load_profile("h200")
    for backend in ("full", "breakable", "eager"):
        errors = np.array([abs(c.error) for c in check_steps(profile, raw) if c.backend == backend])
        print(
            f"{backend:10} {len(errors)} forwards: predicted within {100 * np.median(errors):.1f}% "
            f"(median), {100 * np.percentile(errors, 90):.1f}% (90th percentile), "
            f"{100 * errors.max():.1f}% (largest)"
        )
    measured = {(r["tokens"], r["backend"]): float(r["step_ns"]) for r in raw["forwards"]["steps"]}
    sizes = np.array(sorted({n for n, _ in measured}), dtype=np.int64)
    by = {b: np.array([measured[n, b] for n in sizes.tolist()]) for b in ("eager", "breakable")}
    model = ReplayModel(decoder_pass(), profile, BREAKABLE, EAGER)
    for workload, rate in CASES:
        traffic = builtin_workload(workload, 5000)
        result = study(Scenario(engine_named("sglang"), model, traffic, 8192, rate=rate))
        default, answer, none = (
            mean_measured_ns(s, result.traffic.counted, sizes, by["breakable"], by["eager"])
            for s in (result.default, result.answer.score, result.no_graphs)
        )
        gain = result.gain
        bare = 1 - result.no_graphs.mean_step_ns / result.default.mean_step_ns
        print(
            f"{workload} at {rate:g}x: gain predicted {100 * gain.share:.2f}% "
            f"({100 * gain.low:.1f} to {100 * gain.high:.1f}), measured "
            f"{100 * (1 - answer / default):.2f}%; no graphs: predicted {100 * bare:.2f}%, "
            f"measured {100 * (1 - none / default):.2f}%"
        )


if __name__ == "__main__":
    main()
