"""The time of an op in the company of a forward: see ``company``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from real_gpu.calibrate.company import Company
from real_gpu.calibrate.issue import Call
from real_gpu.calibrate.timing import FEWEST_SAMPLES, Pace, capture, robust, timed, warm

MOST_CALLS = 400
START_NODES = (4, 44)
START_SAMPLES = 31


@dataclass(frozen=True)
class Clock:
    """Times graphs in turns with the layers of ``company``."""

    company: Company
    pace: Pace

    def call_ns(self, calls: Sequence[Call], guess_us: float, rows: int) -> tuple[float, float]:
        """GPU time of one call inside a graph, in ns: (median, spread).

        The calls are repeated in order until the graph lasts ``pace.graph_us`` by the guess.
        ``rows``: what the layers beside it run at.
        """
        count = max(1, min(MOST_CALLS, round(self.pace.graph_us / max(guess_us, 1.0))))
        sequence = [calls[i % len(calls)] for i in range(count)]
        samples = self.graph_ns(sequence, rows, self.pace.samples)
        return robust([ns / count for ns in samples])

    def graph_ns(self, sequence: Sequence[Call], rows: int, samples: int) -> list[float]:
        """Samples of a graph of this sequence in ns, without the gap before its first node.

        The host captures while the GPU works on the layers; the GPU never rests.
        """
        samples_ns = self._with_start(sequence, rows, samples)
        return [max(1.0, ns - self.start_ns) for ns in samples_ns]

    @cached_property
    def start_ns(self) -> float:
        """From the end of other work to the first node of a graph behind it, as events see it.

        The events around a graph include it, so it is taken off: 15 us are 3 % of a graph of
        500 us. It is what two chains of tiny nodes take beyond their nodes.
        """
        x = torch.zeros(64, device=self.company.bench.device)
        few, many = (
            statistics.median(self._with_start([lambda: x.add_(1)] * nodes, 64, START_SAMPLES))
            for nodes in START_NODES
        )
        node = (many - few) / (START_NODES[1] - START_NODES[0])
        return few - START_NODES[0] * node

    def _with_start(self, sequence: Sequence[Call], rows: int, most: int) -> list[float]:
        layers, pace = self.company.at(rows), self.pace
        for _ in range(math.ceil(pace.busy_ms * 1e6 / layers.ns)):
            layers.graph.replay()
        warm(list(dict.fromkeys(sequence)))
        graph = capture(sequence)
        first = timed(graph.replay)  # uploads it
        torch.cuda.synchronize()
        turn_ms = first[0].elapsed_time(first[1]) + layers.ns / 1e6
        few = max(min(FEWEST_SAMPLES, most), min(most, round(pace.sampled_ms / turn_ms)))
        pairs = []
        for _ in range(few):
            layers.graph.replay()
            pairs.append(timed(graph.replay))
        torch.cuda.synchronize()
        graph.reset()
        return [begin.elapsed_time(end) * 1e6 for begin, end in pairs]
