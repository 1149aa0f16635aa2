"""The picture of a validation: errors over step size, one panel a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simcg.errors import require
from simcg.report.plots import BLUE, GREEN, GREY, ORANGE, PURPLE, check_picture, write_picture
from simcg.runs.compare import Compared
from simcg.runs.validation import Validation

MARKS = {
    "full": (BLUE, "o"),
    "breakable": (GREEN, "s"),
    "tc_piecewise (eager)": (PURPLE, "^"),
    "tc_piecewise (inductor)": (PURPLE, "v"),
    "eager": (ORANGE, "D"),
}


def plot_validation(result: Validation, path: Path) -> None:
    """Write the picture to ``path`` (its ending says the format), whole or not at all."""
    kind = check_picture(path)
    steps = [cell for cell in result.comparison.cells if cell.kind == "step"]
    require(bool(steps), "--plot", "", str(path), "runs that hold measured steps of a GPU")
    write_picture(validation_figure(result), path, kind)


def validation_figure(result: Validation) -> Figure:
    """Predicted over measured time of each step, a panel a model."""
    steps = [cell for cell in result.comparison.cells if cell.kind == "step"]
    models = list(dict.fromkeys(cell.model for cell in steps))
    figure = Figure(figsize=(10, 1.2 + 3 * len(models)), layout="constrained")
    panels = figure.subplots(len(models), 1, squeeze=False, sharex=True)[:, 0]
    figure.suptitle(f"predicted over measured step time, profile {result.profile.name}")
    for axes, model in zip(panels, models, strict=True):
        _panel(axes, model, [cell for cell in steps if cell.model == model])
    panels[-1].set_xlabel("tokens n")
    keys = {
        label: handle
        for axes in panels
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(keys.values(), keys, loc="outside lower center", ncols=len(keys), fontsize=9)
    return figure


def _panel(axes: Axes, model: str, cells: list[Compared]) -> None:
    """Errors in percent; the band is what the measurement repeats to."""
    for backend in dict.fromkeys(cell.backend for cell in cells):
        colour, mark = MARKS.get(backend, (GREY, "x"))
        own = sorted((c for c in cells if c.backend == backend), key=lambda c: c.tokens)
        sizes, errors = [c.tokens for c in own], [100 * c.error for c in own]
        axes.plot(sizes, errors, mark, color=colour, mfc="none", mew=1.6, ls="", label=backend)
    repeats = 100 * float(np.median([cell.floor or 0.0 for cell in cells]))
    axes.axhspan(-repeats, repeats, color=GREY, alpha=0.3, lw=0, label="median repeat spread")
    axes.axhline(0, color=GREY, lw=1)
    axes.set(xscale="log", ylabel="error (%)", title=model)
