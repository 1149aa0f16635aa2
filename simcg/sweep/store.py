"""Results in a file: one JSON line a configuration, in the order of the sweep, appended."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from simcg.errors import require
from simcg.sweep.lines import Lines

Record = dict[str, Any]
"""``key``: every option of the configuration; ``figures``, or ``error`` in one line."""


class Store:
    """A file that holds the records of the first configurations of one sweep, open until exit.

    Raises ``InputError`` for a file of another sweep, or that one writes now.
    """

    def __init__(self, path: Path, keys: Sequence[Record]) -> None:
        self._lines = Lines(path, "--out")
        try:
            self.records = self._read(keys)
        except BaseException:
            self._lines.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lines.close()

    def append(self, record: Record) -> None:
        """Write it at the end; ``InputError`` where the disk is full."""
        self._lines.append(_text(record))
        self.records.append(record)

    def _read(self, keys: Sequence[Record]) -> list[Record]:
        records = [self._record(n, line) for n, line in enumerate(self._lines.lines, 1)]
        for number, record in enumerate(records):
            same = number < len(keys) and _text(record["key"]) == _text(keys[number])
            where = f"line {number + 1}"
            require(same, str(self._lines.path), where, record["key"], "this sweep's configuration,"
                    " or another file")  # fmt: skip
        self._lines.settle()
        return records

    def _record(self, number: int, line: bytes) -> Record:
        found: Record = {}
        with suppress(msgspec.DecodeError):
            found = msgspec.json.decode(line, type=Record)
        ended = isinstance(found.get("figures"), dict) or isinstance(found.get("error"), str)
        require("key" in found and ended, str(self._lines.path), f"line {number}",
                line.decode(errors="replace"), "a result of simcg sweep")  # fmt: skip
        return found


def _text(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")
