"""The picture of where a step's time goes on the GPU, backend by backend."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from simcg.des.machine.run import StepRun
from simcg.report.plots import BLUE, GREEN, GREY, ORANGE, PURPLE

PARTS = (
    ("busy_ns", BLUE, "kernels", ""),
    ("gap_ns", GREEN, "gaps that the GPU needs", "//"),
    ("events_ns", GREY, "other streams", ".."),
    ("peers_ns", PURPLE, "waits for other ranks", "xx"),
    ("starved_ns", ORANGE, "waits for the host", "\\\\"),
)
"""The parts of a stream's time, which add up to the end of its last kernel."""


def spent_figure(settings: Mapping[str, Mapping[str, StepRun]]) -> Figure:
    """A panel a setting with a scale of its own, a bar a backend: rank 0's longest stream."""
    figure = Figure(figsize=(10, 0.8 + 1.9 * len(settings)), layout="constrained")
    panels = figure.subplots(len(settings), 1, squeeze=False)[:, 0]
    drawn: set[str] = set()
    for axes, (title, runs) in zip(panels, settings.items(), strict=True):
        drawn |= _panel(axes, title, runs)
    panels[-1].set_xlabel("time (ms)")
    keys = [
        Patch(facecolor=colour, edgecolor="white", hatch=hatch, label=label)
        for _, colour, label, hatch in PARTS
        if label in drawn
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), fontsize=9)
    return figure


def _panel(axes: Axes, title: str, runs: Mapping[str, StepRun]) -> set[str]:
    """The parts one after the other; the labels of those that were drawn."""
    streams = {
        name: max(run.ranks[0].streams, key=lambda one: one.end_ns) for name, run in runs.items()
    }
    drawn = set()
    left = dict.fromkeys(streams, 0.0)
    for part, colour, label, hatch in PARTS:
        widths = {name: getattr(one, part) / 1e6 for name, one in streams.items()}
        if any(widths.values()):
            drawn.add(label)
            axes.barh(
                [*streams], [*widths.values()], left=[*left.values()],
                color=colour, edgecolor="white", hatch=hatch, height=0.7,
            )  # fmt: skip
        left = {name: left[name] + widths[name] for name in streams}
    for place, (name, one) in enumerate(streams.items()):
        share = one.busy_ns / one.end_ns
        axes.text(left[name], place, f" {left[name]:.3g} ms, {share:.0%} kernels", va="center")
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.set_xlim(0, None)
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return drawn
