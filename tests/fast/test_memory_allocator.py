"""The model of the caching allocator against a plain one, and what its checker finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.des.memory import allocator
from simcg.des.memory.allocator import Allocator, OutOfMemoryError, rounded, segment_bytes
from simcg.des.memory.check import violations
from simcg.des.memory.play import Columns, Placement, Played, play
from simcg.des.memory.trace import GRAPHS, Event, Trace
from simcg.errors import SimcgError
from tests.allocator import MIB
from tests.memory_laws import (
    allocations_agree,
    places_of,
    plain_places,
    random_trace,
    trace_of,
)

TRACES = st.integers(0, 1 << 30).map(lambda seed: random_trace(seed, 120))


def test_the_allocator_keeps_its_laws() -> None:
    """The law that the mutants of tests/power break."""
    assert allocations_agree(allocator)


@given(TRACES)
def test_every_tensor_lies_where_a_plain_allocator_puts_it(trace: Trace) -> None:
    """One pool and stream never touches another: together they are as many plain allocators."""
    assert places_of(play(trace)) == plain_places(trace)


@given(TRACES)
def test_no_live_blocks_overlap_and_bytes_add_up_after_every_event(trace: Trace) -> None:
    """The checker recomputes lifetimes, segments and sums from the trace and the placements."""
    assert next(violations(trace, play(trace)), None) is None


@given(TRACES)
def test_equal_traces_have_equal_placements(trace: Trace) -> None:
    """Nothing but the trace decides."""
    one, two = play(trace), play(trace)
    assert (one.placements, one.segments) == (two.placements, two.segments)


@given(TRACES)
def test_graphs_get_all_the_memory_they_reserve_or_an_error(trace: Trace) -> None:
    """A capacity that is just reached changes nothing; a byte less is refused with figures."""
    events = [event._replace(pool=event.pool + GRAPHS) for event in trace.events]
    kept = trace_of([event for event in events if event.kind != "release_cached"])
    free = play(kept)
    most = int(free.everything.reserved[-1])
    assert play(kept, Allocator(most)).placements == free.placements
    with pytest.raises(OutOfMemoryError) as caught:
        play(kept, Allocator(most - 1))
    assert 0 < caught.value.asked - caught.value.free <= caught.value.asked


def test_a_full_device_names_what_is_asked_free_and_short() -> None:
    memory = Allocator(60 * MIB)
    memory.allocate(30 * MIB)
    expected = (
        "out of GPU memory: 41943040 bytes more are asked, 31457280 of 62914560 are free, "
        "10485760 are short"
    )
    with pytest.raises(OutOfMemoryError, match=expected):
        memory.allocate(40 * MIB, GRAPHS)


def test_a_recording_cannot_return_cached_memory_and_ordinary_work_does() -> None:
    """The same request fails in a pool of graphs and is served outside."""
    for pool in (GRAPHS, 0):
        memory = Allocator(40 * MIB)
        memory.release(memory.allocate(30 * MIB))
        if pool:
            with pytest.raises(OutOfMemoryError):
                memory.allocate(31 * MIB, pool)
        else:
            memory.allocate(31 * MIB, pool)


@pytest.mark.parametrize(
    ("nbytes", "block", "segment"),
    [(0, 512, 2), (1, 512, 2), (513, 1024, 2), (MIB, MIB, 2), (MIB + 1, MIB + 512, 20),
     (10 * MIB - 512, 10 * MIB - 512, 20), (10 * MIB, 10 * MIB, 10), (10 * MIB + 1,
     10 * MIB + 512, 12)],
)  # fmt: skip
def test_blocks_and_segments_have_the_published_sizes(
    nbytes: int, block: int, segment: int
) -> None:
    """Source: PyTorch, c10/cuda/CUDACachingAllocator, its size constants."""
    assert (rounded(nbytes), segment_bytes(block)) == (block, segment * MIB)


def test_freed_twice_is_refused() -> None:
    memory = Allocator()
    address = memory.allocate(5)
    memory.release(address)
    with pytest.raises(SimcgError, match="freed twice"):
        memory.release(address)


@pytest.mark.parametrize("capacity", [-1])
def test_a_negative_capacity_is_refused(capacity: int) -> None:
    with pytest.raises(SimcgError, match="bytes >= 0"):
        Allocator(capacity)


PAIR = trace_of(
    [
        Event("allocate", 0, 4 * MIB, GRAPHS, 1),
        Event("allocate", 1, 4 * MIB, GRAPHS, 1),
        Event("free", 0),
        Event("free", 1),
    ]
)


def _moved(played: Played, tensor: int, address: int, nbytes: int | None = None) -> Played:
    placed = list(played.placements)
    size = placed[tensor].nbytes if nbytes is None else nbytes
    placed[tensor] = Placement(address, size)
    return replace(played, placements=tuple(placed))


def _counted(played: Played, change: int) -> Played:
    graphs = played.graphs
    allocated = graphs.allocated + change
    return replace(played, graphs=Columns(graphs.reserved, allocated, graphs.inactive_split))


def _segments(played: Played, first: int = 0, last: int | None = None, more: int = 0) -> Played:
    life = replace(played.segments[0], first=first, last=last)
    return replace(played, segments=(*played.segments[:more], life))


FORGED: list[tuple[Callable[[Played], Played], str]] = [
    (lambda p: _moved(p, 1, 2 * MIB), "overlaps a live one"),
    (lambda p: _moved(p, 1, 18 * MIB), "lies in no segment"),
    (lambda p: _moved(p, 1, 64 * MIB), "lies in no segment"),
    (lambda p: _moved(p, 1, 8 * MIB, MIB), "smaller than it"),
    (lambda p: replace(p, placements=p.placements[:1]), "placed nowhere"),
    (lambda p: _counted(p, 512), "the graphs' pool has"),
    (lambda p: _segments(p, first=1, more=1), "overlaps another"),
    (lambda p: _segments(p, last=3), "of a graph pool was returned"),
    (lambda p: _segments(p, first=2), "lies in no segment"),
]


@pytest.mark.parametrize(("forged", "found"), FORGED)
def test_the_checker_finds_a_forged_result(forged: Callable[[Played], Played], found: str) -> None:
    """Each lie about a right result is named."""
    played = play(PAIR)
    assert next(violations(PAIR, played), None) is None
    assert any(found in wrong.what for wrong in violations(PAIR, forged(played)))


def test_the_checker_finds_a_tensor_freed_twice_or_in_another_pool() -> None:
    """The trace itself may be wrong, or its placements those of another one."""
    played = play(PAIR)
    twice = trace_of([*PAIR.events[:3], Event("free", 0)])
    assert "does not live" in next(violations(twice, played)).what
    other = trace_of([event._replace(stream=2) for event in PAIR.events])
    assert "another pool or stream" in next(violations(other, played)).what
