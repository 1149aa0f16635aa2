"""A simulated server on a timeline: its start-up, its steps, the first ones kernel by kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simcg.backend import FULL
from simcg.cost.kernels import Work
from simcg.cost.ragged import PARTS, widths
from simcg.cost.step import StepCost
from simcg.des.capture.draw import add_startup
from simcg.des.capture.startup import Capturing, simulate_startup
from simcg.des.machine.step import simulate_step
from simcg.des.memory.ladder import StepLimits
from simcg.des.serving.config import ServerConfig
from simcg.des.serving.lines import TICK_BITS
from simcg.des.serving.server import LoggedStep
from simcg.ladder import EAGER_INDEX, AdmissionRule, Ladder, dispatch
from simcg.report.step_timeline import add_step
from simcg.report.timeline import Timeline

FIRST_STEPS = 4
"""Runs of steps whose first step is shown on hosts and streams: a step has thousands of events."""


def serving_timeline(config: ServerConfig, log: Sequence[LoggedStep]) -> Timeline:
    """The captures of both ladders, then the log of the server from their end on."""
    timeline, ready_ns = Timeline(), 0
    most = min(config.max_running, max(config.decode_ladder.sizes, default=config.max_running))
    for model, ladder, limits, of in (
        (config.model, config.ladder, StepLimits(config.chunk, most), ""),
        (config.decode_model, config.decode_ladder, StepLimits(most, most), " of decodes"),
    ):
        run = simulate_startup(Capturing(model, ladder.sizes, limits))
        add_startup(timeline, run, ready_ns, of)
        ready_ns += run.end_ns
    for one in log:
        _add(timeline, one, config.block_tokens, ready_ns)
    for one in log[:FIRST_STEPS]:
        cost, work = priced_step(config, one)
        start = ready_ns + (one.start_ticks >> TICK_BITS)
        add_step(timeline, simulate_step(cost, work, trace=True), start)
    return timeline


def priced_step(config: ServerConfig, one: LoggedStep) -> tuple[StepCost, Work]:
    """The first step of a run as the cost model takes it: what runs it, and on what."""
    model = config.model
    decodes, keys = one.decodes, one.keys - one.steps * one.decodes
    if one.tokens:
        rows, slots = _rows(config.ladder, config.rule, one.tokens + one.decodes, one.requests)
        cost = model.eager if rows is None else model.replay
        work = (rows or one.tokens + one.decodes, one.tokens, slots or 1, one.pairs)
    else:
        rows, _ = _rows(config.decode_ladder, AdmissionRule(), one.decodes, one.decodes)
        forward = config.decode_forward or model.forward
        if widths(model.profile, forward, 1):  # read in one piece, for all that is launched
            decodes, keys = rows or decodes, round(one.read / PARTS)
        backend = model.fallback if rows is None else FULL
        cost = StepCost(forward, model.profile, backend)
        work = (rows or one.decodes, 0, rows or one.decodes, 0)
    columns = (np.array([value], dtype=np.int64) for value in (*work, decodes, keys))
    return cost, Work(*columns)


def _rows(
    ladder: Ladder, rule: AdmissionRule, rows: int, requests: int
) -> tuple[int | None, int | None]:
    """The bucket's tokens and slots; None where the step runs without a graph."""
    batch = (np.array([rows], dtype=np.int64), np.array([requests], dtype=np.int64))
    index = int(dispatch(ladder, rule, *batch)[0])
    if index == EAGER_INDEX:
        return None, None
    return ladder.buckets[index].num_tokens, ladder.buckets[index].slots


def _add(timeline: Timeline, one: LoggedStep, block_tokens: int, at_ns: int) -> None:
    """A run of steps as a span, and counters of the queue, running requests and the KV cache."""
    kind = "decode" if not one.tokens else "mixed" if one.decodes else "prefill"
    times = f" x {one.steps}" if one.steps > 1 else ""
    start = at_ns + (one.start_ticks >> TICK_BITS)
    lasts = at_ns + ((one.start_ticks + one.ticks) >> TICK_BITS) - start
    args = {
        "steps": one.steps, "prefill tokens": one.tokens, "prefills": one.requests,
        "decodes": one.decodes, "keys": one.keys,
    }  # fmt: skip
    timeline.span("server", "steps", f"{kind}{times}", start, lasts, args)
    timeline.counter("server", "waiting requests", start, one.waiting)
    timeline.counter("server", "decoding requests", start, one.decodes)
    timeline.counter("server", "KV cache (tokens)", start, one.kv_blocks * block_tokens)
