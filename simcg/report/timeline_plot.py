"""The picture of a step on the machine: host and stream of each backend, above each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from simcg.des.machine.run import Span, SpanKind, StepRun
from simcg.errors import require
from simcg.report.plots import BLUE, GREEN, GREY, ORANGE, PURPLE, check_picture, write_picture

COLOURS: dict[SpanKind, tuple[str, str]] = {
    "dispatch": (ORANGE, "dispatch"),
    "replay": ("#7B2D00", "graph launch"),
    "break": ("#E69F00", "body of a break"),
    "work": ("#56B4E9", "guards"),
    "held": (GREY, "host waits for a place in the queue"),
    "synced": (GREY, "host waits for the stream"),
    "kernel": (BLUE, "kernel"),
    "collective": (GREEN, "collective"),
    "peers": (PURPLE, "waits for other ranks"),
}
HEIGHT = 0.8
NARROW = 0.005
"""Mean share of the axis up to which bars have no edges."""


def plot_steps(runs: Mapping[str, StepRun], path: Path, title: str) -> None:
    """Write the picture to ``path`` (its ending says the format), whole or not at all."""
    kind = check_picture(path)
    require(bool(runs), "--plot", "", str(path), "a step to draw")
    write_picture(steps_figure(runs, title), path, kind)


def steps_figure(runs: Mapping[str, StepRun], title: str) -> Figure:
    """Rank 0 of each run, which needs its spans, in panels of one time axis."""
    figure = Figure(figsize=(10, 1.2 + 1.1 * len(runs)), layout="constrained")
    panels = figure.subplots(len(runs), 1, squeeze=False, sharex=True)[:, 0]
    figure.suptitle(title, fontsize=11)
    drawn: set[SpanKind] = set()
    longest_us = max(max(run.end_ns, run.host_ns) for run in runs.values()) / 1e3
    for axes, (name, run) in zip(panels, runs.items(), strict=True):
        drawn |= _panel(axes, name, run, longest_us)
    panels[-1].set_xlabel("time (µs)")
    panels[-1].set_xlim(0, longest_us * 1.01)
    keys = {COLOURS[kind][1]: COLOURS[kind][0] for kind in COLOURS if kind in drawn}
    patches = [Patch(color=colour, label=label) for label, colour in keys.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), fontsize=9)
    return figure


def _panel(axes: Axes, name: str, run: StepRun, longest_us: float) -> set[SpanKind]:
    """The host on top, then the streams; the kinds of span that were drawn."""
    spans = [span for span in run.spans if span.rank == 0 and span.kind in COLOURS]
    streams = [stream.name for stream in run.ranks[0].streams]
    tracks = {track: -place for place, track in enumerate(["", *streams])}
    for (track, kind), bars in _bars(spans).items():
        place = (tracks[track] - HEIGHT / 2, HEIGHT)
        colour = COLOURS[kind][0]
        # a white edge parts what follows without a gap, and would bleach narrow bars
        wide = sum(width for _, width in bars) > NARROW * longest_us * len(bars)
        edge = 0.3 if wide else 0.0
        axes.broken_barh(bars, place, facecolors=colour, edgecolors="white", linewidths=edge)
    axes.set_yticks([*tracks.values()], ["host", *streams])
    axes.axvline(run.end_ns / 1e3, color=GREY, lw=1, ls=":")
    axes.set_title(f"{name}: {run.end_ns / 1e3:,.0f} µs", fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return {span.kind for span in spans}


def _bars(spans: Sequence[Span]) -> dict[tuple[str, SpanKind], list[tuple[float, float]]]:
    """Start and width in µs, by track and kind."""
    bars: dict[tuple[str, SpanKind], list[tuple[float, float]]] = {}
    for span in spans:
        bar = (span.start_ns / 1e3, span.duration_ns / 1e3)
        bars.setdefault((span.stream, span.kind), []).append(bar)
    return bars
