"""I16 and I17 of one key: a bucket that was captured twice must be the same program twice.

Within one backend that is a law. Two backends may capture one forward or two, and a backend that
released its graphs may have captured anew because something else changed: that is not decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from simcg.formal.audit.constants import Constant, Where, constants, outline
from simcg.formal.audit.finding import Spot, Verdict, bucket_name
from simcg.formal.audit.replay import Replay, Trouble
from simcg.formal.recording import Baked

OTHER_BACKEND = "of another backend: one forward, or two?"
RELEASED = "before its graphs were released: what changed between the two?"


def compare_again(replays: Sequence[Replay]) -> None:
    """Findings go to the replay of the later capture of a bucket."""
    first: dict[tuple[str, int, int], list[Replay]] = {}
    for replay in replays:
        recording = replay.recording
        if not recording.num_tokens:
            continue
        before = first.setdefault((recording.backend, recording.num_tokens, recording.slots), [])
        same = [r for r in before if r.recording.group == recording.group]
        if before:
            _compare_two((same or before)[-1], replay)
        before.append(replay)


def _compare_two(one: Replay, other: Replay) -> None:
    doubt = ""
    if one.recording.group != other.recording.group:
        doubt = OTHER_BACKEND
    elif one.recording.released or other.recording.released:
        doubt = RELEASED
    verdict: Verdict = "not decided" if doubt else "violated"
    other.count("I16")
    if report_outlines(one, other, verdict, f"the program of the first capture{_dash(doubt)}"):
        return
    tables = constants(one, pool=True), constants(other, pool=True)
    differing = [
        (where, tables[0][where], tables[1][where])
        for where in tables[0]
        if where in tables[1] and not equal(tables[0][where].value, tables[1][where].value)
    ]
    for difference in differing[:1] if doubt else differing:
        _report_constant(other, difference, verdict, len(differing) - 1 if doubt else 0, doubt)


def _report_constant(
    replay: Replay, found: tuple[Where, Constant, Constant], verdict: Verdict, more: int, doubt: str
) -> None:
    (_, _, op, _), before, now = found
    bucket = bucket_name(replay.recording)
    text = f"{now.words} was baked as {before.value!r} and as {now.value!r}, both at {bucket}"
    text += f", and {more:,} more differ" if more else ""
    expected = f"one value for equal buckets{_dash(doubt)}"
    replay.report("I17", verdict, (now.spot, op), Trouble(text, expected))


def report_outlines(one: Replay, other: Replay, verdict: Verdict, expected: str) -> bool:
    """Whether the two launch other operators or breaks; the first is told of ``other`` (I16)."""
    end = Spot(other.capture), "nothing more"
    for (_, before), (spot, now) in zip_longest(outline(one), outline(other), fillvalue=end):
        if before == now:
            continue
        found = f"{now} here, and {before} in the capture of {bucket_name(one.recording)}"
        if bucket_name(one.recording) == bucket_name(other.recording):
            found = f"{now} here, and {before} in another capture of the bucket"
        other.report("I16", verdict, (spot, now), Trouble(found, expected))
        return True
    return False


def equal(one: Baked, other: Baked) -> bool:
    """Of one type too: 1, 1.0 and True are three values."""
    return type(one) is type(other) and one == other


def _dash(doubt: str) -> str:
    return f"; the other was {doubt}" if doubt else ""
