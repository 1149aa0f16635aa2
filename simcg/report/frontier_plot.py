"""The picture of what the number of graphs is worth."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simcg.optimize.study import Study
from simcg.report.plots import BLUE, GREEN, GREY, ORANGE, PURPLE


def frontier_figure(studies: Mapping[str, Study]) -> Figure:
    """A panel a study: least mean step time over the number of graphs, beside the default's."""
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    panels = figure.subplots(1, len(studies), squeeze=False)[0]
    for axes, (title, study) in zip(panels, studies.items(), strict=True):
        _panel(axes, title, study)
    panels[0].set_ylabel("mean step time (ms)")
    return figure


def _panel(axes: Axes, title: str, study: Study) -> None:
    """The frontier from the fewest graphs that come within twice the best."""
    steps = study.traffic.counted.total
    costs = {k: cost / steps / 1e6 for k, cost in enumerate(study.curve_ns) if cost is not None}
    near = {k: ms for k, ms in costs.items() if ms <= 2 * min(costs.values())}
    axes.plot(list(near), list(near.values()), color=BLUE, lw=1.8, label="least, at most k graphs")
    default = study.default
    marks = [("default", default, GREY, "o"), ("this ladder", study.answer.score, GREEN, "s")]
    if study.no_loss is not None:
        marks.append(("fewest that lose nothing", study.no_loss.score, PURPLE, "^"))
    for name, score, colour, mark in marks:
        k, ms = len(score.ladder), score.mean_step_ns / 1e6
        label = f"{name}: {k}"
        axes.plot(k, ms, mark, mfc="none", mec=colour, mew=2, ms=9, ls="", label=label)
    axes.axhline(study.limit_ns / 1e6, color=ORANGE, ls="--", lw=1.2, label="a graph a size")
    axes.set_xlabel("graphs k")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8.5)
