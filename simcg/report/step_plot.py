"""The picture of step times over step sizes, backend by backend."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from simcg.arrays import Ints
from simcg.report.plots import BLUE, GREEN, GREY, ORANGE, PURPLE

LINES = {
    "eager": (ORANGE, "--"),
    "tc_piecewise": (PURPLE, "-."),
    "breakable": (GREEN, "-"),
    "full": (BLUE, ":"),
}


def step_times_figure(settings: Mapping[str, Mapping[str, Ints]]) -> Figure:
    """A panel a setting, a line a backend: ``ns[n - 1]`` is the step of n tokens."""
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    panels = figure.subplots(1, len(settings), squeeze=False, sharey=True)[0]
    for axes, (title, backends) in zip(panels, settings.items(), strict=True):
        _panel(axes, title, backends)
    panels[0].set_ylabel("step time (ms)")
    panels[0].legend(fontsize=9)
    return figure


def _panel(axes: Axes, title: str, backends: Mapping[str, Ints]) -> None:
    """Both axes logarithmic, ticks as plain numbers."""
    for name, ns in backends.items():
        colour, style = LINES.get(name, (GREY, "-"))
        n = np.arange(1, len(ns) + 1)
        axes.plot(n, ns / 1e6, color=colour, ls=style, lw=1.8, label=name)
    axes.set(xscale="log", yscale="log", xlabel="tokens n of one prompt")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.set_title(title, fontsize=10)
    axes.grid(which="major", color=GREY, alpha=0.25)
