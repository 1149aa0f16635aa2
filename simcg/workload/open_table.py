"""Opens a file as a table: CSV with a header, JSON lines, or a benchmark's result."""

from __future__ import annotations

from pathlib import Path

from simcg.workload.bad_rows import BadRows
from simcg.workload.bench_table import bench_table
from simcg.workload.csv_table import csv_table
from simcg.workload.json_table import has_object, json_table
from simcg.workload.source import read_utf8, source_name
from simcg.workload.table import Table

_LOOKED_AT = 16
"""Lines among which an object shows that a file is JSON lines, though its first is a bad one."""


def open_table(path: str | Path, *, skip_invalid: bool = False) -> Table:
    """The table of a file (``-``: standard input); which kind, the content decides.

    ``skip_invalid``: rows that cannot be used are left out and counted. Raises InputError for an
    unreadable or empty file and for a header with duplicate names.
    """
    data = read_utf8(path)
    source = source_name(path)
    bad = BadRows(skip_invalid)
    starts_as_json = data.startswith((b"{", b"["))
    bench = bench_table(source, data, bad) if starts_as_json else None
    if bench is not None:
        return bench
    if starts_as_json or (skip_invalid and has_object(source, data, _LOOKED_AT)):
        return json_table(source, data, bad)
    return csv_table(source, data, bad)
