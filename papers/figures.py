"""The report's figures, drawn by `simcg.report`, as SVG that is equal from run to run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from papers.sources import (
    COMPUTE_BOUND,
    LAUNCH_BOUND,
    gains,
    prompts,
    prompts_of,
    reproduction,
    step_times,
    study_of,
    validation,
)
from simcg.arrays import Ints
from simcg.backend import BREAKABLE, EAGER, FULL, TC_PIECEWISE
from simcg.cost.step import StepCost
from simcg.des.machine.run import StepRun
from simcg.des.machine.step import simulate_step
from simcg.hardware.catalog import load_profile
from simcg.model.catalog import load_architecture
from simcg.model.forward import forward_pass
from simcg.report.frontier_plot import frontier_figure
from simcg.report.gains_plot import GainBar, gains_figure
from simcg.report.plots import study_figure
from simcg.report.reproduction_plot import errors_figure
from simcg.report.step_plot import step_times_figure
from simcg.report.timeline_plot import steps_figure
from simcg.report.validation_plot import validation_figure
from simcg.server import Server

WIDE = 7.2
"""Inches that the text's width is drawn at, so that ten points are printed as nine."""
LAYERS, TOKENS = 4, 64
BACKENDS = (EAGER, TC_PIECEWISE, BREAKABLE, FULL)


def draw_figures(folder: Path) -> None:
    """Writes each figure as SVG into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "simcg", "svg.fonttype": "path"}):
        for name, figure in figures().items():
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def figures() -> dict[str, Figure]:
    """All of them by the name that the pages use."""
    return {
        "steps": step_times_figure({name(s): times(s) for s in (COMPUTE_BOUND, LAUNCH_BOUND)}),
        "timeline": sized(steps_figure(machine_runs(), ""), 4.2),
        "study": answer_figure(),
        "frontier": frontier_figure({name(s): study_of(s) for s in (COMPUTE_BOUND, LAUNCH_BOUND)}),
        "gains": gains_figure(gain_bars()),
        "validation": sized(validation_figure(validation()), 7.0),
        "reproduction": errors_figure(
            [*reproduction().of_kind("fitted"), *reproduction().of_kind("predicted")]
        ),
    }


def answer_figure() -> Figure:
    """The picture of the answer, its lower legend where no mark is."""
    figure = sized(study_figure(study_of(COMPUTE_BOUND)), 6.2)
    legend = figure.axes[1].get_legend()
    if legend is not None:
        legend.set_loc("upper center")
    return figure


def sized(figure: Figure, height: float) -> Figure:
    """The figure at the text's width, without a title over all panels: the caption says it."""
    figure.set_size_inches(WIDE, height)
    figure.suptitle("")
    return figure


def name(server: Server) -> str:
    """Model and GPUs."""
    return f"{server.model}, {server.tp} x {server.hardware}"


def times(server: Server) -> dict[str, Ints]:
    """Step times of every prompt length, by backend."""
    return {backend.name: step_times(server, backend, prompts()).ns for backend in BACKENDS}


def machine_runs() -> dict[str, StepRun]:
    """The first layers of a small step on the event machine, backend by backend."""
    forward = forward_pass(load_architecture(COMPUTE_BOUND.model))
    forward = replace(forward, layers=forward.layers[:LAYERS], tail=())
    profile = load_profile(COMPUTE_BOUND.hardware)
    work = prompts_of([TOKENS])
    return {
        backend.name: simulate_step(StepCost(forward, profile, backend), work, trace=True)
        for backend in BACKENDS
    }


def gain_bars() -> dict[str, list[GainBar]]:
    """The committed gains by setting."""
    bars: dict[str, list[GainBar]] = {}
    for one in gains():
        share, low, high = (float(one[key]) for key in ("gain", "low", "high"))
        bar = GainBar(
            one["trace"].partition(" (")[0], f"rate {one['rate']}x the trace's", share, low, high
        )
        bars.setdefault(one["setting"], []).append(bar)
    return bars
