"""Checks what an allocator did from the trace and the placements alone; shares no code with it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass

from simcg.des.memory.play import Columns, Played, SegmentLife
from simcg.des.memory.trace import GRAPHS, Trace


@dataclass(frozen=True, slots=True)
class Violation:
    """What is wrong after event number ``event``."""

    event: int
    what: str


def violations(trace: Trace, played: Played) -> Iterator[Violation]:
    """Everything that contradicts the trace, in the order of events; nothing if all is well.

    Tensors live from their allocation to their free. Each must lie in a block large enough, within
    a segment of its pool and stream that exists throughout; live blocks and segments never
    overlap; segments of private pools stay; and the bytes reported after each event are those of
    the segments, of the live blocks and of the gaps between them.
    """
    memory = _Memory(played)
    for index, event in enumerate(trace.events):
        memory.segments_come(index)
        match event.kind:
            case "allocate":
                wrong = memory.born(event.tensor, event.nbytes, event.pool, event.stream)
            case "free":
                wrong = memory.died(event.tensor)
            case "release_cached":
                wrong = ""
        wrong = wrong or memory.segments_go(index) or memory.miscounted(index)
        if wrong:
            yield Violation(index, wrong)


@dataclass(slots=True)
class _Room:
    """A segment that exists, its live blocks as ascending (begin, end), and their bytes."""

    life: SegmentLife
    blocks: list[tuple[int, int]]
    used: int = 0

    @property
    def end(self) -> int:
        return self.life.segment.address + self.life.segment.nbytes

    @property
    def gaps(self) -> int:
        """Free bytes beside live blocks; a segment without any is free as a whole."""
        return self.life.segment.nbytes - self.used if self.blocks else 0


class _Memory:
    """The segments and live blocks as the trace and the placements say, and their sums."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self._come: dict[int, list[SegmentLife]] = {}
        self._go: dict[int, list[SegmentLife]] = {}
        for life in played.segments:
            self._come.setdefault(life.first, []).append(life)
            if life.last is not None:
                self._go.setdefault(life.last, []).append(life)
        self._rooms: dict[int, _Room] = {}
        self._addresses: list[int] = []
        self._alive: dict[int, _Room] = {}
        self._sums: dict[bool, list[int]] = {True: [0, 0, 0], False: [0, 0, 0]}
        self._wrong = ""

    def segments_come(self, index: int) -> None:
        """Segments reserved at this event exist from now on."""
        for life in self._come.get(index, []):
            segment = life.segment
            at = bisect_left(self._addresses, segment.address)
            below = self._rooms[self._addresses[at - 1]].end if at else 0
            above = self._addresses[at] if at < len(self._addresses) else None
            over = above is not None and segment.address + segment.nbytes > above
            if segment.address < below or over:
                self._wrong = f"the segment at {segment.address} overlaps another"
            self._addresses.insert(at, segment.address)
            self._rooms[segment.address] = _Room(life, [])
            self._add(segment.pool, segment.nbytes, 0, 0)

    def segments_go(self, index: int) -> str:
        """Segments returned at this event are gone; what must not have been."""
        for life in self._go.get(index, []):
            segment = life.segment
            room = self._rooms.pop(segment.address)
            self._addresses.remove(segment.address)
            self._add(segment.pool, -segment.nbytes, 0, -room.gaps)
            if room.blocks:
                self._wrong = f"the segment at {segment.address} went with blocks in use"
            if segment.pool >= GRAPHS:
                self._wrong = f"the segment at {segment.address} of a graph pool was returned"
        wrong, self._wrong = self._wrong, ""
        return wrong

    def born(self, tensor: int, nbytes: int, pool: int, stream: int) -> str:
        """What is wrong with where this tensor lies."""
        if tensor >= len(self._played.placements):
            return f"tensor {tensor} was placed nowhere"
        block = self._played.placements[tensor]
        begin, end = block.address, block.address + block.nbytes
        at = bisect_right(self._addresses, begin) - 1
        room = self._rooms[self._addresses[at]] if at >= 0 else None
        if room is None or end > room.end:
            return f"the block of tensor {tensor} lies in no segment"
        segment = room.life.segment
        if (segment.pool, segment.stream) != (pool, stream):
            return f"tensor {tensor} lies in a segment of another pool or stream"
        if block.nbytes < nbytes:
            return f"the block of tensor {tensor} is smaller than it"
        place = bisect_left(room.blocks, (begin, end))
        after = room.blocks[place][0] if place < len(room.blocks) else room.end
        if (place and room.blocks[place - 1][1] > begin) or end > after:
            return f"the block of tensor {tensor} overlaps a live one"
        self._change(room, (begin, end), born=True)
        self._alive[tensor] = room
        return ""

    def died(self, tensor: int) -> str:
        """What is wrong with freeing this tensor now."""
        room = self._alive.pop(tensor, None)
        if room is None:
            return f"tensor {tensor} is freed and does not live"
        block = self._played.placements[tensor]
        self._change(room, (block.address, block.address + block.nbytes), born=False)
        return ""

    def miscounted(self, index: int) -> str:
        """Which reported sum is not that of the segments, live blocks and gaps."""
        for only_graphs, name, columns in (
            (False, "memory", self._played.everything),
            (True, "the graphs' pool", self._played.graphs),
        ):
            if _row(columns, index) != tuple(self._sums[only_graphs]):
                told, true = _row(columns, index), tuple(self._sums[only_graphs])
                return f"{name} has (reserved, allocated, split) {true}, reported are {told}"
        return ""

    def _change(self, room: _Room, block: tuple[int, int], *, born: bool) -> None:
        before, size = room.gaps, block[1] - block[0]
        if born:
            insort(room.blocks, block)
        else:
            room.blocks.remove(block)
        change = size if born else -size
        room.used += change
        self._add(room.life.segment.pool, 0, change, room.gaps - before)

    def _add(self, pool: int, reserved: int, allocated: int, split: int) -> None:
        for only_graphs, sums in self._sums.items():
            if pool == GRAPHS or not only_graphs:
                for place, change in enumerate((reserved, allocated, split)):
                    sums[place] += change


def _row(columns: Columns, index: int) -> tuple[int, int, int]:
    return (
        int(columns.reserved[index]),
        int(columns.allocated[index]),
        int(columns.inactive_split[index]),
    )
