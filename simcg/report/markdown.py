"""A table that the command line prints, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table


def markdown(table: Table, columns: Sequence[str] = ()) -> str:
    """Its rows, plain; only ``columns``, where some are named."""
    kept = [c for c in table.columns if not columns or str(c.header) in columns]
    lines = [[str(c.header) for c in kept], ["---"] * len(kept)]
    lines += [list(row) for row in zip(*(map(str, c.cells) for c in kept), strict=True)]
    return "\n".join(_line(cells) for cells in lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(cells)) + " |"


def _escaped(cells: Sequence[str]) -> Iterator[str]:
    for cell in cells:
        yield cell.replace("|", "\\|")
