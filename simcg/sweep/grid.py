"""The configurations of a sweep: option names to values, from words or from a file."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from simcg.errors import Finding, InputError, require

Point = dict[str, str]
"""Long option name without dashes, to its value as a user types it."""
MOST_POINTS = 100_000


def grid(varied: Sequence[str]) -> list[Point]:
    """Every combination of ``NAME=VALUE,VALUE,...``; the last name changes fastest."""
    axes: dict[str, list[str]] = {}
    for text in varied:
        name, _, values = text.partition("=")
        name, words = option_name(name), [word.strip() for word in values.split(",")]
        require(bool(name) and all(words), "--vary", "", text, "NAME=VALUE,VALUE,...")
        require(name not in axes, "--vary", "", text, f"{name} once")
        require(len(set(words)) == len(words), "--vary", name, values, "different values")
        axes[name] = words
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def points_in(path: Path) -> list[Point]:
    """One configuration a row of a CSV file with a header, or a line of JSON objects."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets begin with a mark
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("--configs", "", str(path), f"a readable text file ({error})") from None
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    require(bool(lines), str(path), "", Finding("no configuration"), "one a line")
    if lines[0][1].lstrip().startswith("{"):
        return [_json_point(str(path), n, line) for n, line in lines]
    names, *rows = [_cells(str(path), n, line) for n, line in lines]
    names = [option_name(name) for name in names]
    different = all(names) and len(set(names)) == len(names)
    require(different, str(path), f"line {lines[0][0]}", names, "a name of its own for each column")
    require(bool(rows), str(path), "", Finding("a header alone"), "rows below it")
    for (n, _), row in zip(lines[1:], rows, strict=True):
        require(len(row) == len(names), str(path), f"line {n}", row, f"{len(names)} values")
    return [{k: v for k, v in zip(names, row, strict=True) if v} for row in rows]


def option_name(text: str) -> str:
    """The long option that is meant: ``request-rate``, which results spell ``request_rate``."""
    return text.strip().replace("_", "-")


def combined(rows: Sequence[Point], varied: Sequence[Point], source: str) -> list[Point]:
    """Each row with each combination; ``InputError`` where both say the same option."""
    for name in set().union(*rows) & set().union(*varied):
        raise InputError("--vary", "", name, f"an option that {source} does not have")
    points = [row | point for row in rows for point in varied]
    require(len(points) <= MOST_POINTS, "sweep", "configurations", len(points),
            f"at most {MOST_POINTS}")  # fmt: skip
    return points


def varied_names(points: Sequence[Point]) -> list[str]:
    """The options that the points have, in the order in which they were given."""
    return list(dict.fromkeys(name for point in points for name in point))


def numeric_axis(points: Sequence[Point]) -> str:
    """The first option that has a number in all points, not the same in all."""
    for name in varied_names(points):
        values = {_number(point.get(name, "")) for point in points}
        if len(values) > 1 and None not in values:
            return name
    expected = "an option varied over numbers, such as request-rate=1,2,4"
    raise InputError("--plot", "", Finding("no axis"), expected)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _cells(source: str, number: int, line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise InputError(source, f"line {number}", line, f"a line of CSV ({error})") from None


def _json_point(source: str, number: int, line: str) -> Point:
    try:
        found = msgspec.json.decode(line, type=dict[str, str | int | float])
    except msgspec.DecodeError:
        expected = "a JSON object of options with a text or a number each"
        raise InputError(source, f"line {number}", line, expected) from None
    point = {option_name(name): str(value) for name, value in found.items()}
    different = f"line {number}", list(found), "a name of its own for each option"
    require(len(point) == len(found), source, *different)
    return point
