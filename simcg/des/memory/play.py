"""Plays a trace in the allocator: where all lies, and how full memory is after each event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Ints
from simcg.des.memory.allocator import Allocator, Segment
from simcg.des.memory.trace import GRAPHS, Event, Trace
from simcg.errors import SimcgError


@dataclass(frozen=True, slots=True)
class Placement:
    """The block that holds a tensor."""

    address: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class SegmentLife:
    """A segment exists from event ``first`` on, until ``last`` returned it (None: to the end)."""

    segment: Segment
    first: int
    last: int | None


@dataclass(frozen=True, slots=True)
class Columns:
    """Bytes after each event, as ``Usage`` counts them."""

    reserved: Ints
    allocated: Ints
    inactive_split: Ints


@dataclass(frozen=True, slots=True)
class Played:
    """``placements[t]`` is the block of tensor t; ``everything``: all pools; ``graphs``: theirs."""

    placements: tuple[Placement, ...]
    segments: tuple[SegmentLife, ...]
    everything: Columns
    graphs: Columns


def play(trace: Trace, allocator: Allocator | None = None) -> Played:
    """The events in order, in a fresh allocator if none is given; raises ``OutOfMemoryError``."""
    memory = Allocator() if allocator is None else allocator
    placements: list[Placement] = []
    log: list[tuple[Segment, bool, int]] = []
    rows: list[tuple[int, ...]] = []
    every, own = memory.usage, memory.of_pool(GRAPHS)
    for index, event in enumerate(trace.events):
        seen = len(memory.segments)
        _apply(event, memory, placements)
        if len(memory.segments) > seen:
            log += [(segment, came, index) for segment, came in memory.segments[seen:]]
        rows.append(
            (every.reserved, every.allocated, every.inactive_split,
             own.reserved, own.allocated, own.inactive_split)
        )  # fmt: skip
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    return Played(
        tuple(placements), _lives(log), Columns(*table[:, :3].T), Columns(*table[:, 3:].T)
    )


def played_out(trace: Trace) -> Allocator:
    """A fresh allocator after all events."""
    memory = Allocator()
    placements: list[Placement] = []
    for event in trace.events:
        _apply(event, memory, placements)
    return memory


def _apply(event: Event, memory: Allocator, placements: list[Placement]) -> None:
    match event.kind:
        case "allocate":
            if event.tensor != len(placements):
                raise SimcgError(f"tensor {event.tensor} out of order: {len(placements)} is next")
            address = memory.allocate(event.nbytes, event.pool, event.stream)
            placements.append(Placement(address, memory.block_bytes(address)))
        case "free":
            memory.release(placements[event.tensor].address)
        case "release_cached":
            memory.release_cached()


def _lives(log: list[tuple[Segment, bool, int]]) -> tuple[SegmentLife, ...]:
    """The addresses of segments are never used again, so each has one life."""
    last = {segment.address: index for segment, came, index in log if not came}
    return tuple(
        SegmentLife(segment, index, last.get(segment.address))
        for segment, came, index in log
        if came
    )
