"""Who is to blame: a part that was mispriced on purpose is found, and parts add up."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from msgspec.structs import replace

from simcg.cost.kernels import Work
from simcg.cost.step import OpTimes
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import Figure, HardwareProfile
from simcg.model.lean import lean_pass
from simcg.provenance import weakest
from simcg.report.blame_plot import blame_figure
from simcg.report.plots import BLUE, GREY, ORANGE
from simcg.runs.blame import GAPS, HOST, Account, Part, accounts
from simcg.runs.read import Runs, read_runs
from simcg.runs.schema import StepCell

FILE = Path(__file__).parents[2] / "benchmarks" / "runs" / "h200-matrix.jsonl"
MODEL = "qwen3-8b"
WORK = Work.of_prompts(np.array([64]))
MLP = 12288
"""Rows of the weights of Qwen3-8B's down projection, which no other product of it has."""


@cache
def recorded() -> Runs:
    return read_runs(FILE)


@cache
def found() -> list[Account]:
    return accounts(recorded(), load_profile("h200"))


def scaled(figure: Figure, factor: float) -> Figure:
    return replace(figure, value=figure.value * factor)


def slow_product(profile: HardwareProfile) -> HardwareProfile:
    """The down projection takes 1.4 times as long."""
    curves = tuple(
        replace(c, ns=tuple(ns * 1.4 for ns in c.ns))
        if c.key.op == "gemm" and c.key.k == MLP
        else c
        for c in profile.curves
    )
    assert curves != profile.curves
    return replace(profile, curves=curves)


def slow_host(profile: HardwareProfile) -> HardwareProfile:
    """A host that takes three times as long for what it dispatches."""
    dispatch = {kind: scaled(figure, 3) for kind, figure in profile.host.dispatch.items()}
    return replace(profile, host=replace(profile.host, dispatch=dispatch))


def as_if(change: Callable[[HardwareProfile], HardwareProfile], backend: str) -> Runs:
    """The recorded steps of one backend, as long as they would be on the changed machine."""
    cells = tuple(
        replace(
            one.cell,
            ns=float(one.predicted_ns),
            host_ns=float(one.host.predicted_ns),
            gpu_bound=one.host.predicted_ns <= one.device_ns,
        )
        for one in accounts(recorded(), change(load_profile("h200")))
        if (one.cell.model, one.cell.backend) == (MODEL, backend)
    )
    assert cells
    return Runs("made", recorded().header, cells)


def test_parts_are_all_that_the_gpu_does() -> None:
    """Nothing is left out, nothing counts twice, and the longest is first."""
    assert len(found()) == len(recorded().of(StepCell))
    for one in found():
        assert sum(part.predicted_ns for part in one.parts) == one.device_ns
        assert [*one.parts] == sorted(one.parts, key=lambda part: -part.predicted_ns)
        assert one.predicted_ns >= one.device_ns
        forward = lean_pass(recorded().header.models[one.cell.model])
        assert {part.name for part in one.parts} == {GAPS, *(op.name for op in forward.ops)}


def test_accounts_come_worst_first() -> None:
    """By the error without its sign."""
    errors = [abs(one.error) for one in found()]
    assert errors == sorted(errors, reverse=True)


def test_what_a_part_needs_is_the_whole_error() -> None:
    """Such a share more of that part alone, and the measured time is there."""
    for one in found():
        for part in one.parts:
            there = one.predicted_ns + part.needed * part.predicted_ns
            assert there == pytest.approx(one.cell.ns)


@pytest.mark.parametrize("backend", ["full", "breakable"])
def test_a_product_that_is_slower_than_the_profile_says_is_found(backend: str) -> None:
    """In every step whose error is more than rounding, and by how much."""
    blamed = accounts(as_if(slow_product, backend), load_profile("h200"))
    for one in blamed:
        down = next(part for part in one.parts if part.name == "down")
        assert one.error < -0.05
        assert down.needed == pytest.approx(0.4, rel=0.01)
        # only a part of the same provenance that is longer needs a smaller share
        longer = [p for p in one.parts if p.predicted_ns > down.predicted_ns]
        assert one.suspect in (down, *longer)
        assert one.suspect.strain <= down.strain


def test_a_slower_host_is_found_where_it_is_felt() -> None:
    """Small eager steps wait for it; steps that do not wait have no error."""
    blamed = accounts(as_if(slow_host, "eager"), load_profile("h200"))
    late = [one for one in blamed if one.error < -0.02]
    assert late
    assert {one.suspect.name for one in late} == {HOST}
    assert all(one.suspect.needed == pytest.approx(2, rel=0.01) for one in late)
    assert {one.suspect.name for one in blamed if not one.cell.gpu_bound} == {HOST}


def test_a_replay_is_not_blamed_on_a_host_that_nobody_waits_for() -> None:
    """Its host was measured too, and is far below the step."""
    replays = [one for one in found() if one.cell.backend == "full"]
    assert HOST not in {one.suspect.name for one in replays}


def taken_apart(ns: float, host_ns: float, host: int, device: int, *parts: Part) -> Account:
    """A step that took ``ns``, and whose host ``host_ns``; ``host`` and ``device`` as predicted."""
    cell = replace(found()[0].cell, ns=ns, host_ns=host_ns)
    issuing = Part(HOST, host, host_ns / host - 1, "measured")
    return Account(cell, max(host, device) + 5, device, parts, issuing)


def test_a_host_that_is_faster_than_predicted_is_found() -> None:
    """The step waited for the predicted host, and did not for the measured one."""
    whole = Part("gemm", 100, -0.5, "measured")
    assert taken_apart(102.0, 80.0, 200, 100, whole).suspect.name == HOST


def test_a_host_that_is_not_felt_is_not_blamed() -> None:
    """Although the GPU's own time is nearer to the step than the prediction with its latency."""
    whole = Part("gemm", 100, -0.06, "measured")
    assert taken_apart(99.0, 20.0, 10, 100, whole).suspect is whole


def test_what_is_known_worse_is_blamed_first() -> None:
    """A longer part that would be further off than its kind ever is comes second."""
    known, assumed = Part("a", 300, 0.1, "measured"), Part("b", 100, 0.3, "assumed")
    assert taken_apart(430.0, 20.0, 10, 400, known, assumed).suspect is assumed
    assert [known.strain, assumed.strain] == pytest.approx([2, 0.6])


def test_a_part_is_as_well_known_as_its_worst_op() -> None:
    """Products of the model whose sizes were timed are measured, those of the other one are not."""
    for one in found():
        forward = lean_pass(recorded().header.models[one.cell.model])
        times = OpTimes(load_profile("h200"), WORK)
        for part in one.parts:
            ops = [op for op in forward.ops if op.name == part.name]
            grounds = weakest(times.of(op).provenance for op in ops)
            assert part.name == GAPS or part.provenance == grounds
    ways = {(a.cell.model, p.provenance) for a in found() for p in a.parts if p.name == "down"}
    assert len(ways) == 2


def bars(axes: Axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def test_the_picture_marks_the_suspect_alone() -> None:
    """Bars are the predicted times of the longest parts and of the host; lines are the step."""
    eager = next(one for one in found() if one.suspect.name == HOST)
    replay = next(one for one in found() if one.cell.backend == "full")
    for axes, one in zip(blame_figure([eager, replay]).axes, (eager, replay), strict=True):
        colours = [to_hex(bar.get_facecolor()).upper() for bar in bars(axes)]
        names = [tick.get_text().split(" (")[0] for tick in axes.get_yticklabels()]
        shown = {part.name: part.predicted_ns / 1e6 for part in (*one.parts, one.host)}
        assert [bar.get_width() for bar in bars(axes)] == pytest.approx([shown[n] for n in names])
        rest = GREY if one.suspect.name != HOST else ORANGE
        assert colours == [ORANGE if n == one.suspect.name else BLUE for n in names[:-1]] + [rest]
        lines = {line.get_label(): [*map(float, [*line.get_xdata()])] for line in axes.lines}  # type: ignore[misc]
        assert lines["measured step"] == [one.cell.ns / 1e6] * 2
        assert lines["predicted step"] == [one.predicted_ns / 1e6] * 2
        assert one.cell.model in axes.get_title(loc="left")


def test_a_suspect_that_is_no_long_part_is_shown() -> None:
    """In place of the last of the longest."""
    one = next(one for one in found() if one.cell.backend == "full")
    tiny = Part("tiny", 1, 1e-9, "assumed")
    cell = replace(one.cell, ns=one.predicted_ns + 1.0)
    short = Account(cell, one.predicted_ns, one.device_ns, (*one.parts, tiny), one.host)
    assert short.suspect is tiny
    (axes,) = blame_figure([short]).axes
    assert "tiny (assumed)" in [tick.get_text() for tick in axes.get_yticklabels()]
