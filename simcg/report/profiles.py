"""Tables of a profile, of two beside each other, and of what an import took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from simcg.cost.differences import Difference
from simcg.hardware.contents import Pair, Section, named_figures
from simcg.hardware.profile import HardwareProfile
from simcg.provenance import ORDER
from simcg.report.tables import Row, plain_table
from simcg.report.units import count
from simcg.silicon.build import Note


def contents_table(sections: Sequence[Section]) -> Table:
    """One row a section: its entries, its numbers, and how many entries are known how."""
    rows: list[Row] = [
        (
            section.name,
            count(section.entries),
            count(section.points),
            ", ".join(f"{section.provenance[p]} {p}" for p in ORDER if p in section.provenance),
        )
        for section in sections
    ]
    return plain_table(("section", "entries", "numbers", "provenance"), rows)


def figures_table(profile: HardwareProfile) -> Table:
    """The GPU's sizes and rates and what the host costs, each with its provenance."""
    rows = [
        (one.name, f"{_four_digits(one.value)} {one.unit}".strip(), one.figure.provenance)
        for one in named_figures(profile)
    ]
    return plain_table(("figure", "value", "provenance"), rows)


def pairs_table(pairs: Sequence[Pair]) -> Table:
    """Figures of host, gaps and GPU that differ: both values, their ratio, and how well known."""
    rows: list[Row] = []
    for one in pairs:
        if not one.differs:
            continue
        sides = [
            ("-", "-") if side is None else (_four_digits(side.value), side.figure.provenance)
            for side in (one.first, one.second)
        ]
        (a, first), (b, second) = sides
        ratio = "-" if one.ratio is None else f"{one.ratio:.2f}"
        rows.append(
            (f"{one.name}, {one.unit}" if one.unit else one.name, a, b, ratio, first, second)
        )
    columns = ("host, gaps and GPU", "first", "second", "ratio", "first is", "second is")
    return plain_table(columns, rows)


def pair_json(one: Pair) -> dict[str, Any]:
    """A pair as data, in its unit."""
    sides = {
        side: None if of is None else {"value": of.value, "provenance": of.figure.provenance,
                                       "source": of.figure.source}
        for side, of in (("first", one.first), ("second", one.second))
    }  # fmt: skip
    return {"name": one.name, "unit": one.unit, **sides, "ratio": one.ratio}


def _four_digits(value: float) -> str:
    """Four significant digits without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def differences_table(found: Sequence[Difference]) -> Table:
    """One row a family of ops: ratios of the second profile over the first."""
    rows: list[Row] = [
        (
            one.family,
            count(one.points),
            f"{one.median:.2f}",
            f"{one.low:.2f}..{one.high:.2f}",
            f"{one.worst.ratio:.2f}",
            f"{one.worst.op}, {one.worst.size}",
        )
        for one in found
    ]
    return plain_table(("ops", "points", "median", "80 % in", "worst", "which is"), rows)


def grounds_table(found: Sequence[Difference]) -> Table:
    """The weakest provenance of each family on both sides."""
    rows: list[Row] = [(one.family, one.first, one.second) for one in found]
    return plain_table(("rests on", "first", "second"), rows)


def notes_table(notes: Sequence[Note]) -> Table:
    """One row a table of the package: its rows, what the profile keeps, what was not taken."""
    rows: list[Row] = [
        (
            note.table,
            note.version,
            count(note.rows),
            count(note.kept),
            count(note.host_bound),
            count(note.disordered),
            note.remark,
        )
        for note in notes
    ]
    columns = ("table", "measured with", "rows", "kept", "host", "order", "remark")
    return plain_table(columns, rows)
