"""The picture of gains over an engine's default: one line a trace, one panel a setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simcg.report.plots import BLUE, GREY, ORANGE

MARKS = ((BLUE, "o"), (ORANGE, "s"))


@dataclass(frozen=True, slots=True)
class GainBar:
    """A gain with its interval, as shares; ``series`` tells runs of one line apart."""

    line: str
    series: str
    share: float
    low: float
    high: float


def gains_figure(settings: Mapping[str, Sequence[GainBar]]) -> Figure:
    """Hollow marks with their intervals; zero is where the default is."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    columns = 2
    rows = -(-len(settings) // columns)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for axes, (title, bars) in zip(panels, settings.items(), strict=False):
        _panel(axes, title, bars)
    for axes in panels[-columns:]:
        axes.set_xlabel("gain over the default (% of its mean step)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)
    return figure


def _panel(axes: Axes, title: str, bars: Sequence[GainBar]) -> None:
    """Lines from top to bottom, series side by side."""
    lines = list(dict.fromkeys(bar.line for bar in bars))
    series = list(dict.fromkeys(bar.series for bar in bars))
    for index, name in enumerate(series):
        colour, mark = MARKS[index % len(MARKS)]
        own = [bar for bar in bars if bar.series == name]
        shift = 0.15 * (2 * index - len(series) + 1)
        at = [lines.index(bar.line) + shift for bar in own]
        gain = [100 * bar.share for bar in own]
        error = [[100 * (b.share - b.low) for b in own], [100 * (b.high - b.share) for b in own]]
        axes.errorbar(
            gain, at, xerr=error, fmt=mark, color=colour, mfc="white", ms=5, lw=1.4, label=name
        )
    axes.axvline(0, color=GREY, lw=1)
    axes.set_yticks(range(len(lines)), lines)
    if not axes.yaxis_inverted():
        axes.invert_yaxis()
    axes.set_title(title, fontsize=10)
    axes.grid(axis="x", color=GREY, alpha=0.25)
