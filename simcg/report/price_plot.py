"""The picture of one more graph: the least step time over their number, and what the next saves."""

from __future__ import annotations

from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simcg.optimize.study import Study
from simcg.report.plots import BLUE, GREEN, GREY, ORANGE, PURPLE


def price_figure(study: Study) -> Figure:
    """Above the least mean step time with at most k graphs, below what graph k + 1 saves of it."""
    figure = Figure(figsize=(10, 6.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    steps = study.traffic.counted.total
    least = {k: ns / steps for k, ns in enumerate(study.curve_ns) if ns is not None}
    _curve(top, study, least)
    saved = [(k, least[k] - least[more]) for k, more in pairwise(least)]
    bottom.plot([k for k, _ in saved], [ns / 1e3 for _, ns in saved], "o-", color=BLUE, ms=4)
    bottom.set(xlabel="graphs k", ylabel="saved by graph k + 1\n(µs a step)", yscale="log")
    bottom.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    bottom.grid(visible=True, axis="y", alpha=0.3)
    return figure


def _curve(axes: Axes, study: Study, least: dict[int, float]) -> None:
    axes.plot(list(least), [ns / 1e6 for ns in least.values()], "o-", color=BLUE, ms=4,
              label="least, at most k graphs")  # fmt: skip
    marks = [("default", study.default, GREY, "o"), ("this ladder", study.answer.score, GREEN, "s")]
    if study.no_loss is not None:
        marks.append(("fewest that lose nothing", study.no_loss.score, PURPLE, "^"))
    for name, score, colour, mark in marks:
        k, ms = len(score.ladder), score.mean_step_ns / 1e6
        axes.plot(k, ms, mark, mfc="none", mec=colour, mew=2, ms=11, ls="", label=f"{name}: {k}")
    axes.axhline(study.limit_ns / 1e6, color=ORANGE, ls="--", lw=1.2,
                 label="a graph for every size (limit)")  # fmt: skip
    axes.set_ylabel("mean step time (ms)")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=9)
