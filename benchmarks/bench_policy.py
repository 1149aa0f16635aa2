"""What ending steps at bucket edges gains over the engines' policies, under load.

    python -m benchmarks.bench_policy [WORKLOAD ...]      all built-in ones where none is named

Each built-in workload arrives at random (Poisson) at a share of what the server can do with
SGLang's policy and default ladder. Every policy gets the same arrivals. A row gives the time to
the first token, mean and p99, under the engine's policy, and what its bucket-edge form saves (above
0 is better) with the 95 % interval of the paired difference; then the same with ladders of at most
GRAPHS graphs, for each policy the last of its rounds of steps and ladder. Left out: uniform, which
has no output lengths. Prompts may be longer than the model's context (mooncake-conversation).
"""

from __future__ import annotations

import sys

import numpy as np

from simcg.cli.setting import TrafficSource, scenario_from
from simcg.des.serving import Arrivals, Poisson, simulate
from simcg.des.serving.overload import capacity
from simcg.des.serving.setup import Wanted
from simcg.des.serving.statistics import paired
from simcg.ladder import Ladder
from simcg.model.catalog import load_architecture
from simcg.optimize.scenario import Limits
from simcg.optimize.under_load import Question, iterated
from simcg.workload.builtin import UNIFORM, workload_names
from simcg.workload.requests import Requests

REQUESTS, SEEDS, GRAPHS, CHUNK = 1_000, range(1, 6), 8, 2048
LOADS = (0.5, 0.8, 0.95)
PAIRS = (("prefill-first", "bucket-edge"), ("mixed", "bucket-edge-mixed"))
SERVER = {
    "max_chunk": CHUNK, "model": "qwen3-8b", "hardware": "h200", "tp": 1, "dtype": None,
    "engine": "sglang", "backend": None, "slots": None, "rate": 1.0, "max_requests": None,
    "max_num_seqs": None,
}  # fmt: skip


def question(workload: str, policy: str, rate: float) -> Question:
    """The server under this traffic, its ladders of at most GRAPHS graphs."""
    source = TrafficSource(None, workload, REQUESTS, None, None)
    scenario = scenario_from(source, SERVER, Limits(max_buckets=GRAPHS), any_length=True)
    if not isinstance(scenario.traffic, Requests):
        raise TypeError(workload)
    arrivals = Arrivals(scenario.traffic, Poisson(rate), REQUESTS)
    wanted = Wanted(load_architecture("qwen3-8b"), 1, scenario.default_ladder, policy=policy)
    return Question(scenario, arrivals, wanted, "ttft-p99")


def figures(asked: Question, ladder: Ladder) -> tuple[list[float], list[float]]:
    """Mean and p99 in ms, seed by seed."""
    config, clock = asked.server(ladder)
    runs = [simulate(config, asked.arrivals, seed, clock=clock).ttft_ns / 1e6 for seed in SEEDS]
    return [float(run.mean()) for run in runs], [float(np.quantile(run, 0.99)) for run in runs]


def saving(before: list[float], after: list[float]) -> str:
    """The first one's mean, and the share that the second saves with its interval."""
    mean = float(np.mean(before))
    less = paired(after, before)
    low, high, share = (100 * value / mean for value in (less.low, less.high, less.mean))
    return f"{mean:9.1f} {share:+6.2f} ({low:+6.2f} to {high:+6.2f})"


def main() -> None:
    """Print a row for each workload, load, kind of policy and ladder."""
    print(f"{'workload':22} load policy         ladder      mean, saved %", end="")
    print(f"{'':20}p99, saved %")
    for workload in sys.argv[1:] or [name for name in workload_names() if name != UNIFORM]:
        base = question(workload, "prefill-first", 1.0)
        config, clock = base.server(base.scenario.default_ladder)
        most = capacity(config, base.arrivals, seed=0, clock=clock).mean
        for load in LOADS:
            for pair in PAIRS:
                asked = [question(workload, name, load * most) for name in pair]
                default = base.scenario.default_ladder
                rest = [iterated(one, one.server, lambda _: None)[0][-1] for one in asked]
                for name, ladders in (("default", [default] * 2), (f"last, <= {GRAPHS}", rest)):
                    runs = [figures(*both) for both in zip(asked, ladders, strict=True)]
                    cells = [saving(runs[0][k], runs[1][k]) for k in (0, 1)]
                    print(f"{workload:22} {load:4.2f} {pair[0]:14} {name:10}",
                          *cells)  # fmt: skip
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
