"""Pictures of graph memory show what was played, in MiB and GiB."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from simcg import Server
from simcg.des.memory.after_prefill import after_prefill
from simcg.des.memory.ladder import StepLimits, ladder_capture
from simcg.des.memory.play import play
from simcg.des.memory.pool import few_layers, ladder_memory
from simcg.des.memory.trace import GRAPHS, CapturePlan, Trace, capture_trace
from simcg.report.memory_plot import (
    GIB,
    KEPT,
    MIB,
    after_prefill_figure,
    capture_figure,
    ceiling_figure,
    pool_map_figure,
)

WHOLE = Server().replay_model
MODEL = replace(WHOLE, forward=few_layers(WHOLE.forward))
SIZES = (64, 700, 2048)
WAYS = {
    "weak": CapturePlan(warm_ups=1),
    "strong": CapturePlan(holding="strong"),
    "own": CapturePlan(outputs="own", seeded=True, streams=2),
}


def boxes(axes: Axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def pool_tensors(trace: Trace) -> list[int]:
    return [e.tensor for e in trace.events if e.kind == "allocate" and e.pool == GRAPHS]


@pytest.mark.parametrize("way", WAYS)
def test_every_tensor_of_the_pool_is_a_box(way: str) -> None:
    """As high as its block, from its allocation to its free; no two overlap; what stays is KEPT."""
    trace = capture_trace(MODEL.forward, MODEL.backend, SIZES, 1, WAYS[way])
    (axes,) = pool_map_figure({way: trace}).axes
    drawn, tensors, played = boxes(axes), pool_tensors(trace), play(trace)
    freed = {event.tensor: i for i, event in enumerate(trace.events) if event.kind == "free"}
    assert [box.get_height() * MIB for box in drawn] == [
        played.placements[tensor].nbytes for tensor in tensors
    ]
    ends = [freed.get(tensor, len(trace.events)) for tensor in tensors]
    assert [box.get_x() + box.get_width() for box in drawn] == ends
    assert [to_hex(b.get_facecolor(), keep_alpha=False).upper() == KEPT for b in drawn] == [
        tensor not in freed for tensor in tensors
    ]
    assert max(box.get_y() + box.get_height() for box in drawn) * MIB <= played.graphs.reserved[-1]
    extents = [(b.get_x(), b.get_x() + b.get_width(), b.get_y(), b.get_height()) for b in drawn]
    for number, (start, stop, low, height) in enumerate(extents):
        for begin, end, bottom, tall in extents[:number]:
            apart = stop <= begin or end <= start
            assert apart or low + height <= bottom or bottom + tall <= low


def test_the_buckets_are_named_in_the_order_of_their_capture() -> None:
    """Each panel by its own plan."""
    plans = {"largest": CapturePlan(), "smallest": CapturePlan(order="smallest first")}
    traces = {n: capture_trace(MODEL.forward, MODEL.backend, SIZES, 1, p) for n, p in plans.items()}
    largest, smallest = pool_map_figure(traces).axes
    assert [text.get_text() for text in largest.texts] == ["2,048", "700", "64"]
    assert [text.get_text() for text in smallest.texts] == ["64", "700", "2,048"]
    assert largest.get_ylim() == smallest.get_ylim()


def test_a_line_ends_at_what_the_pool_has_reserved() -> None:
    """One line a way to capture, one point a graph."""
    results = {n: ladder_capture(MODEL, SIZES, StepLimits(2048), p) for n, p in WAYS.items()}
    (axes,) = capture_figure(results).axes
    reserved = [points(line)[:, 1] * GIB for line in axes.lines]
    assert [len(pools) for pools in reserved] == [len(SIZES)] * len(WAYS)
    assert [pools[-1] for pools in reserved] == [r.pool_reserved for r in results.values()]
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == len(WAYS)


def points(line: Line2D) -> npt.NDArray[np.float64]:
    return np.column_stack((np.asarray(line.get_xdata()), np.asarray(line.get_ydata())))


def bar_heights(axes: Axes, bars: int) -> list[float]:
    """Of each bar, its parts together, which stand on each other."""
    heights = []
    for bar in range(bars):
        top = 0.0
        for part in boxes(axes)[bar::bars]:
            assert part.get_y() == pytest.approx(top)
            top += part.get_height()
        heights.append(top)
    return heights


def test_bars_after_a_prefill_are_as_high_as_all_that_stays() -> None:
    """Published values are marks at their own bars, and only there."""
    bars = {c: after_prefill(MODEL.forward, 2048, c) for c in (0, 1024, 2048)}
    figure = after_prefill_figure({"one": bars, "other": bars}, {"one": {1024: 3 * GIB}})
    one, other = figure.axes
    assert bar_heights(one, 3) == pytest.approx([each.total / GIB for each in bars.values()])
    marks = {
        axes: [points(line).tolist() for line in axes.lines if line.get_label() == "published"]
        for axes in (one, other)
    }
    assert marks == {one: [[[1, 3]]], other: [[]]}
    assert [tick.get_text() for tick in one.get_xticklabels()] == ["no graphs", "1,024", "2,048"]
    assert figure.legends[0].get_texts()[-1].get_text() == "published"


def test_bars_of_a_budget_are_as_high_as_the_peak() -> None:
    """Pool, graphs and the largest eager step."""
    bars = {c: ladder_memory(SIZES[:n], 2048 * (n < 3), 1, MODEL)
            for n, c in enumerate((0, 64, 700, 2048))}  # fmt: skip
    (axes,) = ceiling_figure(bars).axes
    assert bar_heights(axes, 4) == pytest.approx([each.peak / GIB for each in bars.values()])
