"""A forward's layer that keeps the GPU as busy as a server does while single ops are timed.

Clocks follow power. A loop of one product draws more of it than a forward and runs at lower
clocks (4-5 % slower at 256-512 rows on an H200); a burst on an idle GPU runs at clocks that no
forward keeps (6-14 % faster). So an op is timed in turns with a layer at about the same rows. The
layer's weights are far larger than L2, so the op's operands are cold each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from real_gpu.calibrate.issue import Bench, Call
from real_gpu.calibrate.timing import capture, sustained_ns, warm
from simcg.model.architecture import Architecture
from simcg.model.lean import lean_pass
from simcg.model.ops import Gemm

GRID = (16, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
"""Rows of the layers: clocks change little between two of them."""
LEAST_US = 2000.0


@dataclass(frozen=True, slots=True)
class Layers:
    """A graph of ``count`` whole layers at ``rows`` rows, and about how long it runs.

    ``calls``: they own the memory that the graph works on.
    """

    rows: int
    count: int
    calls: list[Call]
    graph: torch.cuda.CUDAGraph
    ns: float


@dataclass(frozen=True)
class Company:
    """Layers of one architecture, captured when they are first asked for."""

    bench: Bench
    arch: Architecture
    _graphs: dict[int, Layers] = field(default_factory=dict)
    _weights: dict[Gemm, list[torch.Tensor]] = field(default_factory=dict)

    def at(self, rows: int) -> Layers:
        """At least 2 ms of layers at the next number of rows on the grid."""
        size = next((r for r in GRID if r >= rows), GRID[-1])
        if size not in self._graphs:
            self._graphs[size] = self._layers(size)
        return self._graphs[size]

    def _layers(self, rows: int) -> Layers:
        calls = self._calls(rows)
        warm(calls)
        one = capture(calls)
        ns = min(sustained_ns(one.replay, 5))
        one.reset()
        repeats = max(1, round(LEAST_US * 1e3 / ns))
        return Layers(rows, repeats, calls, capture(calls * repeats), ns * repeats)

    def _calls(self, rows: int) -> list[Call]:
        """A layer in order, over the same weights at every number of rows."""
        calls: list[Call] = []
        for op in lean_pass(self.arch).layers[0]:
            if isinstance(op.shape, Gemm):
                if op.shape not in self._weights:
                    self._weights[op.shape] = self.bench.matrices(op.shape, most=1)
                calls += self.bench.gemm(self._weights[op.shape], rows)
            else:
                calls += self.bench.one(self.arch, op, rows)[:1]
        return calls
