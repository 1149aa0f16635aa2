"""The registry of input formats: how each is recognised by its content, and its reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from simcg.errors import InputError
from simcg.workload.columns import has_prompt_column
from simcg.workload.histogram import is_histogram, read_histogram_table
from simcg.workload.mooncake import is_mooncake, read_mooncake
from simcg.workload.options import ReadOptions
from simcg.workload.request_table import AZURE_COLUMNS, read_request_table
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps
from simcg.workload.table import Table


@dataclass(frozen=True, slots=True)
class Format:
    """One input format: does a table look like it, and the reader that turns it into traffic."""

    matches: Callable[[Table], bool]
    read: Callable[[Table, ReadOptions], Requests | Steps]


FORMATS: Mapping[str, Format] = {
    "azure": Format(lambda t: set(AZURE_COLUMNS) <= set(t.names), read_request_table),
    "mooncake": Format(is_mooncake, read_mooncake),
    "histogram": Format(is_histogram, read_histogram_table),
    "table": Format(lambda _: True, read_request_table),
}
"""By name; the first whose ``matches`` holds is taken, so the general ``table`` comes last."""


def find_format(table: Table, name: str | None, options: ReadOptions) -> Format:
    """The format called ``name``, or the one that the table's content shows.

    With ``columns`` given and no name it is ``table``. Raises InputError for an unknown name,
    for a table that has not the named format's columns, and for an ambiguous one.
    """
    if name is not None:
        if name not in FORMATS:
            raise InputError("format", "", name, f"one of {', '.join(FORMATS)}")
        if not FORMATS[name].matches(table):
            raise InputError(table.source, "header", list(table.names), f"the columns of {name}")
        return FORMATS[name]
    if options.columns is not None:
        return FORMATS["table"]
    _refuse_ambiguous(table)
    return next(f for f in FORMATS.values() if f.matches(table))


def _refuse_ambiguous(table: Table) -> None:
    """Raise where two formats would read the same file differently."""
    bare_mooncake = is_mooncake(table) and "hash_ids" not in table.names
    if bare_mooncake:
        expected = (
            "hash_ids; without them name the format (--format): mooncake (ms) or table (seconds)"
        )
        raise InputError(table.source, "fields", list(table.names), expected)
    if is_histogram(table) and has_prompt_column(table.names):
        expected = (
            "requests or a histogram, not both; name the format (--format): table or histogram"
        )
        raise InputError(table.source, "header", list(table.names), expected)
