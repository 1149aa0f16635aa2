"""The machine's memory: cells with a value and a tag, and the blocks that are handed out in it.

A tag says who wrote a cell last: (writer, bucket, epoch) for tensors, where the writer is 1 + the
operator's number and 0 the host, ("name", epoch) for static inputs. It is a ghost: nothing that
runs depends on it; it names the cause when something goes wrong.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

Tag = tuple[object, ...]
Range = tuple[int, int]
"""(address, cells)."""
Handed = tuple[dict[int, int], list[Range]]
"""An allocator's blocks in use, and its free ranges."""
UNWRITTEN: Tag = ("nothing",)
STATICS = ("ids", "slots", "positions", "offsets", "lengths", "rows", "fresh", "count")
BY_TOKEN = frozenset({"ids", "slots", "positions"})


@dataclass(slots=True)
class Memory:
    """Cells by address: what they hold and who wrote it."""

    value: list[int]
    tag: list[Tag]

    @staticmethod
    def of(cells: int, value: int) -> Memory:
        """So many cells that nobody has written."""
        return Memory([value] * cells, [UNWRITTEN] * cells)

    def fill(self, base: int, count: int, value: int, tag: Tag) -> None:
        """Write one value into ``count`` cells."""
        self.value[base : base + count] = [value] * count
        self.tag[base : base + count] = [tag] * count

    def put(self, base: int, values: list[int], tag: Tag) -> None:
        """Write the values from ``base`` on."""
        self.value[base : base + len(values)] = values
        self.tag[base : base + len(values)] = [tag] * len(values)


@dataclass(slots=True)
class Blocks:
    """An allocator over [base, base + size): best fit, freed neighbours are merged.

    ``live``: cells of each block in use, by address.
    """

    base: int
    size: int
    live: dict[int, int] = field(default_factory=dict)
    _free: list[Range] = field(default_factory=list)  # (address, cells), ascending

    def __post_init__(self) -> None:
        self._free = [(self.base, self.size)]

    def allocate(self, cells: int) -> int:
        """The address of a new block; ``MemoryError`` when nothing fits."""
        fitting = [(size, address) for address, size in self._free if size >= cells]
        if not fitting:
            raise MemoryError(f"no {cells} free cells")
        size, address = min(fitting)
        self._free.remove((address, size))
        if size > cells:
            insort(self._free, (address + cells, size - cells))
        self.live[address] = cells
        return address

    def free(self, address: int) -> None:
        """Give a block back."""
        insort(self._free, (address, self.live.pop(address)))
        merged: list[Range] = []
        for start, size in self._free:
            if merged and merged[-1][0] + merged[-1][1] == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((start, size))
        self._free = merged

    def free_ranges(self) -> list[Range]:
        """(address, cells) of what is free."""
        return list(self._free)

    def snapshot(self) -> Handed:
        """What ``restore`` takes."""
        return dict(self.live), list(self._free)

    def restore(self, state: Handed) -> None:
        """Be as at a snapshot."""
        if self._free != state[1]:
            self.live, self._free = dict(state[0]), list(state[1])


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything lies. ``tokens``, ``slots``: of the largest step or bucket.

    A cache has ``rows`` of ``length`` slots and one more, the sink; states have ``rows`` and one
    more. Slot r * length + p holds position p of row r. Nothing lies outside ``cells``.
    """

    tokens: int
    slots: int
    rows: int
    length: int
    caches: tuple[int, ...]
    states: tuple[int, ...]
    pool_cells: int
    outside_cells: int

    @property
    def sink(self) -> int:
        """The slot that padding writes: behind the last real one."""
        return self.rows * self.length

    def static_cells(self, name: str) -> int:
        """Cells of a static input."""
        if name in BY_TOKEN:
            return self.tokens
        return {"offsets": self.slots + 1, "count": 1}.get(name, self.slots)

    def addresses(self) -> Addresses:
        """Base addresses of all regions, one after the other."""
        statics, at = {}, 0
        for name in STATICS:
            statics[name] = at
            at += self.static_cells(name)
        out, at = at, at + self.tokens
        caches, states = {}, {}
        for index in self.caches:
            caches[index], at = at, at + self.sink + 1
        for index in self.states:
            states[index], at = at, at + self.rows + 1
        worlds = (out + self.tokens, at)
        pool, at = at, at + self.pool_cells
        outside, at = at, at + self.outside_cells
        sinks = [base + self.sink for base in caches.values()]
        sinks += [base + self.rows for base in states.values()]
        return Addresses(statics, out, caches, states, worlds, tuple(sinks), pool, outside, at)


@dataclass(frozen=True, slots=True)
class Addresses:
    """The base of each region; ``cells``: how many there are in all.

    ``worlds``: first cell and end of all caches and states; ``sinks``: the cells for padding in it.
    """

    statics: dict[str, int]
    out: int
    caches: dict[int, int]
    states: dict[int, int]
    worlds: Range
    sinks: tuple[int, ...]
    pool: int
    outside: int
    cells: int
