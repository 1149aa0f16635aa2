"""Served traces beside their simulation: what a profile says of the same requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import NamedTuple, TypeVar

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.backend import BREAKABLE, EAGER, FULL
from simcg.cost.burst import Pace, compute_ns
from simcg.cost.kernels import Work
from simcg.cost.ragged import PARTS, effective_parts, widths
from simcg.cost.step import OpTimes, StepCost
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

    ``bias``: the median with its sign; ``overhead_ns``: the median time beside the forward, and
    ``taken_ns`` the median of what the simulated server takes for it.
    """

    kind: str
    count: int
    median: float
    p95: float
    bias: float
    overhead_ns: float
    taken_ns: float


class Overheads(NamedTuple):
    """What a server takes beside each forward, in ns: with prompts, and of decodes alone.

    ``decode``: (requests that decode, ns) by ascending requests, as ``ServerConfig`` takes them.
    """

    prompt_ns: int
    decode: tuple[tuple[int, int], ...] = ()

    def of(self, step: ServingStep) -> float:
        """Of a step like that."""
        if step.prefills or not self.decode:
            return self.prompt_ns
        at, ns = np.array(self.decode, dtype=np.float64).T
        return float(np.interp(step.decodes, at, ns))


@dataclass(frozen=True, slots=True)
class ServingComparison:
    """One open run beside its simulation; figures by the names of ``FIGURES``, in ns.

    ``overheads``: what the simulated server takes beside each forward, from the closed runs of
    the same file. ``steps``: the prices of the very steps that ran.
    """

    source: str
    run: ServedRun
    overheads: Overheads
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
        overheads = overheads_of(same)
        model = served_model(runs.header.models[run.line.model], profile)
        result = simulated(run, model, overheads)
        figures = _figures(
            result.arrival_ns, result.first_ns, result.finish_ns, result.output_tokens
        )
        errors = step_errors(run.steps, model, overheads)
        out.append(ServingComparison(runs.source, run, overheads, figures, errors))
    return out


def overheads_of(closed: Iterable[ServedRun]) -> Overheads:
    """The median times that steps take beside their forwards.

    Of steps with prompts that of the quietest closed run, as an open server seldom is full; of
    steps of decodes alone that of each, by the requests that decoded.
    """
    runs = sorted(closed, key=lambda run: run.line.running)
    with_prompts = ([step.overhead_ns for step in run.steps if step.prefills] for run in runs)
    prompts = next(filter(None, with_prompts), None)
    points = {}
    for run in runs:
        alone = [step for step in run.steps if not step.prefills]
        if alone:
            requests = round(median(step.decodes for step in alone))
            points[requests] = round(median(step.overhead_ns for step in alone))
    every = [step.overhead_ns for run in runs for step in run.steps]
    return Overheads(round(median(prompts or every)), tuple(sorted(points.items())))


def served_pass(arch: Architecture) -> ForwardPass:
    """The forward of a served step: the lean decoder's, the last row of each request, logits."""
    lean, (_, last, logits) = lean_pass(arch), forward_pass(arch, dtype="bf16").tail
    return replace(lean, tail=(*lean.tail, replace(last, kernels=1), logits))


def served_model(arch: Architecture, profile: HardwareProfile) -> ReplayModel:
    """Steps with prompts replay breakable and fall back to eager."""
    return ReplayModel(served_pass(arch), profile, BREAKABLE, EAGER)


def config_of(line: ServingLine, model: ReplayModel, overheads: Overheads) -> ServerConfig:
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
        step_overhead_ns=overheads.prompt_ns,
        decode_overheads=overheads.decode,
    )


def simulated(run: ServedRun, model: ReplayModel, overheads: Overheads) -> ServingResult:
    """The same requests at the same times."""
    columns = np.array([(r.arrival_ns, r.prompt, r.output) for r in run.requests], dtype=np.int64)
    arrival, prompt, output = columns.T.copy()
    requests = Requests(arrival, prompt, np.zeros_like(prompt), output, run.line.trace)
    config = config_of(run.line, model, overheads)
    return simulate(config, Arrivals(requests), 0, warm_up=0.0)


def step_errors(
    steps: Sequence[ServingStep], model: ReplayModel, overheads: Overheads
) -> tuple[StepErrors, ...]:
    """The forwards that ran, in order, beside their prices, by kind."""
    out = []
    prices, kinds = prices_of(steps, model), np.array([step.kind for step in steps])
    measured = np.array([step.device_ns for step in steps])
    for kind in KINDS:
        same = np.flatnonzero(kinds == kind)
        if not len(same):
            continue
        signed = prices[same] / measured[same] - 1
        error = np.abs(signed)
        mine = [steps[i] for i in same.tolist()]
        out.append(
            StepErrors(
                kind, len(same), float(np.median(error)), float(np.percentile(error, 95)),
                float(np.median(signed)), float(median(step.overhead_ns for step in mine)),
                float(median(overheads.of(step) for step in mine)),
            )
        )  # fmt: skip
    return tuple(out)


def prices_of(steps: Sequence[ServingStep], model: ReplayModel) -> Ints:
    """What the forwards of a run's steps cost, in the buckets that they ran in, at their starts."""
    out = np.zeros(len(steps), dtype=np.int64)
    alone = np.array([step.kind == "decode" for step in steps])
    for which, price in ((alone, _decode_prices), (~alone, _prompt_prices)):
        if which.any():
            out[which] = price([steps[i] for i in np.flatnonzero(which).tolist()], model)
    return out


def _ran(steps: Sequence[ServingStep]) -> Ints:
    """Rows of each step."""
    rows = [(s.bucket, s.tokens + s.decodes) for s in steps]
    bucket, tokens = np.array(rows, dtype=np.int64).T
    ran: Ints = np.where(bucket > 0, bucket, tokens)
    return ran


def _decode_prices(steps: Sequence[ServingStep], model: ReplayModel) -> Ints:
    """Where requests are read in one piece, as the kernel is launched for all rows."""
    ran, none = _ran(steps), np.zeros(len(steps), dtype=np.int64)
    decodes, keys = np.array([(s.decodes, s.keys) for s in steps], dtype=np.int64).T.copy()
    wide = widths(model.profile, model.forward, int(ran.max()))
    if wide:
        parts = [
            effective_parts(sorted(step.keys_each), wide[rows])
            for step, rows in zip(steps, ran.tolist(), strict=True)
        ]
        decodes, keys = ran, np.rint(np.array(parts) / PARTS).astype(np.int64)
    work = Work(ran, none, decodes, none, decodes, keys)
    full = StepCost(model.forward, model.profile, FULL)
    return _either(steps, work, full, model)


def _prompt_prices(steps: Sequence[ServingStep], model: ReplayModel) -> Ints:
    """At the clock that each meets, where the profile says how that changes."""
    rows = [(s.tokens, s.prefills, s.pairs, s.decodes, s.keys) for s in steps]
    tokens, prefills, pairs, decodes, keys = np.array(rows, dtype=np.int64).T.copy()
    work = Work(_ran(steps), tokens, prefills + decodes, pairs, decodes, keys)
    prices = _either(steps, work, model.replay, model)
    pace = Pace.of(model.profile.burst)
    if pace is None:
        return prices
    compute = compute_ns(model.forward, model.profile, OpTimes(model.profile, work), pace)
    rest, since = 1.0, 0
    out = []
    for step, ns, bound in zip(steps, prices.tolist(), compute.tolist(), strict=True):
        rest = pace.rested(rest, max(0, step.start_ns - since))
        shorter, rest = pace.step(rest, ns, bound)
        out.append(ns - round(shorter))
        since = step.start_ns + out[-1]
    return np.array(out, dtype=np.int64)


def _either(steps: Sequence[ServingStep], work: Work, replay: StepCost, model: ReplayModel) -> Ints:
    """By the graph's price where a bucket ran, else eager."""
    bucket = np.array([step.bucket for step in steps])
    out: Ints = np.where(bucket > 0, replay.times(work).ns, model.eager.times(work).ns)
    return out


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
