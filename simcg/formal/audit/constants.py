"""What launches have baked in: host values, and which bytes of memory they use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simcg.formal.audit.finding import Spot
from simcg.formal.audit.ops import base_name
from simcg.formal.audit.replay import Replay
from simcg.formal.recording import Baked, Break, Op, Region

Where = tuple[int, int, str, str]
"""Item, number of the operator in it, its name, and the argument."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One value at one launch, and what it is in words.

    ``whole``: the region is all of a storage or of a declared tensor, so nobody chose it.
    ``hidden``: an object of which the type alone is known.
    """

    value: Baked
    spot: Spot
    words: str
    whole: bool = False
    hidden: bool = False


def constants(replay: Replay, pool: bool = False) -> dict[Where, Constant]:
    """Those of segments' operators and of breaks' arguments; ``pool``: regions of the pool too."""
    found: dict[Where, Constant] = {}
    for number, item in enumerate(replay.recording.items):
        if isinstance(item, Break):
            for name, constant in _of_break(replay, number, item, pool):
                found[number, 0, item.function, name] = constant
            continue
        ops = ((n, event) for n, event in enumerate(item.events) if isinstance(event, Op))
        for order, (event_number, op) in enumerate(ops):
            spot = Spot(replay.capture, number, event_number)
            for name, constant in _of_op(replay, op, spot, pool):
                found[number, order, op.name, name] = constant
    return found


def outline(replay: Replay) -> list[tuple[Spot, str]]:
    """What a replay does in order: names of operators, and of breaks, with their places."""
    steps: list[tuple[Spot, str]] = []
    for number, item in enumerate(replay.recording.items):
        if isinstance(item, Break):
            steps.append((Spot(replay.capture, number), f"break {item.function}"))
            continue
        steps += [
            (Spot(replay.capture, number, event_number), event.name)
            for event_number, event in enumerate(item.events)
            if isinstance(event, Op)
        ]
    return steps


def _of_op(replay: Replay, op: Op, spot: Spot, pool: bool) -> Iterator[tuple[str, Constant]]:
    for name, value in op.baked.items():
        yield name, Constant(value, spot, name)
    for kind, used in (("reads", op.reads), ("writes", op.writes)):
        for index, region in enumerate(used):
            if _compared(replay, region, pool):
                words = f"where {base_name(op.name)} {kind} {replay.name_of(region)} (in bytes)"
                yield f"{kind} {index}", _place(replay, region, spot, words)


def _of_break(
    replay: Replay, number: int, item: Break, pool: bool
) -> Iterator[tuple[str, Constant]]:
    spot = Spot(replay.capture, number)
    for argument in item.arguments:
        words = f"argument {argument.name}"
        if argument.region is None:
            hidden = argument.held == "object"
            yield argument.name, Constant(argument.value, spot, words, hidden=hidden)
        elif _compared(replay, argument.region, pool):
            words += f" (bytes of {replay.name_of(argument.region)})"
            yield argument.name, _place(replay, argument.region, spot, words)


def _compared(replay: Replay, region: Region, pool: bool) -> bool:
    storage = replay.storage(region)
    return not storage.fresh and storage.place in (("outside", "pool") if pool else ("outside",))


def _place(replay: Replay, region: Region, spot: Spot, words: str) -> Constant:
    """Offset, length, and, where there are gaps, shape and strides."""
    value = (region.offset, region.bytes, *region.shape, *region.strides)
    return Constant(value, spot, words, whole=replay.is_whole(region))
