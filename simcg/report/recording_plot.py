"""The picture of a recorded capture: which operator reads and writes which memory, and when."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simcg.formal.audit.finding import Finding
from simcg.formal.audit.replay import storage_name
from simcg.formal.recording import Allocate, Break, Free, Op, Recording
from simcg.report.plots import BLUE, GREEN, GREY, ORANGE, PURPLE

SHADE = "#F0E6D2"
"""Behind what a break did at capture."""
ORDER = ("outside", "host", "pool")


def recording_figure(recording: Recording, findings: Sequence[Finding] = ()) -> Figure:
    """Operators from left to right, memory from top to bottom; bars are lives in the pool.

    ``findings`` of this capture are crossed where they lie.  Breaks are shaded.
    """
    rows = sorted(
        range(len(recording.storages)),
        key=lambda i: (ORDER.index(recording.storages[i].place), recording.storages[i].fresh),
    )
    places = {storage: -row for row, storage in enumerate(rows)}
    figure = Figure(figsize=(10, 1.9 + 0.33 * len(rows)), layout="constrained")
    axes = figure.subplots()
    ops = _draw_items(axes, recording, places)
    _mark(axes, findings, places, ops)
    names = [_row_name(recording, i) for i in rows]
    axes.set_yticks([places[i] for i in rows], names)
    axes.set_xticks(range(len(ops)), [name for _, _, name in ops], rotation=30, ha="right")
    axes.set(xlim=(-0.6, len(ops) - 0.4), ylim=(-len(rows) + 0.4, 0.6))
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    keys = dict(zip(labels, handles, strict=True))
    figure.legend(list(keys.values()), list(keys), loc="outside lower center", ncols=6, fontsize=9)
    return figure


Column = tuple[int, int, str]
"""The numbers of an item and of an event there, and the operator's name."""
NOTHING = "(nothing seen)"
"""In place of the operators of an item without any, such as a break that did not run."""


def _draw_items(axes: Axes, recording: Recording, places: dict[int, int]) -> list[Column]:
    """Reads and writes, lives, and the items' names; the operators in order."""
    ops: list[Column] = []
    born: dict[int, float] = {}
    died: dict[int, float] = {}
    graphs = 0
    for number, item in enumerate(recording.items):
        start = len(ops)
        for at, event in enumerate(item.events):
            if isinstance(event, Op):
                _draw_op(axes, event, len(ops), places)
                ops.append((number, at, _op_name(event)))
            elif isinstance(event, Allocate):
                born[event.storage] = len(ops) - 0.4
            elif isinstance(event, Free):
                died[event.storage] = len(ops) - 0.6
        if len(ops) == start:
            ops.append((number, -2, NOTHING))
        if isinstance(item, Break):
            _draw_arguments(axes, item, start - 0.5, places)
        graphs += not isinstance(item, Break)
        name = (
            f"break {item.function.split('.')[-1]}"
            if isinstance(item, Break)
            else f"graph {graphs}"
        )
        _name_item(axes, name, start - 0.5, len(ops) - 0.5, shaded=isinstance(item, Break))
    for storage, begin in born.items():
        end = died.get(storage, len(ops) - 0.4)
        axes.plot([begin, end], [places[storage]] * 2, color=GREY, alpha=0.35, lw=9,
                  solid_capstyle="butt", zorder=1, label="allocated in the pool")  # fmt: skip
    return ops


def _draw_arguments(axes: Axes, item: Break, x: float, places: dict[int, int]) -> None:
    """What the break is given, at its beginning, by how the replay holds it."""
    for argument in item.arguments:
        if argument.region is not None:
            weak = argument.held == "weak"
            axes.plot(x, places[argument.region.storage], ">", color=PURPLE, ms=8, ls="",
                      mfc="white" if weak else PURPLE, mew=1.6, zorder=3,
                      label=f"argument, held {'weakly' if weak else 'strongly'}")  # fmt: skip


def _draw_op(axes: Axes, op: Op, x: int, places: dict[int, int]) -> None:
    for region in op.reads:
        axes.plot(x, places[region.storage], "o", mfc="white", mec=BLUE, mew=1.8, ms=9, ls="",
                  label="reads", zorder=2)  # fmt: skip
    for region in op.writes:
        axes.plot(
            x, places[region.storage], "s", color=GREEN, ms=6, ls="", label="writes", zorder=3
        )


def _name_item(axes: Axes, name: str, start: float, end: float, *, shaded: bool) -> None:
    if shaded:
        axes.axvspan(start, end, color=SHADE, lw=0, zorder=0)
    axes.text((start + end) / 2, 1.01, name, ha="center", va="bottom", fontsize=10,
              transform=axes.get_xaxis_transform())  # fmt: skip


def _mark(
    axes: Axes,
    findings: Sequence[Finding],
    places: dict[int, int],
    ops: Sequence[Column],
) -> None:
    spots: dict[tuple[int, int], float] = {}
    for column, (item, event, _) in enumerate(ops):
        spots.setdefault((item, -1), column - 0.5)  # of an argument: where the item begins
        spots[item, event] = column
    for finding in findings:
        x = spots.get((finding.spot.item, finding.spot.event))
        if x is not None and finding.storage >= 0:
            axes.plot(x, places[finding.storage], "x", color=ORANGE, mew=3, ms=14, ls="", zorder=4,
                      label=f"{finding.invariant} {finding.verdict}")  # fmt: skip


def _row_name(recording: Recording, number: int) -> str:
    """A storage by its declared name, or where it lies."""
    storage, name = recording.storages[number], storage_name(recording, number)
    kind = "a break's own" if storage.fresh else storage.place
    return name if storage.name else f"{name}, {kind}"


def _op_name(op: Op) -> str:
    """Without the library that it belongs to, and without its overload."""
    return op.name.removeprefix("aten.").split(".")[0]
