"""Served traces beside their simulation: what a profile says of the same requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import TypeVar

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.backend import BREAKABLE, EAGER, FULL
from simcg.cost.kernels import Work
from simcg.cost.step import StepCost
from simcg.cost.table import ReplayModel
from simcg.des.serving import Arrivals, ServerConfig, ServingResult, policy_named, simulate
from simcg.errors import Finding, InputError
from simcg.hardware.profile import HardwareProfile
from simcg.ladder import Ladder
from simcg.model.architecture import Architecture
from simcg.model.forward import forward_pass
from simcg.model.lean import lean_pass
from simcg.model.ops import ForwardPass
from simcg.runs.read import Runs
from simcg.runs.schema import ServingLine, ServingRequest, ServingStep
from simcg.workload.requests import Requests

T = TypeVar("T")
FIGURES = ("ttft p50", "ttft p99", "ttft mean", "tpot p50", "tpot mean", "e2el p50")
KINDS = ("prefill", "decode", "mixed")


@dataclass(frozen=True)
class ServedRun:
    """One run of the server: its settings, its finished requests and its steps, in order."""

    line: ServingLine
    requests: tuple[ServingRequest, ...]
    steps: tuple[ServingStep, ...]

    @property
    def closed(self) -> bool:
        """All its requests waited from the start."""
        return self.line.utilisation is None

    @property
    def rate(self) -> float:
        """Requests a second that arrived."""
        span = self.requests[-1].arrival_ns - self.requests[0].arrival_ns
        return (len(self.requests) - 1) * 1e9 / span if span else 0.0

    @cached_property
    def figures(self) -> dict[str, float]:
        """``FIGURES`` in ns, of all its requests."""
        rows = [(r.arrival_ns, r.first_token_ns, r.finish_ns, r.output) for r in self.requests]
        return _figures(*np.array(rows, dtype=np.int64).T)


@dataclass(frozen=True, slots=True)
class StepErrors:
    """Steps of one kind: how many, the median and 95th percentile of |predicted/measured - 1|.

    ``bias``: the median with its sign; ``overhead_ns``: the median time beside the forward.
    """

    kind: str
    count: int
    median: float
    p95: float
    bias: float
    overhead_ns: float


@dataclass(frozen=True, slots=True)
class ServingComparison:
    """One open run beside its simulation; figures by the names of ``FIGURES``, in ns.

    ``step_overhead_ns``: what the simulated server takes beside each forward, from the closed
    runs of the same file. ``steps``: the prices of the very steps that ran.
    """

    source: str
    run: ServedRun
    step_overhead_ns: int
    simulated: dict[str, float]
    steps: tuple[StepErrors, ...]

    def error(self, name: str) -> float:
        """Simulated over measured, less 1."""
        return self.simulated[name] / self.run.figures[name] - 1


def served_runs(runs: Runs) -> list[ServedRun]:
    """The runs of a file; raises ``InputError`` for rows of no run, or a run without rows."""
    lines = {line.run: line for line in runs.of(ServingLine)}
    if len(lines) < len(runs.of(ServingLine)):
        raise InputError(runs.source, "serving", Finding("a run twice"), "each run once")
    requests: dict[int, list[ServingRequest]] = {run: [] for run in lines}
    steps: dict[int, list[ServingStep]] = {run: [] for run in lines}
    for request in runs.of(ServingRequest):
        _rows_of(requests, request.run, runs.source).append(request)
    for step in runs.of(ServingStep):
        _rows_of(steps, step.run, runs.source).append(step)
    out = []
    for run, line in lines.items():
        mine = sorted(requests[run], key=lambda row: row.arrival_ns)
        if not steps[run] or (not mine and line.utilisation is not None):
            expected = "its requests and steps"
            raise InputError(runs.source, f"run {run}", Finding("no rows"), expected)
        out.append(ServedRun(line, tuple(mine), tuple(steps[run])))
    return out


def _rows_of(rows: dict[int, list[T]], run: int, source: str) -> list[T]:
    """Those of the run; ``InputError`` if no line describes it."""
    if run not in rows:
        expected = f"one of the runs {', '.join(map(str, rows)) or '(none)'}"
        raise InputError(source, "run", run, expected)
    return rows[run]


def compare_serving(runs: Runs, profile: HardwareProfile) -> list[ServingComparison]:
    """Every open run of a file beside its simulation on the profile.

    Raises ``InputError`` for open runs without a closed one, which tells the server's own time.
    """
    served = served_runs(runs)
    opened = [run for run in served if not run.closed]
    out = []
    for run in opened:
        same = [one for one in served if one.closed and one.line.model == run.line.model]
        if not same:
            where, expected = f"run {run.line.run}", "a closed run of the same model beside it"
            raise InputError(runs.source, where, Finding("alone"), expected)
        overhead = step_overhead_ns(same)
        model = served_model(runs.header.models[run.line.model], profile)
        result = simulated(run, model, overhead)
        figures = _figures(
            result.arrival_ns, result.first_ns, result.finish_ns, result.output_tokens
        )
        errors = step_errors(run.steps, model)
        out.append(ServingComparison(runs.source, run, overhead, figures, errors))
    return out


def step_overhead_ns(closed: Iterable[ServedRun]) -> int:
    """The median time that a step takes beside its forward, each closed run counted alike."""
    each = [median(step.overhead_ns for step in run.steps) for run in closed]
    return round(sum(each) / len(each))


def served_pass(arch: Architecture) -> ForwardPass:
    """The forward of a served step: the lean decoder's, the last row of each request, logits."""
    lean, (_, last, logits) = lean_pass(arch), forward_pass(arch, dtype="bf16").tail
    return replace(lean, tail=(*lean.tail, replace(last, kernels=1), logits))


def served_model(arch: Architecture, profile: HardwareProfile) -> ReplayModel:
    """Steps with prompts replay breakable and fall back to eager."""
    return ReplayModel(served_pass(arch), profile, BREAKABLE, EAGER)


def config_of(line: ServingLine, model: ReplayModel, overhead_ns: int) -> ServerConfig:
    """The simulator's server; each place of the cache holds the longest request, so none waits."""
    block = 16
    return ServerConfig(
        model=model,
        ladder=Ladder.of(line.prefill_sizes),
        rule=line.rule,
        decode_ladder=Ladder.of(line.decode_sizes),
        chunk=line.chunk,
        max_running=line.running,
        kv_tokens=line.running * (line.longest + block),
        policy=policy_named(line.policy, line.prefill_sizes),
        block_tokens=block,
        step_overhead_ns=overhead_ns,
    )


def simulated(run: ServedRun, model: ReplayModel, overhead_ns: int) -> ServingResult:
    """The same requests at the same times."""
    columns = np.array([(r.arrival_ns, r.prompt, r.output) for r in run.requests], dtype=np.int64)
    arrival, prompt, output = columns.T.copy()
    requests = Requests(arrival, prompt, np.zeros_like(prompt), output, run.line.trace)
    config = config_of(run.line, model, overhead_ns)
    return simulate(config, Arrivals(requests), 0, warm_up=0.0)


def step_errors(steps: Sequence[ServingStep], model: ReplayModel) -> tuple[StepErrors, ...]:
    """The forwards that ran beside their prices, by kind."""
    out = []
    for kind in KINDS:
        same = [step for step in steps if step.kind == kind]
        if not same:
            continue
        measured = np.array([step.device_ns for step in same])
        signed = step_prices(same, model, decodes_alone=kind == "decode") / measured - 1
        error = np.abs(signed)
        out.append(
            StepErrors(
                kind, len(same), float(np.median(error)), float(np.percentile(error, 95)),
                float(np.median(signed)), float(median(step.overhead_ns for step in same)),
            )
        )  # fmt: skip
    return tuple(out)


def step_prices(steps: Sequence[ServingStep], model: ReplayModel, *, decodes_alone: bool) -> Ints:
    """What the forwards of these steps cost, all of one kind, in the buckets that they ran in."""
    rows = [(s.tokens, s.prefills, s.pairs, s.decodes, s.keys, s.bucket) for s in steps]
    tokens, prefills, pairs, decodes, keys, bucket = np.array(rows, dtype=np.int64).T.copy()
    ran = np.where(bucket > 0, bucket, tokens + decodes)
    work = Work(ran, tokens, prefills + decodes, pairs, decodes, keys)
    replay = StepCost(model.forward, model.profile, FULL) if decodes_alone else model.replay
    return np.where(bucket > 0, replay.times(work).ns, model.eager.times(work).ns)


def _figures(arrival: Ints, first: Ints, finish: Ints, output: Ints) -> dict[str, float]:
    ttft, whole = first - arrival, finish - arrival
    several = output > 1
    tpot: Floats = (finish - first)[several] / (output[several] - 1)
    between = tpot if len(tpot) else np.zeros(1)
    values = (
        np.median(ttft), np.percentile(ttft, 99), ttft.mean(),
        np.median(between), between.mean(), np.median(whole),
    )  # fmt: skip
    return dict(zip(FIGURES, map(float, values), strict=True))
