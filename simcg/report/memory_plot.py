"""Pictures of graph memory: the pool during capture, ladders captured, ceilings below the chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, NullFormatter

from simcg.des.memory.after_prefill import AfterPrefill
from simcg.des.memory.ladder import CaptureResult
from simcg.des.memory.play import play
from simcg.des.memory.pool import LadderMemory
from simcg.des.memory.trace import GRAPHS, Phase, Trace
from simcg.report.plots import BLUE, GREEN, GREY, ORANGE, PURPLE
from simcg.report.units import size

GIB, MIB = 1 << 30, 1 << 20
LINES = ((GREEN, "-"), (BLUE, "--"), (PURPLE, "-."), (ORANGE, ":"))
"""Told apart by their dashes too, where colours are printed grey."""
KEPT, USED_AGAIN = ORANGE, "#56B4E9"
FILLS = ((ORANGE, ""), (BLUE, "//"), (PURPLE, ".."))


def pool_map_figure(captures: Mapping[str, Trace]) -> Figure:
    """The graphs' pool over the calls of the allocator, a panel a capture, one scale for all.

    Each tensor is a box: its addresses over its life.
    """
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, len(captures), squeeze=False, sharey=True)[0]
    tops = [_pool_map(a, name, t) for a, (name, t) in zip(panels, captures.items(), strict=True)]
    panels[0].set_ylim(0, max(tops) * 1.12)  # the buckets' names above
    panels[0].set_ylabel("place in the pool (MiB)")
    keys = {
        KEPT: "held by the graphs after capture",
        USED_AGAIN: "dropped during capture: used again",
    }
    handles = [
        Patch(facecolor=colour, edgecolor="white", label=text) for colour, text in keys.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=9)
    return figure


def _pool_map(axes: Axes, name: str, trace: Trace) -> float:
    """One panel; the MiB of its pool, whose segments are stacked as they were reserved."""
    played, end = play(trace), len(trace.events)
    bases, top = {}, 0
    for life in played.segments:
        if life.segment.pool == GRAPHS:
            bases[life.segment.address] = top
            axes.axhline(top / MIB, color=GREY, lw=0.5)
            top += life.segment.nbytes
    freed = {event.tensor: i for i, event in enumerate(trace.events) if event.kind == "free"}
    for index, event in enumerate(trace.events):
        if event.kind != "allocate" or event.pool != GRAPHS:
            continue
        block = played.placements[event.tensor]
        start = max(base for base in bases if base <= block.address)
        place = bases[start] + block.address - start
        colour = USED_AGAIN if event.tensor in freed else KEPT
        box = Rectangle(
            (index, place / MIB), freed.get(event.tensor, end) - index, block.nbytes / MIB,
            facecolor=colour, edgecolor="white", lw=0.5,
        )  # fmt: skip
        axes.add_patch(box)
    for phase in trace.phases:
        _name_phase(axes, phase)
    axes.set(xlim=(_first_capture(trace), end), xlabel="calls of the allocator")
    axes.set_title(f"{name}: {size(top)}", fontsize=10, loc="left")
    return top / MIB


def _first_capture(trace: Trace) -> int:
    return next((phase.first for phase in trace.phases if phase.name == "capture"), 0)


def _name_phase(axes: Axes, phase: Phase) -> None:
    if phase.name != "capture":
        return
    axes.axvline(phase.first, color="black", lw=0.8)
    middle = (phase.first + phase.stop) / 2
    axes.text(
        middle, 0.985, f"{phase.tokens:,}", ha="center", va="top", fontsize=9,
        transform=axes.get_xaxis_transform(),
    )  # fmt: skip


def capture_figure(captures: Mapping[str, CaptureResult]) -> Figure:
    """What the graphs' pool has reserved after each bucket's capture, a line a way to capture."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    axes = figure.subplots()
    for (name, result), (colour, dashes) in zip(captures.items(), cycle(LINES), strict=False):
        pools = [point.pool / GIB for point in result.timeline if point.phase == "capture"]
        number = np.arange(1, len(pools) + 1)
        label = f"{name}: {size(result.pool_reserved)}"
        axes.plot(number, pools, ls=dashes, color=colour, lw=2, label=label)
    axes.set(yscale="log", xlabel="graphs captured", ylabel="reserved by the pool (GiB)")
    _plain(axes)
    axes.legend(fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def after_prefill_figure(
    models: Mapping[str, Mapping[int, AfterPrefill]],
    published: Mapping[str, Mapping[int, float]],
) -> Figure:
    """Bytes that stay after a prefill of the chunk, by what holds them, a bar a ceiling (0: none).

    ``published``: bytes of the same, drawn as marks; what it lacks has no mark.
    """
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, len(models), squeeze=False)[0]
    for axes, (name, bars) in zip(panels, models.items(), strict=True):
        held = {
            "activations of what runs eager": [one.eager for one in bars.values()],
            "shared output": [one.output for one in bars.values()],
            "workspace and static inputs": [one.workspace + one.inputs for one in bars.values()],
        }
        _bars(axes, list(bars), held)
        marks = published.get(name, {})
        where = [place for place, ceiling in enumerate(bars) if ceiling in marks]
        heights = [marks[ceiling] / GIB for ceiling in bars if ceiling in marks]
        axes.plot(where, heights, "D", mfc="white", mec="black", ms=7, label="published")
        axes.set_title(name, fontsize=10)
    panels[0].set_ylabel("allocated after one prefill (GiB)")
    _legend(figure, panels[0])
    return figure


def ceiling_figure(ladders: Mapping[int, LadderMemory]) -> Figure:
    """Most device bytes beside weights and KV cache, by what takes them, a bar a ceiling."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    axes = figure.subplots()
    held = {
        "activations of the largest eager step": [one.eager_peak for one in ladders.values()],
        "graphs' pool and static inputs": [one.reserved for one in ladders.values()],
        "instantiated graphs": [one.device - one.reserved for one in ladders.values()],
    }
    _bars(axes, list(ladders), held)
    axes.set_ylabel("device memory (GiB)")
    _legend(figure, axes)
    return figure


def _bars(axes: Axes, ceilings: Sequence[int], held: Mapping[str, Sequence[int]]) -> None:
    """Parts on top of each other, the first bar's height as a line."""
    places = range(len(ceilings))
    base = np.zeros(len(ceilings))
    for (label, parts), (colour, hatch) in zip(held.items(), FILLS, strict=True):
        height = np.array(parts) / GIB
        axes.bar(
            places, height, bottom=base, color=colour, hatch=hatch, edgecolor="white", lw=0.5,
            label=label,
        )  # fmt: skip
        base += height
    names = [f"{ceiling:,}" if ceiling else "no graphs" for ceiling in ceilings]
    axes.axhline(base[0], color="black", lw=1, ls=":", label=f"as with {names[0]}")
    axes.set_xticks(places, names)
    axes.set_xlabel("ceiling: tokens of the largest bucket")
    axes.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure, axes: Axes) -> None:
    """One for all panels, what is drawn last at its end."""
    labelled = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    labels = sorted(labelled, key=lambda label: label == "published")
    handles = [labelled[label] for label in labels]
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)


def _plain(axes: Axes) -> None:
    """Whole and decimal numbers instead of powers of ten."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
