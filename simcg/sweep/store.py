"""Results in a file: one JSON line a configuration, in the order of the sweep, appended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from simcg.errors import InputError, require

Record = dict[str, Any]
"""``key``: every option of the configuration; ``figures``, or ``error`` in one line."""


class Store:
    """A file that holds the records of the first configurations of one sweep.

    A record is one write of one line, so that only the last one can be half-written; such a
    line is dropped. Raises ``InputError`` for a file of another sweep.
    """

    def __init__(self, path: Path, keys: Sequence[Record]) -> None:
        self.path = path
        regular = path.is_file() or not path.exists()  # a device may have no end
        require(regular, "--out", "", str(path), "a regular file")
        data = _bytes(path)
        whole = data[: data.rfind(b"\n") + 1]
        self.records = [self._record(n, line) for n, line in enumerate(whole.splitlines(), 1)]
        for number, record in enumerate(self.records):
            same = number < len(keys) and _text(record["key"]) == _text(keys[number])
            where = f"line {number + 1}"
            require(same, str(path), where, record["key"], "this sweep's configuration, or another"
                    " file")  # fmt: skip
        try:
            with path.open("ab") as file:
                file.truncate(len(whole))
        except OSError as error:
            expected = f"a file that can be written ({error.strerror})"
            raise InputError("--out", "", str(path), expected) from None

    def append(self, record: Record) -> None:
        """Write it at the end."""
        with self.path.open("ab", buffering=0) as file:
            file.write(_text(record) + b"\n")
        self.records.append(record)

    def _record(self, number: int, line: bytes) -> Record:
        try:
            found = msgspec.json.decode(line)
        except msgspec.DecodeError:
            found = None
        known = isinstance(found, dict) and "key" in found
        require(known, str(self.path), f"line {number}", line.decode(errors="replace"),
                "a result of simcg sweep")  # fmt: skip
        record: Record = found
        return record


def _text(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.exists() else b""
    except OSError as error:
        expected = f"a file that can be read ({error.strerror})"
        raise InputError("--out", "", str(path), expected) from None
