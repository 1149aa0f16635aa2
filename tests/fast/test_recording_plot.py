"""The picture of a recording has each access, each life and each argument once."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from simcg.formal.audit.check import check
from simcg.formal.recording import Allocate, Break, Free, Op, Recording
from simcg.report.recording_plot import recording_figure
from tests.recordings import BUF, H, Q, capture, clean
from tests.wrong_recordings import WRONG

Point = tuple[float, float]


def points(axes: Axes, label: str) -> list[Point]:
    """Of all marks with that label."""
    return [point(line) for line in axes.lines if line.get_label() == label]


def point(line: Line2D) -> Point:
    x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    return float(x[0]), float(y[0])


def place(axes: Axes, words: str) -> float:
    """The height of the storage that is called so."""
    return next(
        float(y)
        for y, tick in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
        if re.split("[,(]", tick.get_text())[0].strip() == words
    )


def ops(recording: Recording) -> list[Op]:
    return [e for item in recording.items for e in item.events if isinstance(e, Op)]


def height(axes: Axes, recording: Recording, storage: int) -> float:
    one = recording.storages[storage]
    return place(axes, f"{one.role} {one.name!r}" if one.name else f"storage {storage}")


def test_each_access_is_a_mark_at_its_operator_and_its_storage() -> None:
    """As often as the recording has it."""
    recording = capture(8)
    (axes,) = recording_figure(recording).axes
    for label in ("reads", "writes"):
        wanted = Counter(
            (float(x), height(axes, recording, region.storage))
            for x, op in enumerate(ops(recording))
            for region in getattr(op, label)
        )
        assert Counter(points(axes, label)) == wanted
    assert len(axes.get_yticks()) == len(recording.storages)
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    assert names[:3] == ["mm", "mm", "index_copy_"]
    assert len(names) == len(ops(recording))


def test_a_life_lasts_from_its_allocation_to_its_end() -> None:
    """Between the operators that lie before and after; to the edge where nothing frees it."""
    recording = capture(8)
    (axes,) = recording_figure(recording).axes
    bars = {
        point(line)[1]: np.asarray(line.get_xdata()).tolist()
        for line in axes.lines
        if line.get_label() == "allocated in the pool"
    }
    events = [event for item in recording.items for event in item.events]
    before = {
        (type(event), event.storage): sum(isinstance(e, Op) for e in events[:at])
        for at, event in enumerate(events)
        if isinstance(event, Allocate | Free)
    }
    assert len(bars) == sum(one.place == "pool" for one in recording.storages)
    for storage in (H, Q, BUF):
        begin, end = bars[height(axes, recording, storage)]
        assert begin == pytest.approx(before[Allocate, storage] - 0.4)
        assert end == pytest.approx(before[Free, storage] - 0.6)


def test_arguments_stand_where_their_break_begins_by_how_they_are_held() -> None:
    """Values are no memory."""
    recording = capture(8)
    (axes,) = recording_figure(recording).axes
    breaks = [item for item in recording.items if isinstance(item, Break)]
    held = Counter(a.held for item in breaks for a in item.arguments if a.region is not None)
    assert len(points(axes, "argument, held weakly")) == held["weak"]
    assert len(points(axes, "argument, held strongly")) == held["strong"]
    (strong,) = points(axes, "argument, held strongly")
    assert strong == (2.5, place(axes, "cache 'kv'"))  # after three operators
    titles = [text.get_text() for text in axes.texts]
    assert titles == ["graph 1", "break attend", "graph 2", "break add_one", "graph 3"]


@pytest.mark.parametrize(
    ("case", "where", "row"),
    [("an undeclared tensor that was freed", 0.0, "storage 1"),
     ("a declared tensor that was freed", 0.0, "static 'ids'")],
)  # fmt: skip
def test_a_finding_is_crossed_where_it_lies(case: str, where: float, row: str) -> None:
    """And named by invariant and verdict; a clean recording has none."""
    wrong = WRONG[case].edit(clean())
    findings = [f for f in check(wrong).findings if f.spot.capture == 0]
    (axes,) = recording_figure(wrong.captures[0], findings).axes
    assert (where, place(axes, row)) in points(axes, "I1 violated")
    labels = {str(line.get_label()) for line in recording_figure(capture(8)).axes[0].lines}
    assert not [label for label in labels if "violated" in label]


def test_every_finding_with_a_tensor_and_a_spot_is_crossed() -> None:
    """Those of an argument too."""
    for case, one in WRONG.items():
        wrong = one.edit(clean())
        findings = [
            f
            for f in check(wrong).findings
            if f.spot.capture == 0 and f.spot.item >= 0 and f.tensor
        ]
        (axes,) = recording_figure(wrong.captures[0], findings).axes
        crosses = [point(line)[0] for line in axes.lines if line.get_marker() == "x"]
        assert len(crosses) == len(findings), case
        between = [x % 1 == 0.5 for x in crosses]  # where a break begins
        assert between == [f.spot.event < 0 for f in findings], case
