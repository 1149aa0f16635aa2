"""The picture of a step on the machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.axes import Axes

from simcg.backend import BACKENDS
from simcg.cost.step import StepCost
from simcg.des.machine.jitter import Jitter
from simcg.des.machine.step import simulate_step
from simcg.errors import InputError
from simcg.hardware.catalog import load_profile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.report.timeline_plot import plot_steps
from tests.costs import one_request


def test_every_span_of_rank_0_is_a_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn of five backends lasts as long as the run's host calls, kernels and waits."""
    drawn: list[tuple[float, float]] = []
    draw = Axes.broken_barh

    def watched(self: Axes, bars: list[tuple[float, float]], *args: object, **kw: object) -> object:
        drawn.extend(bars)
        return draw(self, bars, *args, **kw)  # type: ignore[arg-type]

    monkeypatch.setattr(Axes, "broken_barh", watched)
    forward = forward_pass(architecture_named("gpt-oss-20b"), tp=2)
    runs = {
        str(backend.name): simulate_step(
            StepCost(forward, load_profile("h200"), backend), one_request([64]),
            queue=8, jitter=Jitter(0.3, 5), trace=True,
        )
        for backend in BACKENDS.values()
    }  # fmt: skip
    path = tmp_path / "steps.svg"
    plot_steps(runs, path, "steps")
    spans = [s for run in runs.values() for s in run.spans if s.rank == 0 and s.kind != "launch"]
    assert sorted(drawn) == sorted((s.start_ns / 1e3, s.duration_ns / 1e3) for s in spans)
    text = path.read_text(encoding="utf-8")
    assert "other ranks" in text


def test_a_picture_that_cannot_be_drawn_leaves_nothing(tmp_path: Path) -> None:
    """No step, or an ending that is no picture's."""
    with pytest.raises(InputError, match="a step to draw"):
        plot_steps({}, tmp_path / "steps.png", "")
    with pytest.raises(InputError, match="a file ending in png"):
        plot_steps({}, tmp_path / "steps.txt", "")
    assert not list(tmp_path.iterdir())
