"""Runs made of predictions: what a GPU that obeys a profile to the last ns would have measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from simcg.backend import BackendName
from simcg.hardware.catalog import load_profile
from simcg.ladder import dispatch
from simcg.model.architecture import Architecture
from simcg.model.catalog import architecture_named
from simcg.runs.predict import Predictor, StepSizes
from simcg.runs.read import Runs, encode_line
from simcg.runs.schema import (
    VERSION,
    Bytes,
    CaptureCell,
    Compiler,
    DecisionCell,
    Environment,
    Header,
    LadderLine,
    Line,
    MemoryCell,
    ServingLine,
    ServingRequest,
    ServingStep,
    StepCell,
    Timed,
)
from simcg.runs.serving import Overheads, ServedRun, prices_of, served_model, simulated

MODEL = "qwen3-8b"
BACKENDS: tuple[tuple[BackendName, Compiler], ...] = (
    ("eager", ""), ("full", ""), ("breakable", ""), ("tc_piecewise", "eager"),
)  # fmt: skip
GPU = Environment("cuda", "NVIDIA H200", "a host", "2.11.0", "13.0", "3.12", "2026-12-01")


@cache
def predictor() -> Predictor:
    """Of a few layers of qwen3-8b on h200."""
    return Predictor(short_model(), load_profile("h200"))


def short_model(layers: int = 3) -> Architecture:
    """qwen3-8b with few layers."""
    whole = architecture_named(MODEL)
    return replace(whole, layer_kinds=whole.layer_kinds[:layers])


def header(environment: Environment = GPU) -> Header:
    """A header with one model."""
    return Header(VERSION, "made", 0, environment, {MODEL: short_model()})


def one_step(tokens: int, bucket: int) -> StepSizes:
    """One request without context."""
    columns = ([tokens], [1], [tokens * (tokens + 1) // 2], [bucket])
    return StepSizes(*(np.array(column, dtype=np.int64) for column in columns))


def step_cell(of: Predictor, backend: BackendName, compiler: Compiler, tokens: int) -> StepCell:
    """As predicted, in a bucket of its own size."""
    bucket = 0 if backend == "eager" else tokens
    sizes = one_step(tokens, bucket)
    times = of.model(backend).replay.times(sizes.work)
    ns = float(of.step_ns(backend, sizes)[0])
    return StepCell(
        model=MODEL, backend=backend, compiler=compiler, tokens=tokens, requests=1, context=0,
        pairs=int(sizes.pairs[0]), bucket=bucket, slots=0, ns=ns, spread_ns=0.0, floor=0.001,
        samples=9, host_ns=float(times.host_ns), plan_ns=0.0,
        gpu_bound=bool(times.host_ns < times.device_ns[0]),
        bit_equal=None if backend == "eager" else True,
    )  # fmt: skip


def capture_cell(
    of: Predictor, backend: BackendName, compiler: Compiler, bucket: int
) -> CaptureCell:
    """As predicted; the compiler's time only in the largest bucket, which comes first."""
    took = of.startup(backend, compiler, bucket)
    return CaptureCell(
        model=MODEL, backend=backend, compiler=compiler, bucket=bucket, slots=0,
        warm_up_ns=took.capture_ns // 2, capture_ns=took.capture_ns - took.capture_ns // 2,
        compile_ns=took.compile_ns if bucket == max(SIZES) else 0, nodes=10, segments=1, breaks=0,
    )  # fmt: skip


def _sizes() -> tuple[int, ...]:
    """Three row counts that calibration timed, about 16, 64 and 4,096, and two that it did not."""
    timed = sorted(predictor().timed_rows())
    known = {min((abs(n - at), n) for n in timed)[1] for at in (16, 64, 4096)}
    others = {next(n for n in range(at, 8192) if n not in timed) for at in (100, 1000)}
    return tuple(sorted(known | others))


SIZES = _sizes()


def memory_cell(of: Predictor, backend: BackendName, compiler: Compiler) -> MemoryCell:
    """As predicted."""
    took = of.device_bytes(backend, SIZES)
    return MemoryCell(
        model=MODEL, backend=backend, compiler=compiler, buckets=SIZES, slots=0,
        before=Bytes(0, 0, 1 << 30), after=Bytes(0, 0, (1 << 30) + took),
        pool=of.pool_bytes(backend, SIZES), eager_peak=of.eager_peak_bytes(max(SIZES)), nodes=10,
    )  # fmt: skip


def decision_cells(
    of: Predictor, ladders: Sequence[LadderLine], steps: int, seed: int = 0
) -> list[DecisionCell]:
    """Steps of random sizes in every bucket that a ladder sends them to, timed as predicted."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, 3000, size=steps, dtype=np.int64)
    ones = np.ones_like(tokens)
    chosen = {0: tokens > 0}  # every step can run eager; which run in each bucket
    for one in ladders:
        buckets = np.array((*one.ladder.sizes, 0))[dispatch(one.ladder, one.rule, tokens, ones)]
        for bucket in np.unique(buckets).tolist():
            chosen[bucket] = chosen.get(bucket, tokens < 0) | (buckets == bucket)
    times: list[list[Timed]] = [[] for _ in range(steps)]
    pairs = tokens * (tokens + 1) // 2
    for bucket, which in chosen.items():
        ns = of.step_ns("breakable", StepSizes(tokens, ones, pairs, ones * bucket))
        for i in np.flatnonzero(which).tolist():
            times[i].append(Timed(bucket, (int(ns[i]),)))
    return [
        DecisionCell(
            model=MODEL, backend="breakable", index=i, query_tokens=(n,), context_tokens=(0,),
            times=tuple(times[i]),
        )
        for i, n in enumerate(tokens.tolist())
    ]  # fmt: skip


def obedient_lines() -> list[Line]:
    """Steps, captures and memory of every backend, exactly as predicted."""
    return list(_obedient())


@cache
def _obedient() -> tuple[Line, ...]:
    of = predictor()
    lines: list[Line] = []
    for backend, compiler in BACKENDS:
        lines += [step_cell(of, backend, compiler, n) for n in SIZES]
        if backend != "eager":
            lines += [capture_cell(of, backend, compiler, n) for n in reversed(SIZES)]
            lines.append(memory_cell(of, backend, compiler))
    return tuple(lines)


def runs_of(lines: Sequence[Line], first: Header | None = None) -> Runs:
    """Lines as if read from a file."""
    return Runs("made.jsonl", first or header(), tuple(lines))


def write(path: Path, runs: Runs) -> Path:
    """The runs as a file."""
    path.write_bytes(b"".join(encode_line(line) for line in (runs.header, *runs.lines)))
    return path


def slower(line: Line, factor: float) -> Line:
    """A step cell measured so many times longer than it was; other lines as they are."""
    if not isinstance(line, StepCell):
        return line
    return msgspec.structs.replace(line, ns=line.ns * factor)


SERVED = ServingLine(
    run=0, model=MODEL, trace="made", policy="prefill-first", prefill_sizes=(16, 64, 128, 256),
    max_ratio=(2, 1), decode_sizes=(1, 2, 4), chunk=256, running=4, longest=400,
)  # fmt: skip


def serving_lines(count: int = 60, overhead_ns: int = 70_000, policy: str = "") -> list[Line]:
    """A closed run and an open one; requests as simulated, a few steps at their price.

    The steps of the open run take 20 us more beside the forward.
    """
    line = msgspec.structs.replace(SERVED, policy=policy or SERVED.policy)
    opened = msgspec.structs.replace(line, run=1, utilisation=0.5)
    rng = np.random.default_rng(0)
    arrival = np.sort(rng.integers(0, count * 2_000_000, count))
    wanted = zip(arrival.tolist(), rng.integers(1, 300, (count, 1)).tolist(), strict=True)
    requests = tuple(
        ServingRequest(1, at, prompt, 1 + at % 40, at + 1, at + 1) for at, (prompt,) in wanted
    )
    model = served_model(short_model(), load_profile("h200"))
    result = simulated(ServedRun(opened, requests, ()), model, Overheads(overhead_ns))
    times = zip(requests, result.first_ns.tolist(), result.finish_ns.tolist(), strict=True)
    steps = [
        ServingStep(1, n, m, n * (n + 1) // 2, d, 100 * d, bucket, 0, 10**9, 1, 1, 1)
        for n, m, d, bucket in ((100, 1, 0, 128), (150, 3, 0, 0), (0, 0, 3, 4), (0, 0, 1, 1))
    ]
    priced = [
        msgspec.structs.replace(step, device_ns=ns, end_ns=ns + overhead_ns)
        for step, ns in zip(steps, prices_of(steps, model).tolist(), strict=True)
    ]
    return [
        line,
        *(msgspec.structs.replace(step, run=0) for step in priced),
        opened,
        *(
            msgspec.structs.replace(
                one, arrival_ns=one.arrival_ns - requests[0].arrival_ns,
                first_token_ns=first, finish_ns=finish,
            )
            for one, first, finish in times
        ),
        *(msgspec.structs.replace(step, end_ns=step.end_ns + 20_000) for step in priced),
    ]  # fmt: skip
