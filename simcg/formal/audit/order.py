"""I12 and I13: every kernel is in one item, on a stream that is joined, and items alternate."""

from __future__ import annotations

from itertools import zip_longest

from simcg.formal.audit.clocks import MAIN, Clocks
from simcg.formal.audit.finding import Spot
from simcg.formal.audit.replay import Replay, Trouble
from simcg.formal.recording import Break, Op, Segment, Signal, Wait


def check_order(replay: Replay) -> None:
    """Findings go to the replay."""
    items = replay.recording.items
    for number, (item, after) in enumerate(zip_longest(items, items[1:])):
        spot = Spot(replay.capture, number)
        if isinstance(item, Segment):
            _check_nodes(replay, item, spot)
            _check_streams(replay, item, spot)
        elif item.ran:
            _check_break(replay, item, after, spot)
    if not any(_does(item) for item in items):
        found = (
            "no operator was recorded that touches memory: what other threads launch is not seen"
        )
        replay.report("I12", "not decided", (Spot(replay.capture), "capture"), Trouble(found))


def _does(item: Segment | Break) -> bool:
    """Whether anything is known to happen in it."""
    return isinstance(item, Break) or any(isinstance(event, Op) for event in item.events)


def _check_break(replay: Replay, item: Break, after: Segment | Break | None, spot: Spot) -> None:
    """A break that ran is followed by a segment, of no kernels perhaps.

    A break inside a break leaves no trace where it was a plain call, so no case is counted.
    """
    if isinstance(after, Break):
        replay.report(
            "I13",
            "violated",
            (Spot(spot.capture, spot.item + 1), after.function),
            Trouble(
                f"the break was met inside {item.function}, and ended an item",
                "a plain call: a break inside a break is none",
            ),
        )
    elif after is None:
        replay.report(
            "I13",
            "violated",
            (spot, item.function),
            Trouble(
                "after the break nothing was recorded any more",
                "a segment, also after a break that raised",
            ),
        )


def _check_nodes(replay: Replay, segment: Segment, spot: Spot) -> None:
    """Kernels that no operator launched, or fewer than they launched."""
    launched = segment.launched
    replay.count("I12")
    if segment.nodes > launched:
        replay.report(
            "I12",
            "not decided",
            (spot, "segment"),
            Trouble("kernels that no operator accounts for: what they read and write is not known"),
        )
    elif segment.nodes < launched:
        replay.report(
            "I12",
            "violated",
            (spot, "segment"),
            Trouble(
                f"{launched} kernels were launched and the graph has {segment.nodes}",
                "every kernel in the graph",
            ),
        )


def _check_streams(replay: Replay, segment: Segment, spot: Spot) -> None:
    """Side streams wait for the capture stream, and it for them."""
    clocks = Clocks(spot.item)
    last: dict[int, tuple[Spot, Op]] = {}
    for number, event in enumerate(segment.events):
        if isinstance(event, Signal):
            clocks.signal(event.stream, event.event)
        elif isinstance(event, Wait):
            clocks.wait(event.stream, event.event)
        elif isinstance(event, Op):
            here = Spot(spot.capture, spot.item, number)
            replay.count("I12")
            clocks.tick(event.stream)
            _check_place(replay, event, here, clocks.forked(event.stream))
            last[event.stream] = here, event
    for stream in clocks.unjoined():
        if clocks.forked(stream):
            here, op = last[stream]
            replay.report(
                "I12",
                "violated",
                (here, op.name),
                Trouble(
                    f"stream {stream} is not joined before the segment ends",
                    "the capture stream waits for every stream that was forked from it",
                ),
            )


def _check_place(replay: Replay, op: Op, spot: Spot, forked: bool) -> None:
    """Is the operator in the graph?"""
    storages = replay.recording.storages
    on_device = [r for r in op.writes if r.bytes and storages[r.storage].place != "host"]
    if op.stream != MAIN and not forked:
        seen = op.nodes > 0
        replay.report(
            "I12",
            "not decided" if seen else "violated",
            (spot, op.name),
            Trouble(
                f"stream {op.stream} waits for no event of the capture stream"
                + (
                    ": how it was forked was not seen"
                    if seen
                    else ", so the operator ran outside it"
                ),
                "a stream forked from the capture stream",
            ),
        )
    elif on_device and not op.nodes and op.decided:
        replay.report(
            "I12",
            "not decided",
            (spot, op.name),
            Trouble("the operator left no kernel in the graph", "a kernel", on_device[0]),
        )
