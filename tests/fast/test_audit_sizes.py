"""Which baked values follow from a bucket's tokens, or slots: those of which a formula is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from simcg.formal.audit.check import check
from simcg.formal.recording import Baked
from tests.recordings import both, capture, clean, on_capture, op

Sizes = tuple[int, int]
"""Tokens and slots."""
BUCKETS: tuple[Sizes, Sizes] = ((7, 5), (4, 3))


def explained(value: Callable[[int, int], Baked], slots: bool = False) -> bool:
    """Is nothing said of a value that two buckets bake so?"""
    captures = tuple(
        replace(capture(tokens), slots=wanted if slots else 0) for tokens, wanted in BUCKETS
    )
    edits = [op(2, 3, i, baked={"end": value(*sizes)}) for i, sizes in enumerate(BUCKETS)]
    report = check(both(*edits)(replace(clean(), captures=captures)))
    assert {f"{f.invariant} {f.verdict}" for f in report.findings} <= {"I17 not decided"}
    for finding in report.findings:  # told at the first capture that bakes it
        assert finding.spot.capture == 0
        assert f"expected {finding.expected}" in str(finding)
    return not report.findings


BY_TOKENS: dict[str, Callable[[int, int], Baked]] = {
    "as many": lambda t, _: t,
    "three times as many": lambda t, _: 3 * t,
    "five more": lambda t, _: t + 5,
    "two fewer": lambda t, _: t - 2,
    "at most six": lambda t, _: min(t, 6),
    "at least six": lambda t, _: max(t, 6),
    "tiles of two": lambda t, _: -(-t // 2),
    "one over": lambda t, _: 1 / t,
    "half of them": lambda t, _: t / 2,
    "none": lambda *_: None,
    "the same": lambda *_: 12345,
    "a tuple": lambda t, _: (t, 2 * t, 9),
}
BY_SLOTS: dict[str, Callable[[int, int], Baked]] = {
    "slots": lambda _, s: s,
    "two a slot": lambda _, s: 2 * s,
    "tokens by slots": lambda t, s: 16 * t * s,
    "one over tokens by slots": lambda t, s: 1 / (t * s),
}
UNKNOWN: dict[str, Callable[[int, int], Baked]] = {
    "squares": lambda t, _: t * t,
    "tiles of three": lambda t, _: -(-10 * t // 3),
    "halves and one": lambda t, _: 0.5 * t + 1,
    "names": lambda t, _: f"kernel_{t}",
    "a flag": lambda t, _: t > 5,
    "a tuple with a square": lambda t, _: (t, t * t),
    "a tuple that gets longer": lambda t, _: (1,) * t,
    "a number or a fraction": lambda t, _: t if t > 5 else 0.5,
}


@pytest.mark.parametrize("name", BY_TOKENS)
def test_what_follows_from_the_tokens_is_explained(name: str) -> None:
    assert explained(BY_TOKENS[name])
    assert explained(BY_TOKENS[name], slots=True)


@pytest.mark.parametrize("name", BY_SLOTS)
def test_what_follows_from_the_slots_is_explained_where_there_are_some(name: str) -> None:
    assert explained(BY_SLOTS[name], slots=True)
    assert not explained(BY_SLOTS[name])


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_no_formula_gives_is_not_explained(name: str) -> None:
    assert not explained(UNKNOWN[name])
    assert not explained(UNKNOWN[name], slots=True)


def test_a_bucket_changed_alone_keeps_the_others_value() -> None:
    """The edit reaches one capture."""
    changed = op(2, 3, 1, baked={"end": 77})(clean())
    assert changed.captures[0] == clean().captures[0]
    assert on_capture(0, lambda c: c)(changed) == changed
