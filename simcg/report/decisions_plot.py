"""The picture of what chosen ladders saved on a real GPU: measured intervals and predictions."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from simcg.report.plots import BLUE, GREY, ORANGE
from simcg.runs.decide import Decision

STRAIGHT = 6
"""Percent up to which the axis is linear; beyond, logarithmic, so that 1 and 25 % are both read."""
TICKS = (0, 1, 2, 3, 4, 5, 10, 20, 40)


def decisions_figure(found: Sequence[Decision]) -> Figure:
    """Share of the mean step that each ladder saves against another, a line a pair."""
    figure = Figure(figsize=(10, 1.2 + 0.32 * len(found)), layout="constrained")
    axes = figure.subplots()
    places = range(len(found))
    gain = [100 * one.measured for one in found]
    reach = [
        [100 * (one.measured - one.low) for one in found],
        [100 * (one.high - one.measured) for one in found],
    ]
    axes.errorbar(
        gain, places, xerr=reach, fmt="o", color=BLUE, mfc="white", ms=6, lw=1.6,
        label="measured, 95%",
    )  # fmt: skip
    predicted = [100 * one.predicted for one in found]
    axes.plot(predicted, places, "D", color=ORANGE, mfc="none", mew=1.6, ms=6, label="predicted")
    names = [
        f"{one.ours} ({one.graphs[0]}) against {one.theirs} ({one.graphs[1]})" for one in found
    ]
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_xscale("symlog", linthresh=STRAIGHT)
    most = max(100 * max(one.high, one.predicted) for one in found)
    least = min(100 * min(one.low, one.predicted) for one in found)
    axes.set_xlim(min(-0.5, 1.1 * least), 1.2 * most)
    axes.set_xticks([tick for tick in TICKS if tick <= 1.2 * most])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.minorticks_off()
    axes.axvline(0, color=GREY, lw=1)
    axes.grid(axis="x", color=GREY, alpha=0.25)
    axes.set_xlabel("time saved (% of the mean step)")
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    return figure
