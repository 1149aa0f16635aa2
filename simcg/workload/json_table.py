"""JSON lines, one object a row; a field of a nested object has a dotted name."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import cast

import msgspec

from simcg.errors import Finding, InputError
from simcg.workload.bad_rows import BadRows
from simcg.workload.columns import has_prompt_column
from simcg.workload.table import BLOCK_ROWS, Block, shown

_MOST_LEVELS = 4
_decode_json = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class JsonTable:
    """The bytes of UTF-8 JSON lines. ``names`` are the first object's, with dotted names for
    fields of nested ones; where that has no prompt tokens or bad rows are left out, those of all
    objects of the first block.
    """

    source: str
    names: tuple[str, ...]
    data: bytes
    bad: BadRows
    is_json: bool = True

    def blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        """As Table's; a line that is no object, or lacks a wanted field, is a bad row."""
        lines = enumerate(io.BytesIO(self.data))
        while block := list(islice(lines, BLOCK_ROWS)):
            self.bad.rows += len(block)
            numbers: list[int] = []
            objects: list[dict[str, object]] = []
            for number, line in block:
                try:
                    objects.append(json_object(self.source, number, line))
                except InputError:
                    self.bad.add(number, partial(_why_none, self.source, number, line))
                else:
                    numbers.append(number)
            try:
                columns = [[_field(o, name) for o in objects] for name in wanted]
            except KeyError:
                numbers, objects = self._complete(numbers, objects, wanted)
                columns = [[_field(o, name) for o in objects] for name in wanted]
            yield numbers, columns

    def error(self, row: int, name: str, value: object, expected: str) -> InputError:
        """As Table's."""
        return InputError(self.source, f"line {row + 1}, {shown(name)}", value, expected)

    def _complete(
        self, numbers: list[int], objects: list[dict[str, object]], wanted: Sequence[str]
    ) -> tuple[list[int], list[dict[str, object]]]:
        """The objects that have all wanted fields, with their numbers."""
        good = []
        for number, one in zip(numbers, objects, strict=True):
            missing = [name for name in wanted if not _has(one, name)]
            if missing:
                found = Finding("no such field")
                self.bad.add(number, partial(self.error, number, missing[0], found, "a value"))
            else:
                good.append((number, one))
        return [n for n, _ in good], [one for _, one in good]


def json_table(source: str, data: bytes, bad: BadRows) -> JsonTable:
    """The table; InputError where the first line is no object and bad rows are not left out."""
    found = list(_objects(source, data, BLOCK_ROWS)) if bad.skip else []
    if not found:
        first = json_object(source, 0, data.split(b"\n", 1)[0])
        if has_prompt_column(_names(first)):
            return JsonTable(source, _names(first), data, bad)
        found = list(_objects(source, data, BLOCK_ROWS))  # the first may lack what others have
    names = dict.fromkeys(name for one in found for name in _names(one))
    return JsonTable(source, tuple(names), data, bad)


def has_object(source: str, data: bytes, lines: int) -> bool:
    """Is one of the first ``lines`` lines a JSON object?"""
    return any(True for _ in _objects(source, data, lines))


def json_object(source: str, index: int, line: bytes) -> dict[str, object]:
    """The JSON object on one line; ``index`` counts lines from 0. Raises InputError."""
    where, text = f"line {index + 1}", line[:80].decode(errors="replace").rstrip("\r\n")
    expected = "one JSON object a line (JSON lines)" + ("" if index else " or CSV")
    try:
        value = _decode_json(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InputError(source, where, text, f"{expected} ({error})") from error
    if not isinstance(value, dict):
        raise InputError(source, where, text, expected)
    return value


def _objects(source: str, data: bytes, lines: int) -> Iterator[dict[str, object]]:
    """The objects among the first lines."""
    for index, line in enumerate(islice(io.BytesIO(data), lines)):
        try:
            yield json_object(source, index, line)
        except InputError:
            continue


def _why_none(source: str, index: int, line: bytes) -> InputError:
    """The error of a line that is no JSON object."""
    try:
        json_object(source, index, line)
    except InputError as error:
        return error
    raise AssertionError(line)


def _names(one: Mapping[str, object], before: str = "", level: int = 1) -> tuple[str, ...]:
    """The names of an object's fields, those of nested objects after their own field's."""
    names: dict[str, None] = {}
    for key, value in one.items():
        if before and "." in key:
            continue  # the dots of a nested name part levels
        names[before + key] = None
        if isinstance(value, dict) and level < _MOST_LEVELS:
            inner = cast("dict[str, object]", value)
            names |= dict.fromkeys(_names(inner, f"{before}{key}.", level + 1))
    return tuple(names)


def _field(one: Mapping[str, object], name: str) -> object:
    """The value of the field; the whole name goes before the parts of a dotted one. KeyError."""
    if name in one or "." not in name:
        return one[name]
    value: object = one
    for part in name.split("."):
        if not isinstance(value, dict):
            raise KeyError(name)
        value = value[part]
    return value


def _has(one: Mapping[str, object], name: str) -> bool:
    try:
        _field(one, name)
    except KeyError:
        return False
    return True
