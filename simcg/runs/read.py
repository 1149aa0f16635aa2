"""Reading and encoding runs; whatever is wrong with a file is one line of error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from simcg.errors import Finding, InputError, SimcgError, require
from simcg.runs.schema import VERSION, DecisionCell, Header, Line
from simcg.workload.source import read_utf8, source_name

L = TypeVar("L", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Runs:
    """One file: where it is, its header, and its lines in order."""

    source: str
    header: Header
    lines: tuple[Line, ...]

    def of(self, kind: type[L]) -> list[L]:
        """The lines of that kind, in order."""
        return [line for line in self.lines if isinstance(line, kind)]


class _First(msgspec.Struct):
    """What every version's header has."""

    type: str
    version: int


def encode_line(line: Line) -> bytes:
    """One line of the file, with its line break."""
    return msgspec.json.encode(line) + b"\n"


def read_runs(path: str | Path) -> Runs:
    """The runs in a file (gzip too), or in standard input for ``-``.

    Raises ``InputError`` or ``SimcgError`` naming the file, the line and the field.
    """
    name = source_name(path)
    header, *rest = read_utf8(path).splitlines()
    first = _decode_header(header, name)
    decoder = msgspec.json.Decoder(Line)
    lines = tuple(
        _decode(decoder, line, f"{name}, line {number}") for number, line in enumerate(rest, 2)
    )
    runs = Runs(name, first, lines)
    _check_models(runs)
    _check_indices(runs)
    return runs


def _decode_header(line: bytes, name: str) -> Header:
    place = f"{name}, line 1"
    first = _decode(msgspec.json.Decoder(_First), line, place)
    if first.version != VERSION:
        raise InputError(place, "version", first.version, f"{VERSION}, which this simcg reads")
    return _decode(msgspec.json.Decoder(Header), line, place)


def _decode(decoder: msgspec.json.Decoder[L], line: bytes, place: str) -> L:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        text = "".join(c if c.isprintable() else " " for c in str(error))
        raise SimcgError(f"{place}: {text}, expected a line of simcg measure") from None


def _check_models(runs: Runs) -> None:
    """Every cell's model is described in the header."""
    for number, line in enumerate(runs.lines, 2):
        if isinstance(line, Header):
            raise InputError(runs.source, f"line {number}", Finding("a header"), "a cell")
        model = getattr(line, "model", None)
        if model is not None and model not in runs.header.models:
            known = ", ".join(runs.header.models) or "none"
            raise InputError(
                runs.source, f"line {number}, model", model, f"one of the header's: {known}"
            )


def _check_indices(runs: Runs) -> None:
    """No step of the trace counts twice."""
    seen = set()
    for number, line in enumerate(runs.lines, 2):
        if isinstance(line, DecisionCell):
            key = (line.model, line.backend, line.compiler, line.index)
            where = f"line {number}, index"
            require(key not in seen, runs.source, where, line.index, "each step of the trace once")
            seen.add(key)


def join(many: Iterable[Runs], kind: type[L]) -> list[L]:
    """The lines of that kind of several files, in order."""
    return [line for runs in many for line in runs.of(kind)]
