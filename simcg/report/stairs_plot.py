"""The picture of why steps are flat and then climb: the matrix products of a layer over rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simcg.arrays import Ints
from simcg.cost.kernels import Work
from simcg.cost.step import OpTimes, StepCost
from simcg.errors import require
from simcg.model.ops import Op, weight_bytes
from simcg.report.plots import BLUE, GREEN, GREY, ORANGE, PURPLE
from simcg.report.units import size

STROKES = ((BLUE, "-"), (ORANGE, "--"), (GREEN, "-."), (PURPLE, ":"), (GREY, "-"))


def stairs_figure(cost: StepCost, rows: Sequence[int]) -> Figure:
    """Above the time of each product of the first layer, below the same for each row.

    Raises ``InputError`` for a first layer without products.
    """
    products = [op for op in cost.forward.layers[0] if weight_bytes(op.shape)]
    require(bool(products), "stairs_figure", "products", len(products), "at least one")
    n: Ints = np.asarray(rows, dtype=np.int64)
    times = OpTimes(cost.profile, Work.of_prompts(n))
    figure = Figure(figsize=(10, 6.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for place, op in enumerate(products):
        colour, style = STROKES[place % len(STROKES)]
        us = times.of(op).ns / 1e3
        top.plot(n, us, color=colour, ls=style, lw=1.8, label=_label(op))
        bottom.plot(n, us / n, color=colour, ls=style, lw=1.8)
        _floor(top, n, op, cost, colour)
    top.set(ylabel="time of the product (µs)", xlim=(n[0], n[-1]), ylim=(0, None))
    top.plot([], [], color=GREY, lw=0.9, label="thin: reading the weights once")
    top.legend(loc="upper left", fontsize=9)
    bottom.set(xlabel="rows: tokens n of a step", ylabel="time a row (µs)", yscale="log")
    bottom.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for axes in (top, bottom):
        axes.grid(visible=True, color=GREY, alpha=0.25)
    return figure


def _floor(axes: Axes, n: Ints, op: Op, cost: StepCost, colour: str) -> None:
    """The least time that the weights take through the memory, as far as it is near."""
    us = weight_bytes(op.shape) / cost.profile.gpu.memory_bandwidth.value * 1e6
    axes.plot([n[0], n[len(n) // 6]], [us, us], color=colour, lw=0.9)


def _label(op: Op) -> str:
    return f"{op.name}, {size(weight_bytes(op.shape))} of weights"
