"""Bursts of compute-bound layers between work that draws less power, as prompts between decodes.

Curves are measured at the clocks that a GPU keeps under forwards without a pause. A server's
prompts come in bursts of 10 to 100 ms between decode steps, and meet a clock that has recovered.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from real_gpu.calibrate.company import Company, Layers
from real_gpu.calibrate.timing import timed
from simcg.model.lean import lean_pass
from simcg.model.ops import Attention, Gemm

Raw = dict[str, Any]
DECODE_ROWS = 16
"""Rows of the layers in a pause: bound by memory, as a decode step is."""


@dataclass(frozen=True, slots=True)
class BurstPlan:
    """``bursts`` long ones at each of ``rows``, after rests; then ``rounds`` of short ones.

    The short ones, at ``paused_rows``, each come after one of ``pauses_ns``. ``rows`` are those
    of ``company.GRID``.
    """

    rows: Sequence[int]
    bursts: int
    rest_ns: float
    burst_ns: float
    paused_rows: int
    pauses_ns: Sequence[float]
    short_ns: float
    rounds: int


CAREFUL_BURSTS = BurstPlan(
    (512, 1024, 4096), 3, 0.4e9, 0.5e9, 1024, (10e6, 30e6, 80e6, 160e6, 320e6), 0.12e9, 4
)
QUICK_BURSTS = BurstPlan((64, 1024), 1, 0.02e9, 0.05e9, 1024, (5e6, 20e6), 0.02e9, 1)


def bursts(company: Company, plan: BurstPlan) -> Raw:
    """``bursts``: long ones after a rest each; ``pauses``: short ones in order, one series.

    Each with its ``rows``, and of every graph of so many ``layers`` when it began after the burst
    did (``at_ns``) and what it took (``ns``); ``pause_ns``: how long the pause before it was.
    ``products`` [k, n] and ``attention`` [heads, kv heads, dim]: what of a layer is compute-bound.
    """
    quiet = company.at(DECODE_ROWS)
    layers = {rows: company.at(rows) for rows in (*plan.rows, plan.paused_rows)}
    long = []
    for _ in range(plan.bursts):
        for rows in plan.rows:
            pause = _rest(quiet, plan.rest_ns)
            long.append({"pause_ns": pause, **_burst(layers[rows], plan.burst_ns)})
    _rest(quiet, plan.rest_ns)
    short = []
    for _ in range(plan.rounds):
        for wanted in plan.pauses_ns:
            pause = _rest(quiet, wanted)
            short.append({"pause_ns": pause, **_burst(layers[plan.paused_rows], plan.short_ns)})
    shapes = [op.shape for op in lean_pass(company.arch).layers[0]]
    attention = next(s for s in shapes if isinstance(s, Attention))
    return {
        "products": [[s.k, s.n] for s in shapes if isinstance(s, Gemm)],
        "attention": [attention.heads, attention.kv_heads, attention.head_dim],
        "bursts": long,
        "pauses": short,
    }


def _rest(quiet: Layers, wanted_ns: float) -> int:
    """Memory-bound layers for that long; the host waits for each graph, as a server's does."""
    begin = time.perf_counter_ns()
    while time.perf_counter_ns() - begin < wanted_ns:
        quiet.graph.replay()
        torch.cuda.synchronize()
    return time.perf_counter_ns() - begin


def _burst(layers: Layers, wanted_ns: float) -> Raw:
    """Layers back to back for about that long."""
    pairs = [timed(layers.graph.replay) for _ in range(max(4, math.ceil(wanted_ns / layers.ns)))]
    torch.cuda.synchronize()
    first = pairs[0][0]
    return {
        "rows": layers.rows,
        "layers": layers.count,
        "at_ns": [round(first.elapsed_time(begin) * 1e6) for begin, _ in pairs],
        "ns": [round(begin.elapsed_time(end) * 1e6) for begin, end in pairs],
    }
