"""The pictures of traffic, ladders and the price of a graph show what the study says."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

from simcg.arrays import Floats
from simcg.errors import InputError
from simcg.ladder import EAGER_INDEX, dispatch
from simcg.optimize.side_by_side import side_by_side
from simcg.optimize.study import Study, study
from simcg.report.ladder_plot import ladder_figure, paid_ms
from simcg.report.price_plot import price_figure
from simcg.report.shift_plot import shift_figure
from simcg.report.traffic_plot import traffic_figure
from tests.studies import MIXED, drawn, scenario_of, steps_of

KINDS = ("histogram", "trace", "one size")


@cache
def study_of(kind: str) -> Study:
    scenarios = {
        "histogram": scenario_of(steps_of(MIXED)),
        "trace": scenario_of(drawn("azure-code"), max_chunk=4096),
        "one size": scenario_of(steps_of({1: 1}), max_chunk=1),
    }
    return study(scenarios[kind])


def line(axes: Axes, label: str) -> Floats:
    """The heights of the one line whose label begins so."""
    (found,) = (one for one in axes.lines if str(one.get_label()).startswith(label))
    return np.asarray(found.get_ydata(), dtype=np.float64)


def drawn_whole(figure: Figure) -> None:
    """It is laid out without a warning."""
    figure.draw_without_rendering()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_paid_adds_up_to_the_cost_that_was_minimised(kind: str) -> None:
    """The green line at each step's size, with the step's own attention, is the answer's cost."""
    result = study_of(kind)
    table, steps, ladder = result.table, result.traffic.counted, result.ladder
    ones = np.ones_like(steps.tokens)
    eager = dispatch(ladder, result.scenario.engine.admission, steps.tokens, ones) == EAGER_INDEX
    own = np.where(eager, table.eager_own_ns - table.eager_ref_ns[steps.tokens], table.attention_ns)
    paid = np.rint(1e6 * paid_ms(result, ladder)[steps.tokens]).astype(np.int64)
    assert int(((paid + own) * steps.count).sum()) == result.answer.cost_ns


@pytest.mark.parametrize("kind", ["histogram", "trace"])
def test_the_picture_of_a_ladder_has_both_ladders_and_the_steps(kind: str) -> None:
    """What is paid, the graphs as marks, and how many steps have each size."""
    result = study_of(kind)
    figure = ladder_figure(result, 5, 900)
    drawn_whole(figure)
    top, bottom, traffic = figure.axes
    for axes, ladder in ((top, result.default.ladder), (bottom, result.ladder)):
        assert line(axes, "paid").tolist() == paid_ms(result, ladder)[1:].tolist()
        (marks,) = (one for one in axes.lines if one.get_label() == "its graphs")
        assert np.asarray(marks.get_xdata()).tolist() == list(ladder.sizes)
    low, high = traffic.get_xlim()
    assert (low, high) == (5, 900)
    most = int(result.traffic.counted.weights(result.table.max_tokens)[5:901].max())
    assert traffic.dataLim.y1 == most


@pytest.mark.parametrize("wrong", [(0, 9), (9, 9), (9, 8), (1, 1025)])
def test_a_range_that_is_none_is_refused(wrong: tuple[int, int]) -> None:
    """Before anything is drawn."""
    with pytest.raises(InputError, match=r"inside 1\.\.1024"):
        ladder_figure(study_of("histogram"), *wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_the_price_of_a_graph_is_the_fall_of_the_curve(kind: str) -> None:
    """Below, point k is what the curve above falls by from k to k + 1."""
    figure = price_figure(study_of(kind))
    drawn_whole(figure)
    top, bottom = figure.axes
    curve = line(top, "least")
    steps = study_of(kind).traffic.counted.total
    known = [ns / steps / 1e6 for ns in study_of(kind).curve_ns if ns is not None]
    assert curve.tolist() == pytest.approx(known)
    (falls,) = (np.asarray(one.get_ydata(), dtype=np.float64) for one in bottom.lines)
    assert falls.tolist() == pytest.approx([1e3 * (a - b) for a, b in pairwise(curve)], abs=1e-6)


@pytest.mark.parametrize(("kind", "histograms"), [("trace", 2), ("histogram", 1)])
def test_shares_of_requests_and_steps_are_whole(kind: str, histograms: int) -> None:
    """Each adds up to 100 %; traffic that is given as steps has no requests to show."""
    figure = traffic_figure(study_of(kind))
    drawn_whole(figure)
    (axes,) = figure.axes
    requests = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    (steps,) = (patch for patch in axes.patches if isinstance(patch, Polygon))
    heights = steps.get_xy()[1:-1:2, 1]
    assert sum(heights) == pytest.approx(100)
    assert sum(patch.get_height() for patch in requests) == pytest.approx(100 * (histograms - 1))


def test_a_row_has_its_best_ladder_at_zero() -> None:
    """Every other cell says how much longer its step is, and rows need the same ladders."""
    scenario = study_of("histogram").scenario
    best = study_of("histogram").ladder
    scores = side_by_side(scenario, {"best": best})
    figure = shift_figure({"its own": scores})
    drawn_whole(figure)
    longer = scores["default"].mean_step_ns / scores["best"].mean_step_ns - 1
    assert [text.get_text() for text in figure.axes[0].texts] == [f"+{100 * longer:.1f}%", "+0.0%"]
    with pytest.raises(InputError, match="the same ladders"):
        shift_figure({"a": scores, "b": {"best": scores["best"]}})
    with pytest.raises(InputError, match="the same ladders"):
        shift_figure({})
