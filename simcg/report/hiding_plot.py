"""The picture of where the host hides: its time and the GPU's beside the step, by backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simcg.arrays import Bools, Ints
from simcg.cost.step import StepTimes
from simcg.report.plots import BLUE, GREY, ORANGE

WAITS = 0.05
"""Share of its GPU work by which a step must be longer to count as waiting for the host."""
BELOW = 0.15
"""The axis begins at this share of the shortest step: a whole graph's launch lies far below."""


def hiding_figure(times: Mapping[str, StepTimes], lengths: Sequence[int]) -> Figure:
    """A panel a backend over prompts of these lengths, all panels of one scale."""
    columns = 2 if len(times) > 1 else 1
    rows = -(-len(times) // columns)
    figure = Figure(figsize=(10, 0.8 + 3 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes, (name, one) in zip(panels.flat, times.items(), strict=False):
        _panel(axes, name, one, np.asarray(lengths, dtype=np.int64))
    for axes in panels.flat[len(times) :]:
        axes.set_visible(False)
    for axes in panels[-1]:
        axes.set_xlabel("tokens n of one prompt")
    for axes in panels[:, 0]:
        axes.set_ylabel("time (ms)")
    panels[0, 0].set_ylim(bottom=BELOW * min(one.ns.min() for one in times.values()) / 1e6)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)
    return figure


def _panel(axes: Axes, name: str, times: StepTimes, n: Ints) -> None:
    """Step, GPU and host over n; shaded where the step waits for the host."""
    step, gpu, host = times.ns / 1e6, times.device_ns / 1e6, times.host_ns / 1e6
    waits = step > (1 + WAITS) * gpu
    axes.fill_between(n, gpu, step, where=waits.tolist(), color=ORANGE, alpha=0.25, lw=0,
                      label="the GPU waits for the host")  # fmt: skip
    axes.plot(n, step, color="black", lw=2, label="step")
    axes.plot(n, gpu, color=BLUE, ls="--", lw=1.6, label="kernels and their gaps")
    axes.axhline(host, color=ORANGE, ls=":", lw=2, label="host, issuing them")
    issues = f"{host:.2g} ms" if host >= 0.1 else f"{1e3 * host:.2g} µs"
    axes.set_title(f"{name}: host {issues}, {_hidden(waits, n)}", fontsize=10, loc="left")
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.grid(visible=True, color=GREY, alpha=0.25)


def _hidden(waits: Bools, n: Ints) -> str:
    """From which length on the host's time is no part of the step."""
    late = np.flatnonzero(waits)
    if late.size == 0:
        return "hidden at every size"
    return "never hidden" if waits[-1] else f"hidden from {n[late[-1] + 1]:,} tokens on"
