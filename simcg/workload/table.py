"""A table of named columns, from CSV with a header or from JSON lines, read in blocks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from simcg.errors import Finding, InputError
from simcg.workload.source import read_utf8, source_name

if TYPE_CHECKING:
    import _csv  # where the type of csv.reader's result lives

_BLOCK_ROWS = 1 << 9
"""Rows held as Python objects at once; their columns are then packed into int64 arrays. Measured:
more rows live long enough for the garbage collector to walk over them again and again."""

_decode_json = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Table:
    """The bytes of a UTF-8 file with its column names; ``blocks`` parses the rows.

    ``names`` are the CSV header's or the first JSON object's, unique, in order.
    """

    source: str
    names: tuple[str, ...]
    is_json: bool
    data: bytes

    def blocks(self, wanted: Sequence[str]) -> Iterator[tuple[int, list[list[object]]]]:
        """Yields (index of the first data row, one list of raw values per wanted name).

        Every data row is in exactly one block. Raises InputError for a row that is not one.
        """
        rows = self._json_blocks(wanted) if self.is_json else self._csv_blocks(wanted)
        start = 0
        for block in rows:
            yield start, block
            start += len(block[0])
        if start == 0:
            expected = "at least one row after the header"
            raise InputError(self.source, "", Finding("no data rows"), expected)

    def error(self, row: int, name: str, value: object, expected: str) -> InputError:
        """The error for data row ``row`` (from 0), naming its line and column."""
        line = row + 1 if self.is_json else self._csv_line(row)
        shown = name if name.isprintable() else repr(name)  # the error stays one line
        return InputError(self.source, f"line {line}, {shown}", value, expected)

    def raw(self, row: int, name: str) -> object:
        """The raw value of one cell (slow: for error texts)."""
        for start, (values,) in self.blocks([name]):
            if row < start + len(values):
                return values[row - start]
        raise IndexError(row)

    def _csv_blocks(self, wanted: Sequence[str]) -> Iterator[list[list[object]]]:
        reader = _csv_reader(self.data)
        width = len(next(reader))
        indices = [self.names.index(name) for name in wanted]
        start = 0
        while True:
            try:
                rows = list(islice(reader, _BLOCK_ROWS))
            except csv.Error as error:
                where = f"line {reader.line_num}"
                raise InputError(self.source, where, Finding(error), "CSV") from error
            if not rows:
                return
            if set(map(len, rows)) != {width}:
                bad = next(i for i, row in enumerate(rows) if len(row) != width)
                got = f"{len(rows[bad])} fields" if rows[bad] else "a blank line"
                where = f"line {self._csv_line(start + bad)}"
                expected = f"{width} fields, as in the header"
                raise InputError(self.source, where, Finding(got), expected)
            yield [[row[i] for row in rows] for i in indices]
            start += len(rows)

    def _csv_line(self, row: int) -> int:
        """The line on which data row ``row`` ends; a quoted field may span several lines."""
        reader = _csv_reader(self.data)
        for _ in islice(reader, row + 2):
            pass
        return int(reader.line_num)

    def _json_blocks(self, wanted: Sequence[str]) -> Iterator[list[list[object]]]:
        lines = enumerate(io.BytesIO(self.data))
        start = 0
        while rows := [_json_object(self.source, i, x) for i, x in islice(lines, _BLOCK_ROWS)]:
            try:
                yield [[row[name] for row in rows] for name in wanted]
            except KeyError as error:
                index = next(i for i, row in enumerate(rows) if not row.keys() >= set(wanted))
                missing = next(name for name in wanted if name not in rows[index])
                found = Finding("no such field")
                raise self.error(start + index, missing, found, "a value") from error
            start += len(rows)


def read_table(path: str | Path) -> Table:
    """Opens a CSV with a header, or JSON lines, as a Table; which one, the content decides.

    Raises InputError for an unreadable or empty file and for a header with duplicate names.
    """
    data = read_utf8(path)
    source = source_name(path)
    if data.startswith((b"{", b"[")):
        first = _json_object(source, 0, data.split(b"\n", 1)[0])
        return Table(source, tuple(first), True, data)
    reader = _csv_reader(data)
    try:
        names = tuple(name.strip() for name in next(reader))
    except csv.Error as error:
        raise InputError(source, "line 1", Finding(error), "a CSV header") from error
    if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
        raise InputError(source, "line 1", names[0], "commas (,) as the separator of columns")
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(source, "line 1", name, "column names that differ")
    return Table(source, names, False, data)


def _csv_reader(data: bytes) -> _csv.Reader:
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    return csv.reader(lines, strict=True, skipinitialspace=True)


def _json_object(source: str, index: int, line: bytes) -> dict[str, object]:
    """The JSON object on one line; ``index`` counts lines from 0."""
    where, text = f"line {index + 1}", line[:80].decode(errors="replace").rstrip("\r\n")
    expected = "one JSON object a line (JSON lines)" + ("" if index else " or CSV")
    try:
        value = _decode_json(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InputError(source, where, text, f"{expected} ({error})") from error
    if not isinstance(value, dict):
        raise InputError(source, where, text, expected)
    return value
