"""The picture of a reproduction: the error of every published value."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from simcg.report.plots import BLUE, GREY, ORANGE
from simcg.reproduce.outcome import PREDICTED_MEDIAN_LIMIT, PREDICTED_WORST_LIMIT, Outcome

HEIGHT = 0.135
"""Inches a value."""


def errors_figure(outcomes: Sequence[Outcome]) -> Figure:
    """A line a value: independent predictions filled, others hollow; bands are the targets."""
    drawn = [one for one in outcomes if one.error is not None]
    figure = Figure(figsize=(7.2, 0.9 + HEIGHT * len(drawn)), layout="constrained")
    axes = figure.subplots()
    for limit, alpha, label in (
        (PREDICTED_WORST_LIMIT, 0.15, "target of the worst"),
        (PREDICTED_MEDIAN_LIMIT, 0.25, "target of the median"),
    ):
        axes.axvspan(-100 * limit, 100 * limit, color=GREY, alpha=alpha, lw=0, label=label)
    for kind, follows, label, colour, mark, fill in (
        ("fitted", False, "fitted", ORANGE, "s", "white"),
        ("predicted", False, "predicted", BLUE, "o", BLUE),
        ("predicted", True, "follows, or cannot miss", BLUE, "o", "white"),
    ):
        rows = [
            index
            for index, one in enumerate(drawn)
            if one.kind == kind and bool(one.follows) == follows
        ]
        errors = [100 * (drawn[index].error or 0.0) for index in rows]
        axes.plot(errors, rows, mark, color=colour, mfc=fill, ms=5, ls="", label=label)
    axes.axvline(0, color=GREY, lw=1)
    axes.set_yticks(range(len(drawn)), [one.published.id for one in drawn], fontsize=7.5)
    axes.set_ylim(len(drawn) - 0.4, -0.6)
    axes.set_xlabel("simulated against published (%)")
    axes.grid(axis="y", color=GREY, alpha=0.25)
    axes.legend(fontsize=9, loc="center right")
    return figure
