"""What a capture keeps: launches with baked addresses and scalars, in segments between breaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from simcg.formal.program import Kind

Key = tuple[int, ...]
"""What a capture is filed under: the bucket's place in the ladder, and baked host scalars."""
Held = Literal["weak", "strong"]
OUTPUT: Literal["output"] = "output"


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel. ``op``: its operator's number; the copy to the output comes after the last.

    ``inputs``: addresses; ``expects``: the writer whose rows the program means there; ``out``:
    address of the result. ``rows``, ``slots``: the launch's shape. ``baked``: its host scalar.
    ``extra``: address of the tensor that ``constant`` and ``borrow`` read.
    """

    op: int
    kind: Kind | Literal["output"]
    inputs: tuple[int, ...]
    expects: tuple[int, ...]
    out: int
    rows: int
    slots: int
    baked: int = 0
    extra: int = -1
    side: bool = False


Marker = Literal["fork", "join"]
"""``fork``: the second stream goes on after all of the first; ``join``: the first after it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A graph: launches in the order of capture, with the events between the streams."""

    entries: tuple[Launch | Marker, ...]
    early: tuple[Launch, ...]
    late: tuple[Launch, ...]
    """The launches with the second stream as early, and as late, as the events allow."""


@dataclass(frozen=True, slots=True)
class Break:
    """A call between segments. ``held``: how the replay keeps each input, then ``extra``.

    ``result``: the boundary buffer into which a replay copies; -1 where it writes in place.
    ``rebinds``: the result's buffer is exchanged instead, which the next segment cannot know.
    ``inner``: the breaks that are called inside it.
    """

    launch: Launch
    held: tuple[Held, ...]
    result: int
    rebinds: bool = False
    inner: tuple[Break, ...] = ()


Item = Segment | Break


@dataclass(slots=True)
class Capture:
    """One key's recording. ``statics``: addresses of static inputs; ``holds``: outside blocks.

    ``footprint``: (address, cells) of the pool that a replay writes.
    """

    key: Key
    rows: int
    slots: int
    items: tuple[Item, ...]
    statics: dict[str, int]
    holds: tuple[int, ...] = ()
    footprint: frozenset[tuple[int, int]] = field(default_factory=frozenset)


def scheduled(entries: tuple[Launch | Marker, ...], *, late: bool) -> tuple[Launch, ...]:
    """The launches as early or as late as the events let the second stream run."""
    order: list[Launch] = []
    waiting: list[Launch] = []
    forked = 0
    for entry in entries:
        if entry == "fork":
            forked = len(order)
        elif entry == "join":
            order += waiting
            waiting = []
        elif isinstance(entry, Launch):
            if not entry.side:
                order.append(entry)
            elif late:
                waiting.append(entry)
            else:
                order.insert(forked, entry)
                forked += 1
    return (*order, *waiting)
