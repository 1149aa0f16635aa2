"""CSV with a header, columns parted by commas, semicolons or tabs."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from simcg.errors import Finding, InputError
from simcg.workload.bad_rows import BadRows
from simcg.workload.table import BLOCK_ROWS, Block, shown

if TYPE_CHECKING:
    import _csv  # where the type of csv.reader's result lives

_OTHER_SEPARATORS = ";\t"
_DECIMAL_COMMA = re.compile(r"(-?[0-9]+),([0-9]+)")


@dataclass(frozen=True, slots=True)
class CsvTable:
    """The bytes of a UTF-8 CSV; ``names`` are its header's, unique, in order.

    Where other marks part columns, a comma in a number is a decimal point, as spreadsheets write
    it in countries that use it so: 512,000 is 512 there, and a thousand times that elsewhere.
    """

    source: str
    names: tuple[str, ...]
    separator: str
    data: bytes
    bad: BadRows
    is_json: bool = False

    def blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        """As Table's; a row of another width than the header's is a bad one.

        Damaged quotes raise InputError always: where such a row ends is not known.
        """
        reader = _reader(self.data, self.separator)
        width = len(next(reader))
        indices = [self.names.index(name) for name in wanted]
        start = 0
        while True:
            try:
                rows = list(islice(reader, BLOCK_ROWS))
            except csv.Error as error:
                where = f"line {reader.line_num}"
                raise InputError(self.source, where, Finding(error), "CSV") from error
            if not rows:
                return
            self.bad.rows += len(rows)
            numbers: Sequence[int] = range(start, start + len(rows))
            start += len(rows)
            if set(map(len, rows)) != {width}:
                numbers, rows = self._of_width(width, numbers, rows)
            columns: list[list[object]] = [[row[i] for row in rows] for i in indices]
            if self.separator != ",":
                columns = [[_with_point(value) for value in column] for column in columns]
            yield numbers, columns

    def error(self, row: int, name: str, value: object, expected: str) -> InputError:
        """As Table's."""
        where = f"line {self._line(row)}, {shown(name)}"
        return InputError(self.source, where, value, expected)

    def _of_width(
        self, width: int, numbers: Sequence[int], rows: list[list[str]]
    ) -> tuple[list[int], list[list[str]]]:
        """The rows of this many fields, with their numbers."""
        for number, row in zip(numbers, rows, strict=True):
            if len(row) != width:
                self.bad.add(number, partial(self._wrong_width, number, len(row), width))
        good = [(n, row) for n, row in zip(numbers, rows, strict=True) if len(row) == width]
        return [n for n, _ in good], [row for _, row in good]

    def _wrong_width(self, row: int, fields: int, width: int) -> InputError:
        got = Finding(f"{fields} fields" if fields else "a blank line")
        expected = f"{width} fields, as in the header"
        return InputError(self.source, f"line {self._line(row)}", got, expected)

    def _line(self, row: int) -> int:
        """The line on which data row ``row`` ends; a quoted field may span several lines."""
        reader = _reader(self.data, self.separator)
        for _ in islice(reader, row + 2):
            pass
        return int(reader.line_num)


def csv_table(source: str, data: bytes, bad: BadRows) -> CsvTable:
    """The table; the header decides the separator, commas first. Raises InputError."""
    separator, names = ",", _header(source, data, ",")
    if len(names) == 1:
        separator = max(_OTHER_SEPARATORS, key=names[0].count)
        names = _header(source, data, separator)
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(source, "line 1", name, "column names that differ")
    return CsvTable(source, names, separator, data, bad)


def _with_point(value: object) -> object:
    """The text of a number with its decimal comma as a point; other values as they are."""
    match = _DECIMAL_COMMA.fullmatch(str(value))
    return value if match is None else f"{match[1]}.{match[2]}"


def _header(source: str, data: bytes, separator: str) -> tuple[str, ...]:
    try:
        return tuple(name.strip() for name in next(_reader(data, separator)))
    except csv.Error as error:
        raise InputError(source, "line 1", Finding(error), "a CSV header") from error


def _reader(data: bytes, separator: str) -> _csv.Reader:
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    return csv.reader(lines, strict=True, skipinitialspace=True, delimiter=separator)
