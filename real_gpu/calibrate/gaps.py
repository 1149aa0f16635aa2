"""GPU idle time between kernels, from one layer's different ops at few rows.

Curves time a kernel in a graph of its own kind. Where different kernels follow each other the
GPU waits longer between them, in a graph, on a stream, and after a break: that is what a chain
takes beyond the sum of its ops, each timed alone as for its curve.

Two durations are subtracted only if the GPU's clocks were alike: both under sustained work, or
both behind a sleep, where the host cannot keep ahead of the GPU otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from real_gpu.calibrate.issue import Bench, Call
from real_gpu.calibrate.timing import (
    Pace,
    capture,
    events_ns,
    graph_ns,
    robust,
    sustained_ns,
    warm,
)
from simcg.model.architecture import Architecture
from simcg.model.lean import lean_pass
from simcg.model.ops import Op

ROUNDS = 20
"""Layers in a chain."""


@dataclass(frozen=True, slots=True)
class LayerCalls:
    """A layer's ops in order: the calls of each one, and what one call takes alone, in ns."""

    ops: tuple[Op, ...]
    calls: tuple[list[Call], ...]
    alone_ns: tuple[float, ...]

    def sequence(self, rounds: int, breaks: bool | None = None) -> list[Call]:
        """So many layers, op by op; ``breaks``: only the ops that are breaks, or are not."""
        picked = [i for i, op in enumerate(self.ops) if breaks in {None, op.is_break}]
        return [self.calls[i][turn % len(self.calls[i])] for turn in range(rounds) for i in picked]

    def sum_ns(self, breaks: bool | None = None) -> float:
        """All of a layer's ops alone, or those that are breaks, or are not."""
        pairs = zip(self.ops, self.alone_ns, strict=True)
        return sum(ns for op, ns in pairs if breaks in {None, op.is_break})

    def kernels(self, breaks: bool | None = None) -> int:
        """Kernels of a layer, or of its breaks, or of the rest."""
        return sum(op.kernels for op in self.ops if breaks in {None, op.is_break})


def layer_calls(bench: Bench, arch: Architecture, rows: int, pace: Pace) -> LayerCalls:
    """The first layer of the architecture at that many rows."""
    ops = lean_pass(arch).layers[0]
    calls = tuple(bench.one(arch, op, rows) for op in ops)
    return LayerCalls(ops, calls, tuple(graph_ns(c, 5.0, pace)[0] for c in calls))


def gaps(bench: Bench, arch: Architecture, rows: list[int], pace: Pace) -> list[dict[str, float]]:
    """For each number of rows the gaps in ns: see ``simcg.hardware.profile.Gaps``."""
    return [{"rows": r, **_gaps_of(layer_calls(bench, arch, r, pace), pace)} for r in rows]


def _gaps_of(layer: LayerCalls, pace: Pace) -> dict[str, float]:
    chain = layer.sequence(ROUNDS)
    warm(chain)
    in_graph = capture(chain)
    whole = robust(sustained_ns(in_graph.replay, pace))[0] / ROUNDS
    node = (whole - layer.sum_ns()) / layer.kernels()

    def eagerly() -> None:
        for call in chain:
            call()

    issued, replayed = (
        robust(events_ns(body, pace.samples))[0] / ROUNDS for body in (eagerly, in_graph.replay)
    )
    in_graph.reset()
    stream = node + (issued - replayed) / layer.kernels()
    return {"node": node, "stream": stream, **_around_breaks(layer, pace, stream)}


def _around_breaks(layer: LayerCalls, pace: Pace, stream: float) -> dict[str, float]:
    """The gap before a graph that follows a graph, and what a break adds to it."""
    inside = layer.sequence(ROUNDS, breaks=False)
    one = capture(inside)
    segment_ns = robust(sustained_ns(one.replay, pace))[0] / ROUNDS
    one.reset()
    size = len(inside) // ROUNDS
    segments = [capture(inside[i * size : (i + 1) * size]) for i in range(ROUNDS)]
    between = layer.sequence(ROUNDS, breaks=True)
    per = len(between) // ROUNDS

    def graphs() -> None:
        for segment in segments:
            segment.replay()

    def broken() -> None:
        for i, segment in enumerate(segments):
            segment.replay()
            for call in between[i * per : (i + 1) * per]:
                call()

    # the host keeps ahead of a segment of some 100 us
    start = robust(sustained_ns(graphs, pace))[0] / ROUNDS - segment_ns
    round_ns = robust(sustained_ns(broken, pace))[0] / ROUNDS
    breaks_ns = layer.sum_ns(breaks=True) + layer.kernels(breaks=True) * stream
    for segment in segments:
        segment.reset()
    return {
        "graph_start": start,
        "after_break": round_ns - segment_ns - breaks_ns - max(start, 0.0),
    }
