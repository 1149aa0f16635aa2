"""Collects the columns of a table into int64 arrays, with errors that name line and column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from simcg.arrays import Ints
from simcg.workload.options import ReadOptions
from simcg.workload.table import Table
from simcg.workload.values import BadValueError, parse_integers

Parser = Callable[[Sequence[object]], Ints]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The rows of a table that can be used: their numbers in it, and int64 columns by name."""

    table: Table
    rows: Ints
    columns: Mapping[str, Ints]

    def without(
        self, wrong: NDArray[np.bool_], name: str, found: Callable[[int], tuple[object, str]]
    ) -> Gathered:
        """Gives the rows that are ``wrong`` to the table's bad ones.

        ``found``: the value in ``name`` and what was expected, by the row's place here.
        """
        for place in np.flatnonzero(wrong).tolist():
            value, expected = found(place)
            row = int(self.rows[place])
            self.table.bad.add(row, partial(self.table.error, row, name, value, expected))
        return self._taken(np.flatnonzero(~wrong))

    def by_time(self, name: str) -> tuple[Gathered, str | None]:
        """In the order of the times in ``name``, equal ones as in the file, and a note if some
        were not. The times then count from the first.
        """
        times = self.columns[name]
        late = int((times < np.maximum.accumulate(times)).sum())
        out = self._taken(np.argsort(times, kind="stable")) if late else self
        times = out.columns[name]
        out = Gathered(out.table, out.rows, {**out.columns, name: times - times[0]})
        were = "row was" if late == 1 else "rows were"
        return out, f"sorted by time: {late:,} {were} out of order" if late else None

    def _taken(self, places: Ints) -> Gathered:
        """The rows at these places; InputError if there are none."""
        self.table.bad.require_some(self.table.source, len(places))
        columns = {name: values[places] for name, values in self.columns.items()}
        return Gathered(self.table, self.rows[places], columns)


def gather(table: Table, parsers: Mapping[str, Parser]) -> Gathered:
    """Each named column, parsed block by block; a row with a BadValueError is a bad one."""
    names = list(parsers)
    parts: dict[str, list[Ints]] = {name: [] for name in names}
    rows: list[Ints] = []
    for numbers, block in table.blocks(names):
        used, columns = _parsed(table, parsers, numbers, block)
        if len(used):
            rows.append(np.array(used, dtype=np.int64))
            for name, values in zip(names, columns, strict=True):
                parts[name].append(values)
    table.bad.require_some(table.source, len(rows))
    columns_by_name = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return Gathered(table, np.concatenate(rows), columns_by_name)


def _parsed(
    table: Table,
    parsers: Mapping[str, Parser],
    numbers: Sequence[int],
    block: list[list[object]],
) -> tuple[Sequence[int], list[Ints]]:
    """The columns of a block without its bad rows, and the numbers of the others."""
    if not numbers:
        return numbers, []
    columns = []
    for (name, parse), values in zip(parsers.items(), block, strict=True):
        try:
            columns.append(parse(values))
        except BadValueError as bad:
            row, value = numbers[bad.index], values[bad.index]
            if not table.bad.skip:
                table.bad.add(row, partial(table.error, row, name, value, bad.expected))
            good = _readable(table, parsers, numbers, block)
            kept = [[values[i] for i in good] for values in block]
            return _parsed(table, parsers, [numbers[i] for i in good], kept)
    return numbers, columns


def _readable(
    table: Table,
    parsers: Mapping[str, Parser],
    numbers: Sequence[int],
    block: list[list[object]],
) -> list[int]:
    """The places of rows that every parser takes; the others are bad."""
    good = []
    for place, row in enumerate(numbers):
        error = None
        for (name, parse), values in zip(parsers.items(), block, strict=True):
            try:
                parse([values[place]])
            except BadValueError as bad:
                error = partial(table.error, row, name, values[place], bad.expected)
                break
        if error is None:
            good.append(place)
        else:
            table.bad.add(row, error)
    return good


def described(table: Table, *notes: str | None) -> str:
    """The table's source, with what was done to its rows."""
    done = [note for note in (table.bad.note(), *notes) if note is not None]
    return f"{table.source} ({'; '.join(done)})" if done else table.source


def integers(least: int, most: int) -> Parser:
    """A parser of integers within bounds."""
    return lambda values: parse_integers(values, least, most)


def prompt_tokens(options: ReadOptions) -> Parser:
    """A parser of prompt lengths; a refusal says where the longest accepted one comes from."""
    why = "" if options.max_context is None else ", the model's context"
    return lambda values: parse_integers(values, 1, options.most_prompt_tokens, why)
