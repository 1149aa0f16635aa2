"""Collects the columns of a table into int64 arrays, with errors that name line and column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from simcg.arrays import Ints
from simcg.workload.options import ReadOptions
from simcg.workload.table import Table
from simcg.workload.values import BadValueError, TimeColumn, parse_integers

Parser = Callable[[Sequence[object]], Ints]


def gather(table: Table, parsers: Mapping[str, Parser]) -> dict[str, Ints]:
    """Each named column, parsed block by block; BadValueError becomes an InputError."""
    names = list(parsers)
    parts: dict[str, list[Ints]] = {name: [] for name in names}
    for start, block in table.blocks(names):
        for name, values in zip(names, block, strict=True):
            try:
                parts[name].append(parsers[name](values))
            except BadValueError as bad:
                row, value = start + bad.index, values[bad.index]
                raise table.error(row, name, value, bad.expected) from bad
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def integers(least: int, most: int) -> Parser:
    """A parser of integers within bounds."""
    return lambda values: parse_integers(values, least, most)


def prompt_tokens(options: ReadOptions) -> Parser:
    """A parser of prompt lengths; a refusal says where the longest accepted one comes from."""
    why = "" if options.max_context is None else ", the model's context"
    return lambda values: parse_integers(values, 1, options.most_prompt_tokens, why)


def times(unit_ns: int) -> Parser:
    """A parser of time stamps; the first value that it sees decides the kind."""
    column: TimeColumn | None = None

    def parse(values: Sequence[object]) -> Ints:
        nonlocal column
        if column is None:
            column = TimeColumn(values[0], unit_ns)
        return column.parse(values)

    return parse


def since_first(table: Table, name: str, absolute_ns: Ints) -> Ints:
    """Times from the first row's; raises InputError for the first row that is earlier than the
    one before it: rows are never sorted silently.
    """
    falling = np.flatnonzero(absolute_ns[1:] < absolute_ns[:-1])
    if len(falling):
        row = int(falling[0]) + 1
        before = table.raw(row - 1, name)
        expected = f"no time before the previous row's {before!r}"
        raise table.error(row, name, table.raw(row, name), expected)
    relative_ns: Ints = absolute_ns - absolute_ns[0]
    return relative_ns
