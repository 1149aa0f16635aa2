"""Step durations of one server: its kernels by part, and what the server adds to them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from simcg.reproduce.tables import StepTables


@dataclass(frozen=True, slots=True)
class Slowdown:
    """What a server takes beside its kernels as they were timed one by one.

    ``step_ns``: host time of every step that nothing hides (scheduling, sampling). ``kernel_ns``:
    more GPU time of each kernel than gap and table say, negative where launches overlap.
    ``prefill``: how many times as long the kernels of steps with prefills take as timed alone, on
    a cool GPU and requests of equal lengths. ``host``: how many times as long the engine's own
    code takes to issue an op that no graph holds as the calibrated host does.
    """

    step_ns: float = 0.0
    kernel_ns: float = 0.0
    prefill: float = 1.0
    host: float = 1.0


@dataclass(frozen=True, slots=True)
class Graphs:
    """Which steps replay. ``decode_sizes``: full graphs of decode steps; ``mixed_top``: most
    tokens of a step with prefills that is captured in pieces. ``fallback``: the backend of all
    other steps, by name.
    """

    decode_sizes: tuple[int, ...]
    mixed_top: int
    fallback: str


class ServerPrices:
    """``StepPrices`` of one server.

    A step with prefills lasts as long as the later of host and GPU: issuing all its ops, or
    their GPU time.
    """

    def __init__(self, tables: StepTables, graphs: Graphs, slowdown: Slowdown) -> None:
        self.tables, self.graphs, self.slowdown = tables, graphs, slowdown
        self._dense: dict[int, float] = {}

    def mixed_ns(self, tokens: int, pairs: int, decodes: int, keys: int) -> int:
        """A step of prefill tokens that attend to ``pairs`` keys, with decodes or without."""
        slow, tables = self.slowdown, self.tables
        rows = tokens + decodes
        dense, experts = tables.at(tables.prefill_parts, rows)
        device = (dense + experts + tables.prefill_attention(tokens, pairs)) * slow.prefill
        if decodes:
            device += tables.decode_attention(decodes, keys)
        device += tables.kernels[0] * slow.kernel_ns
        captured = rows <= self.graphs.mixed_top
        host = tables.host_ns["tc_piecewise" if captured else self.graphs.fallback] * slow.host
        return round(max(device, host) + slow.step_ns)

    def decode_ns(self, decodes: int, keys: int) -> int:
        """A step in which each request adds one token, attending to ``keys`` in all."""
        if decodes not in self._dense:
            self._dense[decodes] = self._bucket_ns(decodes)
        return round(self._dense[decodes] + self.tables.decode_attention(decodes, keys))

    def _bucket_ns(self, decodes: int) -> float:
        """All but attention of a decode step, in its bucket or, above the last, eagerly."""
        tables, sizes = self.tables, self.graphs.decode_sizes
        place = bisect_left(sizes, decodes)
        rows = sizes[place] if place < len(sizes) else decodes
        device = sum(tables.at(tables.decode_parts, rows))
        device += tables.kernels[1] * self.slowdown.kernel_ns
        if place == len(sizes):
            device = max(device, tables.host_ns[self.graphs.fallback] * self.slowdown.host)
        return device + self.slowdown.step_ns
