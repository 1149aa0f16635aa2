"""GPU idle time between kernels, from one layer's different ops, and what a break adds to it.

Curves time a kernel in a graph of its own kind. Where different kernels follow each other the
GPU waits longer between them, in a graph and on a stream: that is what a chain takes beyond the
sum of its ops, each timed alone as for its curve.

Two durations are subtracted only if the GPU's clocks were alike: both in turns with a forward's
layers, in turns with each other, or both behind a sleep, where the host cannot keep ahead of the
GPU otherwise.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from real_gpu.attention.attention import using
from real_gpu.backends.backend import Backend
from real_gpu.backends.breakable import breakable
from real_gpu.backends.full import full
from real_gpu.calibrate.clock import Clock, Timed
from real_gpu.calibrate.curves import gemm_us
from real_gpu.calibrate.issue import Bench, Call
from real_gpu.calibrate.small import SmallDecoder
from real_gpu.calibrate.timing import capture, events_ns, sustained_ns, timed
from real_gpu.graphs.device import GraphDevice
from simcg.ladder import Bucket
from simcg.model.architecture import Architecture
from simcg.model.lean import lean_pass
from simcg.model.ops import Gemm, Op

ROUNDS = 20
"""Layers in a chain."""
REPLAYS = 8
"""Replays in a sample of a backend: its start does not count then."""


@dataclass(frozen=True, slots=True)
class LayerCalls:
    """A layer's ops in order: the calls of each one, and what one call takes alone."""

    ops: tuple[Op, ...]
    calls: tuple[list[Call], ...]
    alone: tuple[Timed, ...]

    def sequence(self, rounds: int, breaks: bool = True) -> list[Call]:
        """So many layers, op by op, with the ops that are breaks or without."""
        picked = [i for i, op in enumerate(self.ops) if breaks or not op.is_break]
        return [self.calls[i][turn % len(self.calls[i])] for turn in range(rounds) for i in picked]

    @property
    def kernels(self) -> int:
        """Kernels of a layer."""
        return sum(op.kernels for op in self.ops)


def layer_calls(bench: Bench, arch: Architecture, rows: int, clock: Clock) -> LayerCalls:
    """The first layer of the architecture at that many rows."""
    ops = lean_pass(arch).layers[0]
    calls = tuple(bench.one(arch, op, rows) for op in ops)
    alone = (
        clock.call_ns(one, gemm_us(op.shape, rows) if isinstance(op.shape, Gemm) else 5.0, rows)
        for op, one in zip(ops, calls, strict=True)
    )
    return LayerCalls(ops, calls, tuple(alone))


def gaps(
    bench: Bench, arch: Architecture, rows: Sequence[int], clock: Clock
) -> list[dict[str, float]]:
    """For each number of rows the gaps in ns: see ``simcg.hardware.profile.Gaps``."""
    return [{"rows": r, **_gaps_of(layer_calls(bench, arch, r, clock), r, clock)} for r in rows]


def _gaps_of(layer: LayerCalls, rows: int, clock: Clock) -> dict[str, float]:
    chain, samples = layer.sequence(ROUNDS), clock.pace.samples
    whole = clock.graph_ns(chain, rows).divided(ROUNDS)
    # at the clocks of the whole
    alone_ns = sum(one.ns * whole.beside_ns / one.beside_ns for one in layer.alone)
    node = (whole.ns - alone_ns) / layer.kernels

    def eagerly() -> None:
        for call in chain:
            call()

    in_graph = capture(chain)
    issued, replayed = (
        statistics.median(events_ns(body, samples)) for body in (eagerly, in_graph.replay)
    )
    in_graph.reset()
    more = (issued - (replayed - clock.start_ns)) / ROUNDS / layer.kernels
    return {"node": node, "stream": node + more, "graph_start": _graph_start(layer, samples)}


def _graph_start(layer: LayerCalls, samples: int) -> float:
    """Graphs of a layer without its breaks in a row, less one graph of them all."""
    inside = layer.sequence(ROUNDS, breaks=False)
    one = capture(inside)
    size = len(inside) // ROUNDS
    segments = [capture(inside[i * size : (i + 1) * size]) for i in range(ROUNDS)]

    def graphs() -> None:
        for segment in segments:
            segment.replay()

    apart, together = (
        statistics.median(sustained_ns(body, samples)) for body in (graphs, one.replay)
    )
    for graph in (one, *segments):
        graph.reset()
    return (apart - together) / (ROUNDS - 1)


def breaks(
    arch: Architecture,
    device: GraphDevice,
    rows: Sequence[int],
    depths: Sequence[int],
    samples: int,
) -> list[dict[str, float]]:
    """GPU time of a replay by the breakable and the full backend, in turns, where it is the bound.

    Decoders of real widths and several depths: a layer more is a break more.
    """
    inside = sum(op.kernels for op in lean_pass(arch).layers[0] if op.is_break)
    out: list[dict[str, float]] = []
    for layers in depths:
        short = replace(arch, layer_kinds=arch.layer_kinds[:layers])
        for r in rows:
            small = SmallDecoder.of(short, device.device, r)
            backends = full(device), breakable(device)
            with using(small.attention):
                for backend in backends:
                    backend.capture_one(Bucket(r, 1), small.forward())
                whole, broken = _in_turns(backends, Bucket(r, 1), samples)
            for backend in backends:
                backend.cleanup()
            out.append(
                {"rows": r, "layers": layers, "break_kernels": inside, "full_ns": whole,
                 "breakable_ns": broken}
            )  # fmt: skip
    return out


def _in_turns(backends: Sequence[Backend], key: Bucket, samples: int) -> list[float]:
    """Median GPU time of one replay in ns, of each."""

    def several(backend: Backend) -> None:
        for _ in range(REPLAYS):
            backend.replay(key)

    bodies = [partial(several, backend) for backend in backends]
    pairs = [[timed(body) for body in bodies] for _ in range(samples + 2)]
    torch.cuda.synchronize()
    return [
        statistics.median(p[i][0].elapsed_time(p[i][1]) * 1e6 / REPLAYS for p in pairs[2:])
        for i in range(len(bodies))
    ]
