"""I17: what launches bake in, compared between the buckets of a ladder.

Equal values in several buckets show that the bucket does not decide them; that nothing else does
no recording can show, nor that what equals the bucket's size is the padded count and not the real
one, which are the same in a dummy batch that is full.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from simcg.formal.audit.again import compare_again, equal, report_outlines
from simcg.formal.audit.constants import Constant, Where, constants, outline
from simcg.formal.audit.finding import Spot, bucket_name
from simcg.formal.audit.ops import base_name
from simcg.formal.audit.replay import Replay, Trouble
from simcg.formal.recording import Baked, Break, Op, Recording, Scalar

DERIVED = "follows from the bucket's size: is it the padded count, or the real one?"
DIFFERS = "differs between buckets, and their sizes do not explain it"
ALONE = "in one capture only: nothing to compare it with"
HIDDEN = "an object: what it holds was not recorded"
LISTED = 4
"""Buckets whose values are told in words."""
LARGEST_TILE = 4096
"""Rows of a tile, a power of two, of which a launch may bake the number."""


@dataclass(frozen=True, slots=True)
class BakedValue:
    """One constant of which no recording decides whether a replay may have it.

    ``values`` by bucket, as they were captured; ``what``: argument or region, in words; ``why``:
    one of ``DERIVED``, ``DIFFERS``, ``ALONE`` and ``HIDDEN``.
    """

    item: int
    op: str
    argument: str
    what: str
    values: tuple[tuple[str, Baked], ...]
    why: str

    def __str__(self) -> str:
        listed = ", ".join(f"{value!r} at {bucket}" for bucket, value in self.values[:LISTED])
        rest = ", ..." if len(self.values) > LISTED else ""
        return f"{self.op}, {self.what}: {listed}{rest}"


def check_baked(replays: Sequence[Replay]) -> list[BakedValue]:
    """The constants that are not decided; findings go to the replays."""
    compare_again(replays)
    found: list[BakedValue] = []
    for group in _groups(replays):
        for alike in _by_outline(group):
            found += _compare(alike)
    for replay in replays:
        _host_reads(replay)
    return found


def _groups(replays: Sequence[Replay]) -> list[list[Replay]]:
    """Captures that differ in the bucket alone, the last of each; unknown buckets stand alone."""
    groups: dict[object, dict[tuple[int, int], Replay]] = {}
    for number, replay in enumerate(replays):
        recording = replay.recording
        known = (recording.backend, recording.group) if recording.num_tokens else number
        groups.setdefault(known, {})[recording.num_tokens, recording.slots] = replay
    return [list(group.values()) for group in groups.values()]


def _by_outline(group: Sequence[Replay]) -> list[list[Replay]]:
    """The group's captures by what they launch; I16 where the bucket's size may not be why."""
    alike: dict[tuple[str, ...], list[Replay]] = {}
    for replay in group:
        alike.setdefault(tuple(name for _, name in outline(replay)), []).append(replay)
    first, *others = alike.values()
    for other in others:
        report_outlines(first[0], other[0], "not decided", "what the bucket's size alone decides")
    return [first, *others]


def _compare(replays: Sequence[Replay]) -> list[BakedValue]:
    tables = [constants(replay) for replay in replays]
    for replay, table in zip(replays, tables, strict=True):
        chosen = sum(not constant.whole for constant in table.values())
        replay.cases["I17"] = replay.cases.get("I17", 0) + chosen
    found: list[BakedValue] = []
    for where in dict.fromkeys(where for table in tables for where in table):
        having = [
            (replay, table[where])
            for replay, table in zip(replays, tables, strict=True)
            if where in table
        ]
        why = _why([(replay.recording, constant) for replay, constant in having])
        if why:
            found.append(_told(where, having, why))
    return found


def _why(having: Sequence[tuple[Recording, Constant]]) -> str:
    """Why it is not decided; "" where it is."""
    found = [constant for _, constant in having]
    values = [constant.value for constant in found]
    if all(constant.whole for constant in found):
        return ""
    if any(constant.hidden for constant in found):
        return HIDDEN
    if len(having) == 1:
        return ALONE
    if all(equal(value, values[0]) for value in values):
        return ""
    return DERIVED if _derivable([recording for recording, _ in having], values) else DIFFERS


def _told(where: Where, having: Sequence[tuple[Replay, Constant]], why: str) -> BakedValue:
    """The value; a finding where the bucket's size does not explain it."""
    (item, _, op, argument), (replay, first) = where, having[0]
    named = tuple((bucket_name(r.recording), constant.value) for r, constant in having)
    if why == DIFFERS:
        listed = ", ".join(f"{value!r} at {bucket}" for bucket, value in named[:LISTED])
        expected = "one value for equal buckets, and otherwise one that the bucket's size gives"
        trouble = Trouble(f"{first.words} was baked as {listed}", expected)
        replay.report("I17", "not decided", (first.spot, op), trouble)
    return BakedValue(item, op, argument, first.words, named, why)


def _derivable(recordings: Sequence[Recording], values: Sequence[Baked]) -> bool:
    """Whether the value is a function of the bucket's tokens or slots that launches use."""
    if isinstance(values[0], tuple):
        lengths = {len(v) if isinstance(v, tuple) else -1 for v in values}
        if len(lengths) != 1:
            return False
        columns = zip(*(v for v in values if isinstance(v, tuple)), strict=True)
        return all(
            all(equal(v, column[0]) for v in column) or _scalar_derivable(recordings, column)
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
    """Proportional to it, to a neighbour or to its tiles, a constant away, or clamped by one."""
    pairs = list(zip(values, base, strict=True))
    tiles = [[-(-b // (1 << power)) for b in base] for power in range(LARGEST_TILE.bit_length())]
    return (
        any(_proportional(pairs, away) for away in (0, 1, -1))
        or len({v - b for v, b in pairs}) == 1
        or all(v == min(b, max(values)) for v, b in pairs)
        or all(v == max(b, min(values)) for v, b in pairs)
        or any(
            len({Fraction(v, t) for v, t in zip(values, tiled, strict=True)}) == 1
            for tiled in tiles
        )
        or any(_behind_others(values, tiled) for tiled in tiles)
    )


def _proportional(pairs: Iterable[tuple[int, int]], away: int) -> bool:
    """Also the bytes of offsets, of which there is one more than of rows, or of the last row."""
    ratios = {Fraction(v, b + away) for v, b in pairs if b + away}
    return len(ratios) == 1 and (not away or ratios.pop().denominator == 1)


def _behind_others(values: Sequence[int], tiled: Sequence[int]) -> bool:
    """Offsets behind tensors of whole tiles: one step a tile, from some first offset on.

    Of two values that is always so, and shows nothing.
    """
    pairs = sorted(set(zip(tiled, values, strict=True)))
    steps = {Fraction(v - w, t - u) for (u, w), (t, v) in pairwise(pairs) if t != u}
    return len(values) > 2 and len({t for t, _ in pairs}) == len(pairs) and len(steps) == 1


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
