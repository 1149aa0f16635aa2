"""The pictures of a step show where its time goes: by backend, by size and by product."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.patches import Rectangle

import simcg
from simcg.cost.kernels import Work
from simcg.cost.step import OpTimes, StepTimes
from simcg.errors import InputError
from simcg.report.hiding_plot import WAITS, hiding_figure
from simcg.report.spent_plot import spent_figure
from simcg.report.stairs_plot import stairs_figure

BACKENDS = ("eager", "tc_piecewise", "breakable", "full")
LAUNCH_BOUND = simcg.Server(model="gpt-oss-120b", hardware="gb300", tp=4)
SERVERS = {"compute-bound": simcg.Server(), "launch-bound": LAUNCH_BOUND}
SIZES = tuple(2**i for i in range(14))


def times_of(server: simcg.Server) -> dict[str, StepTimes]:
    return {name: simcg.step_times(SIZES, server, backend=name) for name in BACKENDS}


@pytest.mark.parametrize("kind", SERVERS)
def test_lines_are_the_times_and_titles_say_where_the_host_hides(kind: str) -> None:
    """From the size that a title names on, and not before it, the step is the GPU's work."""
    times = times_of(SERVERS[kind])
    figure = hiding_figure(times, SIZES)
    figure.draw_without_rendering()
    for axes, (name, one) in zip(figure.axes, times.items(), strict=True):
        step, gpu, host = (np.asarray(line.get_ydata(), dtype=np.float64) for line in axes.lines)
        assert step.tolist() == (one.ns / 1e6).tolist()
        assert gpu.tolist() == (one.device_ns / 1e6).tolist()
        assert set(host) == {one.host_ns / 1e6}
        title = axes.get_title(loc="left")
        assert title.startswith(f"{name}: host ")
        waits = [
            bool(ns > (1 + WAITS) * gpu) for ns, gpu in zip(one.ns, one.device_ns, strict=True)
        ]
        named = re.search(r"from ([\d,]+) tokens", title)
        if named is None:
            assert title.endswith("never hidden" if waits[-1] else "hidden at every size")
            assert waits[-1] or not any(waits)
        else:
            first = SIZES.index(int(named[1].replace(",", "")))
            assert waits[first - 1]
            assert not any(waits[first:])


def test_the_two_regimes_are_told_apart() -> None:
    """Eager steps hide from some size on where kernels are long, and never where there are many."""
    figures = {kind: hiding_figure(times_of(server), SIZES) for kind, server in SERVERS.items()}
    titles = {kind: figure.axes[0].get_title(loc="left") for kind, figure in figures.items()}
    assert "hidden from" in titles["compute-bound"]
    assert "never hidden" in titles["launch-bound"]


def test_one_backend_needs_one_panel_and_three_leave_none_empty() -> None:
    """A panel without a backend is not shown."""
    times = times_of(simcg.Server())
    for count in (1, 3):
        chosen = {name: times[name] for name in BACKENDS[:count]}
        figure = hiding_figure(chosen, SIZES)
        assert sum(axes.get_visible() for axes in figure.axes) == count


def test_the_parts_of_a_bar_add_up_to_the_step() -> None:
    """Kernels, gaps and waits follow each other from zero to the end of the last kernel."""
    server = simcg.Server(model="gpt-oss-20b", tp=2, max_chunk=2048)
    settings = {
        str(n): {name: simcg.run_step(n, server, backend=name) for name in BACKENDS}
        for n in (64, 2048)
    }
    figure = spent_figure(settings)
    figure.draw_without_rendering()
    for axes, runs in zip(figure.axes, settings.values(), strict=True):
        bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        for place, run in enumerate(runs.values()):
            own = [bar for bar in bars if abs(bar.get_y() + bar.get_height() / 2 - place) < 0.1]
            end = 0.0
            for bar in own:
                assert bar.get_x() == pytest.approx(end)
                end += bar.get_width()
            assert end == pytest.approx(run.ranks[0].end_ns / 1e6)
            busy_ns = max(run.ranks[0].streams, key=lambda one: one.end_ns).busy_ns
            assert own[0].get_width() == busy_ns / 1e6
    (legend,) = figure.legends
    assert "waits for the host" in [text.get_text() for text in legend.get_texts()]


def test_products_are_those_of_the_first_layer() -> None:
    """Their times over the rows, beside the time in which the memory gives their weights once."""
    cost, rows = simcg.Server().step_cost(), range(1, 301)
    figure = stairs_figure(cost, rows)
    figure.draw_without_rendering()
    top, _ = figure.axes
    times = OpTimes(cost.profile, Work.of_prompts(np.arange(1, 301)))
    lines = {str(line.get_label()).partition(",")[0]: line for line in top.lines}
    for op in cost.forward.layers[0]:
        assert (op.name in lines) == (op.kind == "gemm")
        if op.kind == "gemm":
            drawn = np.asarray(lines[op.name].get_ydata(), dtype=np.float64)
            assert drawn.tolist() == (times.of(op).ns / 1e3).tolist()
    floors = [line for line in top.lines if str(line.get_label()).startswith("_")]
    assert len(floors) == 4
    lowest = {min(np.asarray(line.get_ydata(), dtype=np.float64)) for line in floors}
    assert max(lowest) < max(np.asarray(lines["gate_up"].get_ydata(), dtype=np.float64))


def test_a_layer_without_products_is_refused() -> None:
    """As there is nothing to draw."""
    cost = simcg.Server().step_cost()
    bare = tuple(op for op in cost.forward.layers[0] if op.kind != "gemm")
    with pytest.raises(InputError, match="at least one"):
        stairs_figure(replace(cost, forward=replace(cost.forward, layers=(bare,))), range(1, 9))
