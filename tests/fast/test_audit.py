"""Wrong recordings are told by invariant, operator and tensor, and clean ones are silent."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from simcg.formal.audit.baked import DERIVED
from simcg.formal.audit.check import CHECKED, Report, check
from simcg.formal.invariants import INVARIANTS
from simcg.formal.recording import Baked, Op, Recordings, Region
from tests.recordings import (
    LARGE,
    SMALL,
    WIDE,
    Edit,
    both,
    capture,
    clean,
    dropped,
    inserted,
    nodes,
    on_capture,
    op,
)
from tests.wrong_recordings import RIGHT, WRONG

OTHER_OUTLINE = {"I16 not decided"}
"""What an edit of one bucket's operators leaves open: is its size the reason?"""


def verdicts(report: Report) -> set[str]:
    return {f"{finding.invariant} {finding.verdict}" for finding in report.findings}


def test_the_clean_recording_is_silent_and_meets_every_premise() -> None:
    """Nothing is found, and not because there was nothing to find."""
    report = check(clean())
    assert report.findings == ()
    assert not report.violated
    assert {key for key in CHECKED if not report.cases[key]} == {"I13", "I16"}
    assert {key for key in CHECKED if report.verdict(key)} == {"I17"}
    assert {value.why for value in report.undecided} == {DERIVED}


@pytest.mark.parametrize("case", RIGHT)
def test_a_right_recording_is_silent(case: str) -> None:
    """Also in another shape."""
    assert check(RIGHT[case](clean())).findings == ()


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_recording_is_told(case: str) -> None:
    """By these invariants and verdicts alone, in words with the operator and the tensor."""
    wrong = WRONG[case]
    report = check(wrong.edit(clean()))
    assert wrong.found <= verdicts(report) <= wrong.found | OTHER_OUTLINE
    told = "\n".join(map(str, report.findings))
    assert [word for word in wrong.words if word not in told] == []
    assert report.violated == any("violated" in one for one in wrong.found)


def test_every_invariant_that_is_checked_has_a_wrong_recording() -> None:
    """Each is violated by one of the edits, but for key completeness of what nobody compared."""
    violated = {one.split()[0] for wrong in WRONG.values() for one in wrong.found}
    assert violated == set(CHECKED)
    assert set(CHECKED) <= set(INVARIANTS)


def moved(recordings: Recordings, by: int) -> Recordings:
    """Everything at other addresses."""
    captures = tuple(
        replace(c, storages=tuple(replace(s, address=s.address + by) for s in c.storages))
        for c in recordings.captures
    )
    return replace(recordings, captures=captures)


def renumbered(recordings: Recordings) -> Recordings:
    """A storage that nobody uses goes before all others."""

    def later(value: Any) -> Any:
        if isinstance(value, list):
            return [later(one) for one in value]
        if isinstance(value, dict):
            return {k: v + 1 if k == "storage" else later(v) for k, v in value.items()}
        return value

    unused = {"bytes": 64, "address": 0x50, "place": "outside", "role": "constant", "name": "x"}
    document = later(json.loads(msgspec.json.encode(recordings)))
    for one in document["captures"]:
        one["storages"].insert(0, unused)
    return msgspec.convert(document, Recordings)


@pytest.mark.parametrize("case", WRONG)
def test_neither_addresses_nor_numbers_matter(case: str) -> None:
    """Moving all memory, or numbering storages otherwise, changes no verdict."""
    wrong = WRONG[case].edit(clean())
    expected = verdicts(check(wrong))
    assert verdicts(check(moved(wrong, 0x70000))) == expected
    assert verdicts(check(renumbered(wrong))) == expected


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_one_bucket_is_wrong_beside_others(case: str) -> None:
    """A third, clean capture takes no finding away."""
    wrong = WRONG[case].edit(clean())
    third = replace(wrong, captures=(*wrong.captures, capture(2)))
    assert verdicts(check(third)) >= verdicts(check(wrong))


def test_a_gap_is_no_overlap() -> None:
    """Bytes between the columns of a strided write are not written, nor read."""
    left = Region(WIDE, 0, 7 * 64 + 32, (8, 8), (64, 4))
    right = replace(left, offset=32)
    negate_right = inserted(2, 4, Op("aten.neg_.default", (right,), (right,)))
    assert verdicts(check(both(negate_right, nodes(2, 3))(clean()))) == OTHER_OUTLINE
    negate_left = inserted(2, 3, Op("aten.neg_.default", (left,), (left,)))
    assert "I4 violated" not in verdicts(check(both(dropped(2, 3), negate_left)(clean())))


def test_the_same_finding_elsewhere_is_counted() -> None:
    """What is not decided in both buckets is told once, with the first place."""
    edits = [on_capture(number, lambda c: replace(c, output=None)) for number in (LARGE, SMALL)]
    (finding,) = check(both(*edits)(clean())).findings
    assert (finding.times, finding.spot.capture) == (2, 0)
    assert str(finding).endswith("(2 times)")


@pytest.mark.parametrize(
    ("values", "derived"),
    [((8, 4), True), ((24, 12), True), ((15, 11), True), ((1, 1), True), ((8, 5), True),
     ((6, 4), True), ((1, 2), False), ((2, 1), True), ((9, 1), False), ((True, False), False),
     ((0.5, 1.0), True), ((0.5, 0.75), False), (("a", "b"), False)],
)  # fmt: skip
def test_what_follows_from_the_tokens(values: tuple[Baked, Baked], derived: bool) -> None:
    """Of 8 and 4: multiples, distances, clamps and numbers of tiles."""
    report = check(both(*(ending(LARGE, values[0]), ending(SMALL, values[1])))(clean()))
    assert (verdicts(report) == set()) == derived
    assert verdicts(report) <= {"I17 not decided"}


def ending(number: int, value: Baked) -> Edit:
    """Another end of the range in the second segment."""
    return op(2, 3, number, baked={"end": value})
