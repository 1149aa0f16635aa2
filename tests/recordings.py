"""A clean recording of two buckets, made by hand, and ways to edit it.

The forward: two products, a cache write, a break that mixes into an out-parameter, columns written
apart, a break that returns a tensor, a side stream, and a copy to the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from simcg.formal.recording import (
    VERSION,
    Allocate,
    Argument,
    Break,
    Event,
    Free,
    Item,
    Op,
    Recording,
    Recordings,
    Region,
    Segment,
    Signal,
    Storage,
    Wait,
)

IDS, W, KV, OUT, H, Q, MIXED, TMP, WIDE, TMP2, BUF, SIDE = range(12)
ROW, POOL, COLUMNS = 32, 0x100000, 2 * 32
LARGE, SMALL = 0, 1
"""The captures: 8 and 4 tokens."""


def storages(tokens: int) -> list[Storage]:
    """``WIDE`` lies where ``H`` was, ``BUF`` where ``Q`` was."""
    size = tokens * ROW
    return [
        Storage(8 * ROW, 0x1000, "outside", "static", "ids"),
        Storage(1024, 0x2000, "outside", "constant", "w"),
        Storage(4096, 0x4000, "outside", "cache", "kv"),
        Storage(8 * ROW, 0x8000, "outside", "output", "out"),
        Storage(size, POOL, "pool"),
        Storage(size, POOL + 0x400, "pool"),
        Storage(size, POOL + 0x800, "pool"),
        Storage(size, 0x9000, "outside", fresh=True, gone=True),
        Storage(2 * size, POOL, "pool"),
        Storage(2 * size, 0x9000, "outside", fresh=True, gone=True),
        Storage(2 * size, POOL + 0x400, "pool"),
        Storage(2 * size, POOL + 0xC00, "pool"),
    ]


def whole(index: int, tokens: int) -> Region:
    """What a bucket uses of a storage."""
    sizes = {IDS: tokens * ROW, OUT: tokens * ROW}
    return Region(index, 0, sizes.get(index, storages(tokens)[index].bytes))


def columns(tokens: int, first: int) -> Region:
    """Half of the columns of ``WIDE``."""
    length = (tokens - 1) * COLUMNS + ROW
    return Region(WIDE, first, length, (tokens, ROW // 4), (COLUMNS, 4))


def capture(tokens: int) -> Recording:
    """The recording of one bucket."""

    def r(index: int) -> Region:
        return whole(index, tokens)

    left, right = columns(tokens, 0), columns(tokens, ROW)
    first: list[Event] = [
        Allocate(H),
        Op("aten.mm.default", (r(IDS), r(W)), (r(H),)),
        Allocate(Q),
        Op("aten.mm.default", (r(H), r(W)), (r(Q),), {"scale": 0.5}),
        Op("aten.index_copy_.default", (r(KV), r(Q)), (r(KV),)),
        Free(H),
        Allocate(MIXED),
    ]
    attend: list[Event] = [
        Op("aten.mul.Tensor", (r(Q), r(KV)), (r(TMP),)),
        Op("aten.copy_.default", (r(TMP),), (r(MIXED),)),
    ]
    second: list[Event] = [
        Free(Q),
        Allocate(WIDE),
        Op("aten.copy_.default", (r(MIXED),), (left,)),
        Op("aten.arange.out", (), (right,), {"end": tokens}),
    ]
    add_one: list[Event] = [Op("aten.add.Tensor", (r(WIDE),), (r(TMP2),))]
    third: list[Event] = [
        Allocate(BUF),
        Op("aten.relu_.default", (r(BUF),), (r(BUF),)),
        Signal(0, 1),
        Wait(1, 1),
        Allocate(SIDE),
        Op("aten.neg.default", (r(BUF),), (r(SIDE),), {}, 1),
        Signal(1, 2),
        Wait(0, 2),
        Op("aten.sum.out", (r(BUF), r(SIDE)), (r(OUT),)),
        Free(BUF),
        Free(SIDE),
    ]
    mixing = (
        Argument("0", "weak", r(Q)),
        Argument("1", "weak", r(MIXED)),
        Argument("2", "strong", r(KV)),
        Argument("3", "value", None, 7),
    )
    items: tuple[Item, ...] = (
        Segment(3, tuple(first)),
        Break("attend", mixing, events=tuple(attend)),
        Segment(2, tuple(second)),
        Break("add_one", (Argument("0", "weak", r(WIDE)),), (r(BUF),), events=tuple(add_one)),
        Segment(3, tuple(third)),
    )
    return Recording("breakable", tokens, 0, tuple(storages(tokens)), items, r(OUT))


def clean() -> Recordings:
    """Both buckets, the larger first."""
    return Recordings(VERSION, "cpu", "2.13", (capture(8), capture(4)))


Edit = Callable[[Recordings], Recordings]


def on_capture(number: int, change: Callable[[Recording], Recording]) -> Edit:
    """One of the captures changed."""

    def edit(recordings: Recordings) -> Recordings:
        captures = list(recordings.captures)
        captures[number] = change(captures[number])
        return replace(recordings, captures=tuple(captures))

    return edit


def storage(index: int, number: int = LARGE, **changes: Any) -> Edit:
    """A storage with other fields."""

    def change(recording: Recording) -> Recording:
        found = list(recording.storages)
        found[index] = replace(found[index], **changes)
        return replace(recording, storages=tuple(found))

    return on_capture(number, change)


def item(position: int, number: int = LARGE, **changes: Any) -> Edit:
    """An item with other fields."""

    def change(recording: Recording) -> Recording:
        found = list(recording.items)
        found[position] = replace(found[position], **changes)
        return replace(recording, items=tuple(found))

    return on_capture(number, change)


def events(
    position: int, change: Callable[[list[Event]], Iterable[Event]], number: int = LARGE
) -> Edit:
    """An item with other events."""

    def changed(recording: Recording) -> Recording:
        found = list(recording.items)
        found[position] = replace(
            found[position], events=tuple(change(list(found[position].events)))
        )
        return replace(recording, items=tuple(found))

    return on_capture(number, changed)


def dropped(position: int, *places: int) -> Edit:
    """Events left out."""
    return events(
        position, lambda found: [e for place, e in enumerate(found) if place not in places]
    )


def inserted(position: int, place: int, *new: Event, number: int = LARGE) -> Edit:
    """Events put in."""
    return events(position, lambda found: [*found[:place], *new, *found[place:]], number)


def op(position: int, place: int, number: int = LARGE, **changes: Any) -> Edit:
    """An operator with other fields."""

    def change(found: list[Event]) -> list[Event]:
        one = found[place]
        assert isinstance(one, Op)
        found[place] = replace(one, **changes)
        return found

    return events(position, change, number)


def nodes(position: int, count: int) -> Edit:
    """A segment of so many kernels."""
    return item(position, nodes=count)


def both(*edits: Edit) -> Edit:
    """One after the other."""

    def edit(recordings: Recordings) -> Recordings:
        for one in edits:
            recordings = one(recordings)
        return recordings

    return edit
