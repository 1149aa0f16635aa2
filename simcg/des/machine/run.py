"""What a run of the machine gives: when it ended, and where the time of every rank went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SpanKind = Literal[
    "dispatch", "replay", "break", "work", "held", "synced",  # on the host
    "launch", "kernel", "collective", "peers",  # on a stream
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasts, on the host (``stream`` is "") or on a stream of a rank.

    ``dispatch``, ``replay``, ``break``: the host's call for kernels, a graph, a break.  ``work``: a
    call that launches nothing.  ``held``: the host waits for a place in the launch queue.
    ``synced``: for a stream's end.  ``launch``: all kernels of a call that has several.
    ``peers``: a collective waits for the last rank.  ``call``: the place of the call it comes from.
    """

    rank: int
    stream: str
    kind: SpanKind
    name: str
    start_ns: int
    duration_ns: int
    call: int


@dataclass(frozen=True, slots=True)
class StreamRun:
    """One stream of one rank; the five parts add up to ``end_ns``, the end of its last kernel.

    ``busy_ns``: kernels run.  ``gap_ns``: gaps that the GPU needs.  ``peers_ns``: collectives wait
    for other ranks.  ``events_ns``: until events of other streams.  ``starved_ns``: nothing that
    the host has launched could have run.
    """

    name: str
    end_ns: int
    busy_ns: int
    gap_ns: int
    peers_ns: int
    events_ns: int
    starved_ns: int


@dataclass(frozen=True, slots=True)
class RankRun:
    """One rank: ``host_ns`` until its host has issued all, of which it waited ``held_ns`` for a
    place in a launch queue and ``synced_ns`` in syncs.
    """

    host_ns: int
    held_ns: int
    synced_ns: int
    streams: tuple[StreamRun, ...]

    @property
    def end_ns(self) -> int:
        """When its last kernel has ended; 0 if it ran none."""
        return max((stream.end_ns for stream in self.streams), default=0)


@dataclass(frozen=True, slots=True)
class StepRun:
    """A run of all ranks from an idle start; ``spans`` is empty unless they were asked for."""

    ranks: tuple[RankRun, ...]
    spans: tuple[Span, ...] = ()

    @property
    def end_ns(self) -> int:
        """When the last kernel of the last rank has ended: the step time."""
        return max(rank.end_ns for rank in self.ranks)

    @property
    def host_ns(self) -> int:
        """When the last host has issued all."""
        return max(rank.host_ns for rank in self.ranks)

    @property
    def peers_share(self) -> float:
        """The share of the step that a stream spends waiting for other ranks, mean over ranks.

        Of each rank the stream that waits most counts.
        """
        waits = [max((s.peers_ns for s in r.streams), default=0) for r in self.ranks]
        return sum(waits) / len(waits) / self.end_ns if self.end_ns else 0.0
