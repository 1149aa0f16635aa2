"""The picture of a sweep: one figure over a varied number, one line for each of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simcg.errors import Finding, require
from simcg.report.plots import BLUE, GREEN, GREY, ORANGE, PURPLE, check_picture, write_picture
from simcg.report.sweep import shortened
from simcg.sweep.figures import diverges, figure_of
from simcg.sweep.grid import Point, numeric_axis, varied_names
from simcg.sweep.store import Record

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GREY)
STROKES = (("o", "-"), ("s", "--"), ("^", ":"), ("D", "-."))
WIDE_RATIO = 20
"""Greatest over least, from which an axis is logarithmic."""
MOST_TICKS = 12

Line = list[tuple[float, Record]]


def check_lines(points: Sequence[Point]) -> None:
    """Raise ``InputError`` unless the points have a numeric axis and not too many lines."""
    lines, most = len(set(_labels(points))), len(COLOURS) * len(STROKES)
    require(lines <= most, "--plot", "", Finding(f"{lines} lines"), f"at most {most} to tell apart")


def plot_sweep(points: Sequence[Point], records: Sequence[Record], figure: str, path: Path) -> None:
    """Write the picture to ``path``, whole or not at all; failed configurations are gaps in it."""
    kind = check_picture(path)
    write_picture(sweep_figure(points, records, figure), path, kind)


def sweep_figure(points: Sequence[Point], records: Sequence[Record], figure: str) -> Figure:
    """The picture. Its first axes hold the values; NaN stands for a failed configuration."""
    axis = numeric_axis(points)
    lines: dict[str, Line] = {}
    for label, point, record in zip(_labels(points), points, records, strict=True):
        lines.setdefault(label, []).append((float(point[axis]), record))
    picture = Figure(figsize=(10, 6), layout="constrained")
    axes = picture.subplots()
    for index, (label, line) in enumerate(lines.items()):
        _draw(axes, index, label, sorted(line, key=lambda pair: pair[0]), figure)
    over = any(map(diverges, records))
    if over:
        axes.plot([], [], "o", mfc="none", mec=GREY, ls="", label="hollow: the queue diverges")
    axes.set(xlabel=axis, ylabel=figure.replace("_", " "), title=_title(records))
    _ticks(axes, sorted({float(point[axis]) for point in points}))
    axes.set_yscale(_scale([y for r in records if (y := figure_of(r, figure)) is not None]))
    axes.grid(visible=True, alpha=0.3)
    if len(lines) > 1 or over:
        axes.legend(fontsize=9)
    return picture


def _ticks(axes: Axes, values: Sequence[float]) -> None:
    """Numbers at the values that were tried, where they are few."""
    axes.set_xscale(_scale(values))
    if len(values) <= MOST_TICKS:
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.set_xticks([], minor=True)


def _draw(axes: Axes, index: int, label: str, line: Line, figure: str) -> None:
    colour = COLOURS[index % len(COLOURS)]
    mark, dash = STROKES[index // len(COLOURS)]
    values = [(x, figure_of(record, figure), diverges(record)) for x, record in line]
    heights = [float("nan") if y is None else y for _, y, _ in values]
    axes.plot([x for x, *_ in values], heights, color=colour, ls=dash)
    for hollow in (False, True):
        own = [(x, y) for x, y, over in values if y is not None and over == hollow]
        axes.plot([x for x, _ in own], [y for _, y in own], mark, mec=colour, ls="",
                  mfc="white" if hollow else colour)  # fmt: skip
    axes.plot([], [], mark, color=colour, ls=dash, label=label)


def _labels(points: Sequence[Point]) -> list[str]:
    """What tells the line of each point from the others."""
    axis = numeric_axis(points)
    parts = []
    for name in varied_names(points):
        values = [point.get(name, "") for point in points]
        if name != axis and len(set(values)) > 1:
            parts.append([f"{name} {text}" if text else "" for text in shortened(values)])
    rows = zip(*parts, strict=True) if parts else [()] * len(points)
    return [_plain(", ".join(filter(None, row))) for row in rows]


def _title(records: Sequence[Record]) -> str:
    """The model and GPU of all, and how many configurations failed."""
    keys = [record["key"] for record in records]
    fixed = [name for name in ("model", "hardware") if all(k[name] == keys[0][name] for k in keys)]
    parts = [" on ".join(Path(str(keys[0][name])).name for name in fixed)]
    failed = sum("figures" not in record for record in records)
    if failed:
        parts.append(f"{failed} of {len(records)} configurations failed")
    return _plain("; ".join(filter(None, parts)))


def _plain(text: str) -> str:
    """Without formulas, which matplotlib reads between dollars."""
    return text.replace("$", r"\$")


def _scale(values: Sequence[float]) -> str:
    wide = bool(values) and min(values) > 0 and max(values) >= WIDE_RATIO * min(values)
    return "log" if wide else "linear"
