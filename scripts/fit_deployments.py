"""Fits what servers add to their kernels to the calibration points, framework by framework.

    python scripts/fit_deployments.py

Writes simcg/reproduce/data/server_costs.json. Coordinate search with halving steps, from one
start for all frameworks, within the bounds of simcg.reproduce.calibration. The loss is the mean
over points of |log error| of TPOT and half of TTFT's, each cut at 0.4, so that runs which their
label does not describe (speculative decoding, cold starts) do not pull.
"""

from __future__ import annotations

import math
import sys
from multiprocessing import Pool
from pathlib import Path

import msgspec

from simcg.errors import SimcgError
from simcg.reproduce.calibration import (
    BOUNDS,
    ServerCosts,
    configuration,
    is_calibration,
    overheads,
)
from simcg.reproduce.point import Point
from simcg.reproduce.predict import predict
from simcg.reproduce.silicon import claimed_points

OUT = Path(__file__).parent.parent / "simcg" / "reproduce" / "data" / "server_costs.json"
START = ServerCosts(0.0, 10.0, 6.0, 1.0, 1.1, 1.0, 2.0, 4.0)
STEPS = {
    "kernel_ns": 500.0,
    "request_ms": 8.0,
    "token_us": 2.0,
    "prefill_dense": 0.15,
    "prefill_experts": 0.15,
    "blackwell": 0.1,
    "host_dense": 0.5,
    "host_experts": 1.0,
}
ROUNDS = 6
CUT = 0.4


def loss(points: list[Point], costs: ServerCosts) -> float:
    """How far predictions are off."""
    total, count = 0.0, 0
    for point in points:
        try:
            made = predict(point, overheads(point, costs))
        except SimcgError:
            continue
        total += min(abs(math.log(made.tpot_ms / point.tpot_ms)), CUT)
        total += min(abs(math.log(made.ttft_ms / point.ttft_ms)), CUT) / 2
        count += 1
    return total / count


def fit(framework: str) -> tuple[str, ServerCosts]:
    """The costs of one framework."""
    mine = (p for p in claimed_points() if p.framework == framework and is_calibration(p))
    points = list({(configuration(p), p.ttft_ms): p for p in mine}.values())
    costs, steps = START, dict(STEPS)
    best = loss(points, costs)
    for _ in range(ROUNDS):
        before = best
        for name in STEPS:
            for step in (steps[name], -steps[name]):
                while True:
                    low, high = BOUNDS[name]
                    value = min(max(getattr(costs, name) + step, low), high)
                    tried = msgspec.structs.replace(costs, **{name: value})
                    found = loss(points, tried) if tried != costs else best
                    if found >= best - 1e-5:
                        break
                    costs, best = tried, found
        if best == before:
            steps = {name: step / 2 for name, step in steps.items()}
        sys.stdout.write(f"{framework}: {len(points)} points, loss {best:.4f}, {costs}\n")
        sys.stdout.flush()
    return framework, costs


def main() -> None:
    """Fit and write."""
    with Pool() as pool:
        found = dict(pool.map(fit, ("vllm", "trtllm", "sglang"), chunksize=1))
    OUT.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")


if __name__ == "__main__":
    main()
