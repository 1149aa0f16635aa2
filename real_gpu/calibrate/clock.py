"""The time of an op in the company of a forward: see ``company``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch

from real_gpu.calibrate.company import Company
from real_gpu.calibrate.issue import Call
from real_gpu.calibrate.timing import FEWEST_SAMPLES, Pace, capture, robust, timed, warm

MOST_CALLS = 400
START_NODES = (4, 44)
START_SAMPLES = 31


class Timed(NamedTuple):
    """GPU time in ns with its spread, and that of the layers that ran in turns with it.

    Clocks wander by some percent over seconds. The layers run at the same clocks, so their time
    says how fast the GPU was just then; ``beside_rows`` tells which layers they were.
    """

    ns: float
    spread_ns: float
    beside_rows: int
    beside_ns: float

    def divided(self, count: int) -> Timed:
        """One of ``count`` equal parts."""
        return self._replace(ns=self.ns / count, spread_ns=self.spread_ns / count)


@dataclass(frozen=True)
class Clock:
    """Times graphs in turns with the layers of ``company``."""

    company: Company
    pace: Pace

    def call_ns(self, calls: Sequence[Call], guess_us: float, rows: int) -> Timed:
        """One call inside a graph.

        The calls are repeated in order until the graph lasts ``pace.graph_us`` by the guess.
        ``rows``: what the layers beside it run at.
        """
        count = max(1, min(MOST_CALLS, round(self.pace.graph_us / max(guess_us, 1.0))))
        sequence = [calls[i % len(calls)] for i in range(count)]
        return self.graph_ns(sequence, rows).divided(count)

    def graph_ns(self, sequence: Sequence[Call], rows: int) -> Timed:
        """A graph of the sequence, without the gap before its first node."""
        found = self._with_start(sequence, rows, self.pace.samples)
        return found._replace(ns=max(1.0, found.ns - self.start_ns))

    @cached_property
    def start_ns(self) -> float:
        """From the end of other work to the first node of a graph behind it, as events see it.

        The events around a graph include it, so it is taken off: 15 us are 3 % of a graph of
        500 us. It is what two chains of tiny nodes take beyond their nodes.
        """
        x = torch.zeros(64, device=self.company.bench.device)
        few, many = (
            self._with_start([lambda: x.add_(1)] * nodes, 64, START_SAMPLES).ns
            for nodes in START_NODES
        )
        node = (many - few) / (START_NODES[1] - START_NODES[0])
        return few - START_NODES[0] * node

    def _with_start(self, sequence: Sequence[Call], rows: int, most: int) -> Timed:
        """The host captures while the GPU works on the layers, so that it hardly ever rests."""
        layers, pace = self.company.at(rows), self.pace
        for _ in range(math.ceil(pace.busy_ms * 1e6 / layers.ns)):
            layers.graph.replay()
        warm(list(dict.fromkeys(sequence)))
        graph = capture(sequence)
        first = timed(graph.replay)  # uploads it
        torch.cuda.synchronize()
        turn_ms = first[0].elapsed_time(first[1]) + layers.ns / 1e6
        few = max(min(FEWEST_SAMPLES, most), min(most, round(pace.sampled_ms / turn_ms)))
        turns = [(timed(layers.graph.replay), timed(graph.replay)) for _ in range(few)]
        torch.cuda.synchronize()
        graph.reset()
        beside, own = (
            [begin.elapsed_time(end) * 1e6 for begin, end in column]
            for column in zip(*turns, strict=True)
        )
        return Timed(*robust(own), layers.rows, statistics.median(beside))
