"""What the checks of recordings stand on, held to definitions by the byte and by the path."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simcg.formal.audit.clocks import MAIN, Clocks, Moment
from simcg.formal.audit.memory import NOBODY, Memory
from simcg.formal.audit.runs import Runs, common, runs_of
from simcg.formal.recording import Region


def as_bytes(runs: Runs) -> set[int]:
    return {
        address
        for start, end in zip(runs.starts, runs.ends, strict=True)
        for address in range(int(start), int(end))
    }


@st.composite
def strided(draw: st.DrawFn) -> Region:
    """Any shape and strides, overlapping ones among them."""
    item = draw(st.sampled_from((1, 2, 4)))
    shape = tuple(draw(st.lists(st.integers(2, 4), max_size=3)))
    strides = tuple(draw(st.integers(1, 12)) * item for _ in shape)
    size = item + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return Region(0, draw(st.integers(0, 9)), size, shape, strides)


@given(strided(), st.integers(0, 100))
def test_runs_are_the_bytes_of_the_elements(region: Region, base: int) -> None:
    """As enumerated element by element; ascending, apart from each other."""
    item = region.item_bytes
    expected = {
        base + region.offset + sum(i * s for i, s in zip(index, region.strides, strict=True)) + b
        for index in product(*map(range, region.shape))
        for b in range(item)
    }
    runs = runs_of(region, base)
    assert as_bytes(runs) == expected
    assert runs.exact
    assert all(runs.starts < runs.ends)
    assert all(runs.ends[:-1] < runs.starts[1:])


def test_too_many_runs_are_taken_for_all_bytes() -> None:
    """And are known not to be exact, so that what they write may be unwritten."""
    rows = 1 << 20
    runs = runs_of(Region(0, 0, (rows - 1) * 8 + 4, (rows,), (8,)), 16)
    assert (len(runs), runs.exact) == (1, False)
    assert (int(runs.starts[0]), int(runs.ends[0])) == (16, 16 + (rows - 1) * 8 + 4)


def test_a_tensor_without_gaps_is_one_exact_run_however_large() -> None:
    """In any order of its dimensions."""
    rows, columns, item = 1 << 19, 300, 4
    shape, strides = (columns, rows), (item, columns * item)
    for order in ((0, 1), (1, 0)):
        sizes = tuple(shape[i] for i in order), tuple(strides[i] for i in order)
        runs = runs_of(Region(0, 0, rows * columns * item, *sizes), 512)
        assert (len(runs), runs.exact) == (1, True)
        assert (int(runs.starts[0]), int(runs.ends[0])) == (512, 512 + rows * columns * item)


apart = st.lists(st.integers(0, 60), max_size=8, unique=True).map(
    lambda found: sorted(found)[: len(found) // 2 * 2]
)


def as_runs(edges: list[int]) -> Runs:
    return Runs(np.array(edges[::2], dtype=np.int64), np.array(edges[1::2], dtype=np.int64))


@given(st.lists(apart, max_size=8), apart)
def test_memory_knows_the_last_write_of_each_byte(
    writes: list[list[int]], reads: list[int]
) -> None:
    """As a table of bytes does, with the first address of each write, by address."""
    memory, table = Memory(), dict.fromkeys(range(-1, 70), NOBODY)
    for number, edges in enumerate(writes, 1):
        memory.write(as_runs(edges), number)
        table.update(dict.fromkeys(as_bytes(as_runs(edges)), number))
    first: dict[int, int] = {}
    for address in sorted(as_bytes(as_runs(reads))):
        first.setdefault(table[address], address)
    assert memory.read(as_runs(reads)) == list(first.items())
    assert as_bytes(memory.written()) == {a for a, number in table.items() if number != NOBODY}


@given(apart, apart)
def test_what_two_have_in_common_is_in_both(one: list[int], other: list[int]) -> None:
    """Byte by byte; also of none."""
    found = common(as_runs(one), as_runs(other))
    assert as_bytes(found) == as_bytes(as_runs(one)) & as_bytes(as_runs(other))
    assert all(found.starts < found.ends)


steps = st.lists(
    st.tuples(st.sampled_from(("op", "signal", "wait")), st.integers(0, 2), st.integers(0, 2)),
    max_size=14,
)


class Paths:
    """The same by a graph of steps: node 0 is where the main stream begins."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {MAIN: 0}
        self._edges: set[tuple[int, int]] = set()
        self._signals: dict[int, int] = {}

    def step(self, node: int, kind: str, stream: int, event: int) -> None:
        if stream in self.last:
            self._edges.add((self.last[stream], node))
        if kind == "wait" and event in self._signals:
            self._edges.add((self._signals[event], node))
        if kind == "signal":
            self._signals[event] = node
        self.last[stream] = node

    def before(self, stream: int) -> set[int]:
        """Nodes from which a path leads to the stream's latest step."""
        todo = [self.last[stream]] if stream in self.last else []
        found = set(todo)
        while todo:
            one = todo.pop()
            new = {a for a, b in self._edges if b == one} - found
            found |= new
            todo += new
        return found


@given(steps)
def test_clocks_are_reachability(program: list[tuple[str, int, int]]) -> None:
    """One operator is done before another exactly if a path of streams and events leads there."""
    clocks, paths = Clocks(0), Paths()
    ops: list[tuple[int, int, Moment]] = []
    for node, (kind, stream, event) in enumerate(program, 1):
        paths.step(node, kind, stream, event)
        if kind == "op":
            ops.append((node, stream, clocks.tick(stream)))
        else:
            (clocks.signal if kind == "signal" else clocks.wait)(stream, event)
    for stream in range(3):
        reached = paths.before(stream)
        assert clocks.forked(stream) == (0 in reached)
        assert [clocks.ordered(moment, stream) for *_, moment in ops] == [
            node in reached for node, *_ in ops
        ]
    joined = paths.before(MAIN)
    assert set(clocks.unjoined()) == {stream for node, stream, _ in ops if node not in joined}
