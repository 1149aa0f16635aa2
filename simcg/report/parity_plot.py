"""The picture of predictions against measurements: one mark a step, on the diagonal if right."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from simcg.report.plots import GREY
from simcg.report.validation_plot import MARKS
from simcg.runs.compare import Compared


def parity_figure(cells: Sequence[Compared]) -> Figure:
    """Predicted over measured step times, a panel a model; nothing but steps is drawn."""
    steps = [cell for cell in cells if cell.kind in ("step", "trace step")]
    models = list(dict.fromkeys(cell.model for cell in steps))
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    panels = figure.subplots(1, len(models), squeeze=False)[0]
    keys: dict[str, Artist] = {}
    for axes, model in zip(panels, models, strict=True):
        _panel(axes, model, [cell for cell in steps if cell.model == model])
        handles, labels = axes.get_legend_handles_labels()
        keys.update(zip(labels, handles, strict=True))
    panels[0].set_ylabel("predicted (ms)")
    figure.legend(
        list(keys.values()), list(keys), loc="outside lower center", ncols=len(keys), fontsize=9
    )
    return figure


def _panel(axes: Axes, model: str, cells: Sequence[Compared]) -> None:
    for backend in dict.fromkeys(cell.backend for cell in cells):
        colour, mark = MARKS.get(backend, (GREY, "x"))
        own = [cell for cell in cells if cell.backend == backend]
        measured = [cell.measured / 1e6 for cell in own]
        predicted = [cell.predicted / 1e6 for cell in own]
        axes.plot(
            measured, predicted, mark, color=colour, mfc="none", mew=1.2, ms=5, ls="", label=backend
        )
    ends = [value / 1e6 for cell in cells for value in (cell.measured, cell.predicted)]
    axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color=GREY, lw=1)
    axes.set(xscale="log", yscale="log", xlabel="measured (ms)", aspect="equal")
    axes.set_title(model, fontsize=10)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
