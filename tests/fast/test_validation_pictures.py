"""Pictures of predictions beside measurements hold each cell and each decision once."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D

from simcg.report.decisions_plot import decisions_figure
from simcg.report.parity_plot import parity_figure
from simcg.runs.compare import Compared, Kind
from simcg.runs.decide import Decision


def cell(model: str, backend: str, predicted: float, measured: float, kind: Kind) -> Compared:
    return Compared(kind, model, backend, "all", "n=1", 1, predicted * 1e6, measured * 1e6)


CELLS = [
    cell("one", "full", 2, 2.5, "step"),
    cell("one", "full", 20, 19, "step"),
    cell("one", "eager", 3, 3.5, "step"),
    cell("two", "eager", 40, 50, "trace step"),
    cell("one", "full", 7, 8, "capture"),
]


def points(line: Line2D) -> list[list[float]]:
    x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    return [[float(a), float(b)] for a, b in zip(x, y, strict=True)]


def test_each_step_is_a_mark_in_its_models_panel() -> None:
    """Measured to the right, predicted upwards, in ms; other figures than steps are left out."""
    figure = parity_figure(CELLS)
    one, two = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["one", "two"]
    drawn = {line.get_label(): points(line) for line in one.lines if line.get_marker() != "None"}
    assert drawn == {"full": [[2.5, 2], [19, 20]], "eager": [[3.5, 3]]}
    marks = [points(line) for line in two.lines if line.get_marker() != "None"]
    assert marks == [[[50, 40]]]
    diagonal = [points(line) for line in one.lines if line.get_marker() == "None"]
    assert diagonal == [[[2, 2], [20, 20]]]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["full", "eager"]


FOUND = [
    Decision("m", "mine", "theirs", (5, 6), 500, 0.05, 0.04, 0.06, 0.055, (1.0, 2.0)),
    Decision("m", "mine", "none", (5, 0), 500, 0.001, -0.02, 0.01, 0.03, (1.0, 2.0)),
    Decision("m", "mine", "powers", (5, 9), 500, 0.24, 0.2, 0.28, 0.22, (1.0, 2.0)),
]


def measured(axes: Axes) -> ErrorbarContainer:
    (container,) = (c for c in axes.containers if isinstance(c, ErrorbarContainer))
    return container


def test_each_decision_is_a_line_with_its_interval_and_its_prediction() -> None:
    """In percent, the first on top, and nothing outside the axis."""
    (axes,) = decisions_figure(FOUND).axes
    marks, _, (reach,) = measured(axes).lines
    assert isinstance(marks, Line2D)
    assert points(marks) == [[pytest.approx(100 * d.measured), i] for i, d in enumerate(FOUND)]
    ends = [np.asarray(path.vertices)[:, 0].tolist() for path in reach.get_paths()]
    assert ends == [[pytest.approx(100 * d.low), pytest.approx(100 * d.high)] for d in FOUND]
    (guess,) = (line for line in axes.lines if line.get_label() == "predicted")
    assert points(guess) == [[pytest.approx(100 * d.predicted), i] for i, d in enumerate(FOUND)]
    left, right = axes.get_xlim()
    assert left < -2
    assert right > 28
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    assert names[0] == "mine (5) against theirs (6)"
    assert axes.yaxis_inverted()
