"""The picture of a study: costs with the traffic and both ladders; latency against memory."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from simcg.errors import InputError, require
from simcg.optimize.study import Study
from simcg.report.units import percent
from simcg.report.words import heading

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"  # told apart by all eyes
GREY = "#888888"
FORMATS = ("png", "svg", "pdf")


def check_picture(path: Path) -> str:
    """The format that the file's ending says; ``InputError`` for others or without the folder."""
    kind = path.suffix.lower().removeprefix(".")
    require(kind in FORMATS, "--plot", "", str(path), "a file ending in " + ", ".join(FORMATS))
    require(path.parent.is_dir(), "--plot", "", str(path), "a file in a folder that exists")
    return kind


def plot_study(study: Study, path: Path) -> None:
    """Write the picture to ``path`` (its ending says the format), whole or not at all."""
    kind = check_picture(path)
    write_picture(study_figure(study), path, kind)


def study_figure(study: Study) -> Figure:
    """Costs with the traffic and both ladders above, latency over graph memory below."""
    figure = Figure(figsize=(10, 7.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, height_ratios=(3, 2))
    figure.suptitle(heading(study), fontsize=12)
    _staircase(top, study)
    _memory(bottom, study)
    return figure


def write_picture(figure: Figure, path: Path, kind: str) -> None:
    """Write ``figure`` in format ``kind``, whole or not at all; ``InputError`` if it cannot be."""
    part = path.with_name(path.name + ".part")
    try:
        figure.savefig(part, format=kind, dpi=120)
        part.replace(path)
    except OSError as error:
        raise InputError("--plot", "", str(path), f"a writable file ({error.strerror})") from None
    finally:
        with suppress(OSError):  # the first error is the one to tell
            part.unlink(missing_ok=True)


def _staircase(axes: Axes, study: Study) -> None:
    """Cost over step size, the steps as a histogram, the two ladders as ticks."""
    table, steps = study.table, study.traffic.counted
    n = np.arange(1, table.max_tokens + 1)
    backend = study.scenario.model.backend.name
    axes.plot(n, table.replay_ns[1:] / 1e6, color=BLUE, label=f"{backend} replay in a bucket of n")
    fallback = study.scenario.model.fallback.name
    axes.plot(n, table.eager_ref_ns[1:] / 1e6, color=ORANGE, ls="--", label=f"{fallback} at n")
    axes.set(xscale="log", yscale="log", xlabel="tokens n")
    axes.set_ylabel("step time (ms)\nattention as in the mean step")
    axes.set_xlim(max(1, int(steps.tokens.min()) // 2), table.max_tokens * 1.1)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,g}")
    traffic = axes.twinx()
    edges = np.unique(np.geomspace(1, table.max_tokens, 80).astype(np.int64))
    traffic.hist(steps.tokens, bins=edges.tolist(), weights=steps.count, color=GREY, alpha=0.35)
    traffic.set_ylim(0, 1.15 * traffic.get_ylim()[1])  # below the ladders
    traffic.set_ylabel("steps", color=GREY)
    for y, name, ladder, colour in (
        (0.965, "default", study.default.ladder, GREY),
        (0.915, "this ladder", study.ladder, GREEN),
    ):
        label = f"{name}, {len(ladder)} graphs"
        axes.plot(
            ladder.sizes, [y] * len(ladder), "|", color=colour, ms=11, mew=1.6, label=label,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    axes.legend(loc="upper left", bbox_to_anchor=(0, 0.88), fontsize=9)


def _memory(axes: Axes, study: Study) -> None:
    """Mean step time against graph memory, one hollow mark a ladder, so that none hides another."""
    points = [
        ("default", study.default, GREY, "o"),
        ("this ladder", study.answer.score, GREEN, "o"),
        ("no graphs", study.no_graphs, ORANGE, "s"),
    ]
    if study.half is not None:
        points.append(("half the default", study.half.score, BLUE, "D"))
    if study.no_loss is not None:
        points.append(("fewest that lose nothing", study.no_loss.score, PURPLE, "^"))
    fallback = study.scenario.model.fallback.name
    for name, score, colour, mark in points:
        x, y = score.memory.device / 2**20, score.mean_step_ns / 1e6
        text = f"{name}: {len(score.ladder)} graphs, {percent(score.eager_share, 0)} {fallback}"
        axes.plot(x, y, mark, mfc="none", mec=colour, mew=2, ms=10, ls="", label=text)
    limit_ms = study.limit_ns / 1e6
    axes.axhline(limit_ms, color=GREY, lw=1, ls=":", label="graphs for all sizes (limit)")
    axes.set(xlabel="device memory of the graphs (MiB)", ylabel="mean step time (ms)")
    axes.margins(0.1, 0.2)
    axes.legend(fontsize=9)
