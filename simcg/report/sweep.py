"""The table of a sweep: what was varied, the figures that fit, and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from simcg.report.tables import plain_table
from simcg.sweep.figures import best_first, diverges, figure_of
from simcg.sweep.grid import Point, varied_names
from simcg.sweep.store import Record

SHOWN = ("mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "request_throughput", "utilisation")
CUT, FOLDED = 16, 32
"""Characters of a value that is cut, and of a line of one that is not."""
REMARK, MESSAGE = 24, 100
"""Characters of a line of an error where space is short, and of an error."""
GAP = 2


@dataclass(frozen=True, slots=True)
class _Column:
    """``width`` holds its longest cell; a heading may be longer, and then wraps."""

    head: str
    cells: list[str]
    width: int

    @property
    def whole(self) -> int:
        """Its width when its heading does not wrap."""
        return max(self.width, len(self.head))


def sweep_table(
    points: Sequence[Point], records: Sequence[Record], figure: str, width: int
) -> Table:
    """One row a configuration, best ``figure`` first, in so many columns of a terminal."""
    varied = [_varied(name, [p.get(name, "") for p in points]) for name in varied_names(points)]
    remarks = [_remark(record) for record in records]
    room = width - min(REMARK, max(map(len, remarks))) - sum(c.width + GAP for c in varied)
    shown = []
    for name in (figure, *(name for name in SHOWN if name != figure)):
        column = _figure(name, [figure_of(record, name) for record in records])
        shown.append(column)
    while len(shown) > 1 and sum(c.width + GAP for c in shown) > room:
        shown.pop()
    columns = [*varied, *shown, _Column("", remarks, 0)]
    order = best_first(records, figure)
    table = plain_table(
        [c.head for c in columns], [tuple(escape(c.cells[n]) for c in columns) for n in order]
    )
    tight = sum(c.width + GAP for c in shown) > room
    whole = sum(c.whole + GAP for c in shown) <= room
    for one, column in zip(table.columns, columns, strict=True):
        one.no_wrap, one.overflow = False, "fold"
        if not tight and column.cells is not remarks:  # else every column gives way
            one.width = column.whole if whole else column.width
    table.columns[-1].justify = "left"
    return table


def shortened(values: Sequence[str]) -> list[str]:
    """The values cut to CUT characters, but whole where a cut would make different ones equal."""
    cut = [_cut(value, CUT) for value in values]
    return cut if len(set(cut)) == len(set(values)) else list(values)


def _varied(name: str, values: Sequence[str]) -> _Column:
    cells = shortened(values)
    return _Column(name, cells, max(len(name), min(FOLDED, max(map(len, cells)))))


def _figure(name: str, values: Sequence[float | None]) -> _Column:
    """A column as wide as its numbers, or as the longest word of its heading."""
    cells = ["-" if value is None else f"{value:.2f}" for value in values]
    words = name.split("_")
    return _Column(" ".join(words), cells, max(map(len, (*words, *cells))))


def _remark(record: Record) -> str:
    if "figures" not in record:
        return _cut(str(record["error"]), MESSAGE)
    return "diverges" if diverges(record) else ""


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
