"""Serving beside sched-sim on one workload, and the cost of a request from 10^3 to 10^6.

    python -m benchmarks.bench_serving [PYTHON]

PYTHON: an interpreter that has sched-sim 0.2.1 (PyPI), such as other/bin/python; without it only
simcg is timed. Both run the same arrivals, lengths, token budget of 512, KV blocks and step times
(sched-sim's own for a100, as a clock), alternating, each in a process that only times its loop.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

from simcg.des.serving.clock import ServingClock
from simcg.des.serving.lines import TICK_BITS, Lines, lines_through
from simcg.des.serving.policy import MIXED
from simcg.des.serving.server import Columns, Limits, Server
from simcg.des.serving.simulate import serve
from tests.serving import columns_of

BUDGET = 512
PAIRS = 5
RATE, DURATION_S = 10.0, 1000.0
SIZES = (1_000, 10_000, 100_000, 1_000_000)

SCHED_SIM = """
import json, sys, time
from sched_sim.core.event_engine import Simulator
from sched_sim.hardware.presets import get_hardware_profile
from sched_sim.schedulers.factory import create_scheduler
from sched_sim.workloads.generator import generate_workload
hardware = get_hardware_profile("a100")
scheduler = create_scheduler("chunked", hardware, token_budget=int(sys.argv[1]))
requests = generate_workload(rate_req_per_s=float(sys.argv[2]), duration_s=float(sys.argv[3]))
rows = [(r.arrived_at, r.prompt_tokens, r.output_tokens) for r in requests]
simulator = Simulator(hardware, scheduler)
simulator.submit_workload(requests)
begin = time.perf_counter()
metrics = simulator.run()
took = time.perf_counter() - begin
model = scheduler.latency_model
print(json.dumps({"took_s": took, "steps": metrics.total_iterations, "rows": rows,
    "ttft_ms": metrics.ttft_ms.mean, "blocks": simulator.block_manager.total_gpu_blocks,
    "weights_s": model.weights_bytes / model.bandwidth_bytes_s,
    "key_s": hardware.kv_bytes_per_token / model.bandwidth_bytes_s,
    "token_s": 2e9 * hardware.parameter_count_billions / model.compute_flops_s,
    "launch_s": model.launch_overhead_s}))
"""

DEFAULT = {
    "weights_s": 7.9e-3, "key_s": 6.4e-8, "token_s": 8.0e-5, "launch_s": 5e-5, "blocks": 25_000,
}  # fmt: skip
"""About an 8-billion-parameter model on an a100, for runs without sched-sim."""


def roofline_clock(of: dict[str, Any]) -> ServingClock:
    """sched-sim's step time: max(weights + keys, products) + launch; its keys leave out the new."""
    weights, launch = of["weights_s"] * 1e9, of["launch_s"] * 1e9
    chunked = [Lines((0,), (0,), (0,))]
    decode, attention = [chunked[0]], [chunked[0]]
    for rows in range(1, BUDGET + 1):
        compute = rows * of["token_s"] * 1e9
        knee = max(0, round(compute - weights))
        far = knee + 1_000_000_000
        points = [0, knee, far] if knee else [0, far]
        times = [round(max(weights + x, compute) + launch) for x in points]
        chunked.append(lines_through(points, times))
        slope = round(of["key_s"] * 1e9 * (1 << TICK_BITS))
        base = round((max(weights, compute) + launch) * (1 << TICK_BITS)) - slope * rows
        decode.append(Lines((0,), (base,), (slope,)))
        attention.append(Lines((0,), (-slope * rows,), (slope,)))
    nothing = (chunked[0],) * (BUDGET + 1)
    return ServingClock((), (tuple(chunked),), nothing, tuple(decode), tuple(attention), "assumed")


def run(columns: Columns, of: dict[str, Any]) -> tuple[float, Server]:
    """Seconds of the simulation itself, and the server."""
    clock, limits = roofline_clock(of), Limits(BUDGET, BUDGET, BUDGET, of["blocks"], 16)
    begin = time.perf_counter()
    server = serve(clock, MIXED, limits, columns, len(columns.arrival))
    return time.perf_counter() - begin, server


def steps_of(server: Server) -> int:
    """Engine steps, runs counted one by one."""
    return sum(map(sum, server.tally.chunked)) + sum(server.tally.decode)


def side_by_side(python: str) -> dict[str, Any]:
    """Median of the alternating pairs, printed; the constants of sched-sim."""
    took: dict[str, list[float]] = {"sched-sim": [], "simcg": []}
    for _ in range(PAIRS):
        call = [python, "-c", SCHED_SIM, str(BUDGET), str(RATE), str(DURATION_S)]
        ran = subprocess.run(call, check=True, capture_output=True, text=True)
        of: dict[str, Any] = json.loads(ran.stdout)
        rows = np.array(of["rows"])
        arrival, prompt, output = np.rint(rows[:, 0] * 1e9), rows[:, 1], rows[:, 2]
        # there a prefill gives no token, so a request decodes once more
        columns = columns_of(arrival, prompt, np.zeros_like(prompt), output + 1)
        seconds, server = run(columns, of)
        took["sched-sim"].append(of["took_s"])
        took["simcg"].append(seconds)
    count, steps = len(rows), {"sched-sim": of["steps"], "simcg": steps_of(server)}
    first, sent = np.array(server.first), np.array(server.columns.arrival)
    ttft = {"sched-sim": of["ttft_ms"], "simcg": float((first - sent).mean()) / 1e6}
    for name, seconds_each in took.items():
        median = statistics.median(seconds_each)
        print(
            f"{name:<10} {count:,} requests, {steps[name]:,} steps, mean TTFT {ttft[name]:.2f} ms: "
            f"{median:.3f} s, {count / median:,.0f} requests/s, {steps[name] / median:,.0f} steps/s"
        )
    ratio = statistics.median(a / b for a, b in zip(*took.values(), strict=True))
    print(f"simcg is {ratio:.1f} times as fast (median of {PAIRS} alternating pairs)")
    return of


def flatness(of: dict[str, Any]) -> None:
    """The same kind of traffic, longer and longer."""
    random = np.random.default_rng(1)
    for count in SIZES:
        arrival = np.cumsum(random.exponential(1e9 / RATE, count))
        prompt = random.triangular(30, 120, 400, count)
        output = random.triangular(20, 90, 300, count) + 1
        columns = columns_of(arrival, prompt, np.zeros(count), output)
        seconds, server = run(columns, of)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{count:>9,} requests: {seconds / count * 1e6:6.2f} us a request, "
            f"{steps_of(server) / seconds:,.0f} steps/s, peak {peak:,.0f} MiB"
        )


if __name__ == "__main__":
    constants = side_by_side(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    flatness(constants)
