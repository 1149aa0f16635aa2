"""I17: host values that launches bake in, compared between the buckets of a ladder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from simcg.formal.audit.finding import Spot, bucket_name
from simcg.formal.audit.ops import base_name
from simcg.formal.audit.replay import Replay, Trouble
from simcg.formal.recording import Baked, Break, Op, Recording, Scalar

Where = tuple[int, int, str, str]
"""Item, number of the operator in it, its name, and the argument."""

DERIVED, DIFFERS = "follows from the bucket's size", "differs"
LISTED = 4
"""Buckets whose values are told in words."""
LARGEST_TILE = 4096
"""Rows of a tile, a power of two, of which a launch may bake the number."""


@dataclass(frozen=True, slots=True)
class BakedValue:
    """One argument in all captures that have it: ``values`` by bucket, as they were captured.

    ``why``: ``DERIVED``, or ``DIFFERS`` when nothing explains it.
    """

    item: int
    op: str
    argument: str
    values: tuple[tuple[str, Baked], ...]
    why: str


def baked_values(recording: Recording) -> dict[Where, tuple[Baked, Spot]]:
    """Every host value in the operators of segments and in arguments of breaks."""
    found: dict[Where, tuple[Baked, Spot]] = {}
    for number, item in enumerate(recording.items):
        if isinstance(item, Break):
            for argument in item.arguments:
                if argument.held == "value":
                    where = (number, 0, item.function, argument.name)
                    found[where] = argument.value, Spot(0, number)
            continue
        order = 0
        for event_number, event in enumerate(item.events):
            if isinstance(event, Op):
                for name, value in event.baked.items():
                    spot = Spot(0, number, event_number)
                    found[number, order, event.name, name] = value, spot
                order += 1
    return found


def check_baked(replays: Sequence[Replay]) -> list[BakedValue]:
    """The values that differ between captures of one backend; findings go to the replays."""
    differing: list[BakedValue] = []
    for name in dict.fromkeys(replay.recording.backend for replay in replays):
        differing += _compare([r for r in replays if r.recording.backend == name])
    for replay in replays:
        _host_reads(replay)
    return differing


def _compare(replays: Sequence[Replay]) -> list[BakedValue]:
    tables = [baked_values(replay.recording) for replay in replays]
    for replay, table in zip(replays, tables, strict=True):
        replay.cases["I17"] = replay.cases.get("I17", 0) + len(table)
    differing: list[BakedValue] = []
    for where in dict.fromkeys(where for table in tables for where in table):
        having = [
            (replay, *table[where])
            for replay, table in zip(replays, tables, strict=True)
            if where in table
        ]
        if any(not _equal(value, having[0][1]) for _, value, _ in having):
            differing.append(_differs(where, having))
    return differing


def _differs(where: Where, having: Sequence[tuple[Replay, Baked, Spot]]) -> BakedValue:
    """Note a value that differs between captures, unless the bucket's size explains it."""
    recordings, values = [r.recording for r, _, _ in having], [value for _, value, _ in having]
    (item, _, op, argument), (replay, _, spot) = where, having[0]
    derived = _derivable(recordings, values)
    named = tuple((bucket_name(r), v) for r, v in zip(recordings, values, strict=True))
    if not derived:
        listed = ", ".join(f"{value!r} at {bucket}" for bucket, value in named[:LISTED])
        replay.report(
            "I17", "violated" if _two_of_a_key(recordings, values) else "not decided",
            (Spot(replay.capture, spot.item, spot.event), op),
            Trouble(f"{argument} was baked as {listed}",
                    "one value for equal buckets, and otherwise one that the bucket's size gives"),
        )  # fmt: skip
    return BakedValue(item, op, argument, named, DERIVED if derived else DIFFERS)


def _two_of_a_key(recordings: Sequence[Recording], values: Sequence[Baked]) -> bool:
    """Whether two captures of one bucket, whose size is known, have different values."""
    first: dict[tuple[int, int], Baked] = {}
    return any(
        r.num_tokens and not _equal(first.setdefault((r.num_tokens, r.slots), value), value)
        for r, value in zip(recordings, values, strict=True)
    )


def _equal(one: Baked, other: Baked) -> bool:
    return type(one) is type(other) and one == other


def _derivable(recordings: Sequence[Recording], values: Sequence[Baked]) -> bool:
    """Whether the value is a function of the bucket's tokens or slots that launches use."""
    if any(not r.num_tokens for r in recordings):
        return False
    if isinstance(values[0], tuple):
        lengths = {len(v) if isinstance(v, tuple) else -1 for v in values}
        if len(lengths) != 1:
            return False
        columns = zip(*(v for v in values if isinstance(v, tuple)), strict=True)
        return all(
            all(_equal(v, column[0]) for v in column) or _scalar_derivable(recordings, column)
            for column in columns
        )
    return _scalar_derivable(recordings, [v for v in values if not isinstance(v, tuple)])


def _scalar_derivable(recordings: Sequence[Recording], values: Sequence[Scalar]) -> bool:
    if len(values) != len(recordings):
        return False
    bases = [[r.num_tokens for r in recordings]]
    if all(r.slots for r in recordings):
        bases += [[r.slots for r in recordings], [r.num_tokens * r.slots for r in recordings]]
    whole = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
    if len(whole) == len(values):
        return any(_whole_of(base, whole) for base in bases)
    real = [v for v in values if isinstance(v, float)]
    return len(real) == len(values) and any(
        _constant([v * b for v, b in zip(real, base, strict=True)])
        or _constant([v / b for v, b in zip(real, base, strict=True)])
        for base in bases
    )


def _whole_of(base: Sequence[int], values: Sequence[int]) -> bool:
    """Proportional to it, a constant away, clamped by one, or its number of tiles."""
    pairs = list(zip(values, base, strict=True))
    tiles = (1 << power for power in range(LARGEST_TILE.bit_length()))
    return (
        len({Fraction(v, b) for v, b in pairs}) == 1
        or len({v - b for v, b in pairs}) == 1
        or all(v == min(b, max(values)) for v, b in pairs)
        or all(v == max(b, min(values)) for v, b in pairs)
        or any(all(v == -(-b // tile) for v, b in pairs) for tile in tiles)
    )


def _constant(values: Sequence[float]) -> bool:
    return all(math.isclose(v, values[0], rel_tol=1e-9) for v in values)


def _host_reads(replay: Replay) -> None:
    """Tensors on the host whose value, or memory, a graph bakes in."""
    storages = replay.recording.storages
    for number, item in enumerate(replay.recording.items):
        if isinstance(item, Break):
            continue
        for event_number, event in enumerate(item.events):
            if not isinstance(event, Op):
                continue
            for region in event.reads:
                if storages[region.storage].place == "host":
                    replay.count("I17")
                    replay.report(
                        "I17",
                        "not decided",
                        (Spot(replay.capture, number, event_number), event.name),
                        Trouble(
                            f"a tensor on the host is baked into {base_name(event.name)}",
                            "a value that is the same at every replay",
                            region,
                        ),
                    )
