"""The parts of the formal machine alone: terms, blocks, streams, layout, and how they are told."""

from __future__ import annotations

import pickle
from itertools import pairwise, permutations

from hypothesis import given
from hypothesis import strategies as st

from simcg.formal.launch import Launch, Marker, scheduled
from simcg.formal.machine import Machine, layout_of
from simcg.formal.memory import Blocks
from simcg.formal.program import Op, Program
from simcg.formal.terms import Terms
from simcg.formal.violation import Violation


@given(st.lists(st.integers(min_value=-12, max_value=6), max_size=40))
def test_blocks_in_use_never_overlap_and_come_back_whole(moves: list[int]) -> None:
    """A positive move takes so many cells, another frees the block of that number."""
    blocks, base, size = Blocks(100, 24), 100, 24
    for move in moves:
        if move > 0:
            free = [cells for _, cells in blocks.free_ranges()]
            try:
                address = blocks.allocate(move)
            except MemoryError:
                assert max(free, default=0) < move
            else:
                assert blocks.live[address] == move
                assert min(cells for cells in free if cells >= move) in free
        elif blocks.live:
            blocks.free(sorted(blocks.live)[-move % len(blocks.live)])
        every = sorted([*blocks.live.items(), *blocks.free_ranges()])
        at = base
        for address, cells in every:
            assert address == at
            at += cells
        assert at == base + size
        free_ranges = blocks.free_ranges()
        assert all(a + n < b for (a, n), (b, _) in pairwise(free_ranges))
    for address in list(blocks.live):
        blocks.free(address)
    assert blocks.free_ranges() == [(base, size)]


def test_the_tightest_hole_is_taken() -> None:
    blocks = Blocks(0, 20)
    first, _, third, _ = (blocks.allocate(n) for n in (6, 1, 3, 1))
    blocks.free(first)
    blocks.free(third)
    assert blocks.allocate(2) == third


def test_a_restored_allocator_goes_on_as_from_its_snapshot() -> None:
    blocks = Blocks(0, 20)
    blocks.allocate(3)
    at = blocks.snapshot()
    again = [blocks.allocate(2), blocks.allocate(5)]
    blocks.restore(at)
    assert [blocks.allocate(2), blocks.allocate(5)] == again


def linear(entries: tuple[Launch | Marker, ...]) -> set[tuple[int, ...]]:
    """Every order that program order on each stream, forks and joins allow, by brute force."""
    launches = [e for e in entries if isinstance(e, Launch)]
    before: set[tuple[int, int]] = set()
    main: list[int] = []
    side: list[int] = []
    wait_main: list[int] = []
    wait_side: list[int] = []
    for entry in entries:
        if entry == "fork":
            wait_side = list(main)
        elif entry == "join":
            wait_main = list(side)
        elif isinstance(entry, Launch):
            stream, wait = (side, wait_side) if entry.side else (main, wait_main)
            before |= {(a, entry.op) for a in [*stream, *wait]}
            stream.append(entry.op)
    return {
        order
        for order in permutations(launch.op for launch in launches)
        if all(order.index(a) < order.index(b) for a, b in before)
    }


@given(st.lists(st.sampled_from(["main", "side", "fork", "join"]), max_size=8))
def test_early_and_late_are_orders_that_the_events_allow_and_its_extremes(
    words: list[str],
) -> None:
    entries: list[Launch | Marker] = []
    for number, word in enumerate(words):
        if word == "fork":
            entries.append("fork")
        elif word == "join":
            entries.append("join")
        else:
            entries.append(Launch(number, "gemm", (), (), 0, 1, 1, side=word == "side"))
    allowed = linear(tuple(entries))
    sides = {e.op for e in entries if isinstance(e, Launch) and e.side}
    early, late = (
        tuple(launch.op for launch in scheduled(tuple(entries), late=which))
        for which in (False, True)
    )
    assert {early, late} <= allowed
    for side in sides:
        assert early.index(side) == min(order.index(side) for order in allowed)
        assert late.index(side) == max(order.index(side) for order in allowed)


def test_equal_terms_are_the_same_number_and_others_are_not() -> None:
    terms = Terms()
    a, b = terms.make("token", 0, 1), terms.make("token", 1, 0)
    assert a == terms.make("token", 0, 1) != b
    assert terms.applied("gemm", 0)[a] == terms.make("gemm", 0, a) != terms.make("gemm", 1, a)
    assert terms.holds(terms.make("add", 2, a, b), b)
    assert not terms.holds(terms.make("add", 2, a, a), b)


def test_a_copy_of_terms_keeps_the_numbers_and_grows_alone() -> None:
    terms = Terms()
    a = terms.make("token", 0, 0)
    copy = terms.copy()
    assert copy.make("token", 0, 0) == a
    copy.make("gemm", 0, a)
    assert len(terms) + 1 == len(copy)


def test_regions_lie_one_after_the_other_and_sinks_are_their_last_cells() -> None:
    program = Program((Op("scatter", (0,)), Op("state", (0,))))
    layout = layout_of(program, tokens=4, slots=2, rows=2, length=3)
    at = Machine(Terms(), program, layout).at
    sizes = [(at.statics[name], layout.static_cells(name)) for name in at.statics]
    sizes += [(at.out, 4), (at.caches[0], 7), (at.states[1], 3)]
    sizes += [(at.pool, layout.pool_cells), (at.outside, layout.outside_cells)]
    end = 0
    for base, cells in sizes:
        assert base == end
        end += cells
    assert end == at.cells
    assert at.worlds == (at.caches[0], at.pool)
    assert at.sinks == (at.caches[0] + 6, at.states[1] + 2)


def test_a_violation_crosses_processes_with_its_story() -> None:
    violation = Violation("I4", "found something", "t1 = gemm(ids)", ["first", "then"])
    violation.key = "I21"
    other = pickle.loads(pickle.dumps(violation))
    assert (str(other), other.op, other.story) == (str(violation), violation.op, violation.story)
    assert "I21 stream order" in str(other)
