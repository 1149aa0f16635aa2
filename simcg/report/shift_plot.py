"""The picture of ladders on traffic that they were not chosen for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from simcg.errors import require
from simcg.optimize.score import LadderScore


def shift_figure(scores: Mapping[str, Mapping[str, LadderScore]]) -> Figure:
    """How much longer the mean step of a traffic (a row) is under each ladder than under its best.

    ``scores``: by traffic, then by ladder; every traffic with the same ladders.
    """
    rows, columns = list(scores), list(next(iter(scores.values()), {}))
    same = bool(columns) and all(list(ladders) == columns for ladders in scores.values())
    require(same, "shift_figure", "scores", columns, "the same ladders for every traffic")
    ns = np.array([[one.mean_step_ns for one in scores[row].values()] for row in rows])
    longer = 100 * (ns / ns.min(axis=1, keepdims=True) - 1)
    figure = Figure(figsize=(10, 1.4 + 0.65 * len(rows)), layout="constrained")
    axes = figure.subplots()
    # square root, so that one bad column leaves the others apart
    image = axes.imshow(np.sqrt(longer), cmap="Blues", aspect="auto")
    for y, x in np.ndindex(longer.shape):
        dark = np.sqrt(longer[y, x]) > np.sqrt(longer.max()) / 2
        text = f"+{longer[y, x]:.1f}%"
        axes.text(x, y, text, ha="center", va="center", color="white" if dark else "black")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel="ladder", ylabel="traffic that is served")
    axes.set_title(
        "mean step, longer than with the best of these ladders (darker: longer)", fontsize=10
    )
    axes.spines[:].set_visible(False)
    image.set_clim(0, None)
    return figure
