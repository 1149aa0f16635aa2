"""A simulated server on a timeline: its start-up, its steps, the first ones kernel by kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simcg.backend import FULL
from simcg.cost.kernels import Work
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
    """The capture of the prefill ladder, then the log of the server from its end on."""
    timeline = Timeline()
    limits = StepLimits(config.chunk, config.max_running)
    ready = simulate_startup(Capturing(config.model, config.ladder.sizes, limits))
    add_startup(timeline, ready)
    for one in log:
        _add(timeline, one, config.block_tokens, ready.end_ns)
    for one in log[:FIRST_STEPS]:
        cost, work = priced_step(config, one)
        start = ready.end_ns + (one.start_ticks >> TICK_BITS)
        add_step(timeline, simulate_step(cost, work, trace=True), start)
    return timeline


def priced_step(config: ServerConfig, one: LoggedStep) -> tuple[StepCost, Work]:
    """The first step of a run as the cost model takes it: what runs it, and on what."""
    model = config.model
    before = one.keys - one.steps * one.decodes
    if one.tokens:
        rows, slots = _rows(config.ladder, config.rule, one.tokens + one.decodes, one.requests)
        cost = model.eager if rows is None else model.replay
        work = (rows or one.tokens + one.decodes, one.tokens, slots or 1, one.pairs)
    else:
        rows, _ = _rows(config.decode_ladder, AdmissionRule(), one.decodes, one.decodes)
        forward = config.decode_forward or model.forward
        backend = model.fallback if rows is None else FULL
        cost = StepCost(forward, model.profile, backend)
        work = (rows or one.decodes, 0, rows or one.decodes, 0)
    columns = (np.array([value], dtype=np.int64) for value in (*work, one.decodes, before))
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
