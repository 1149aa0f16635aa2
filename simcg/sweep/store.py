"""Results in a file: one JSON line a configuration, in the order of the sweep, appended."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import msgspec

from simcg.errors import InputError, require

Record = dict[str, Any]
"""``key``: every option of the configuration; ``figures``, or ``error`` in one line."""


class Store:
    """A file that holds the records of the first configurations of one sweep, open until exit.

    A record is one line, written at once, so that only the last one can be half-written; such a
    line is dropped. Raises ``InputError`` for a file of another sweep, or that one writes now.
    """

    def __init__(self, path: Path, keys: Sequence[Record]) -> None:
        self.path = path
        regular = path.is_file() or not path.exists()  # a device may have no end
        require(regular, "--out", "", str(path), "a regular file")
        try:
            self._file: IO[bytes] = path.open("a+b", buffering=0)
        except OSError as error:
            expected = f"a file that can be read and written ({error.strerror})"
            raise InputError("--out", "", str(path), expected) from None
        try:
            self._lock()
            self.records = self._read(keys)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def append(self, record: Record) -> None:
        """Write it at the end; ``InputError`` where the disk is full."""
        rest = memoryview(_text(record) + b"\n")
        try:
            while rest:  # the end of a disk takes a part and says so only to the next write
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            expected = f"a file that can be written ({error.strerror})"
            raise InputError("--out", "", str(self.path), expected) from None
        self.records.append(record)

    def _lock(self) -> None:
        """Refuse a file that another sweep writes; the lock ends with this process or file."""
        try:
            import fcntl  # noqa: PLC0415  # not on every system

            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            expected = "a file that no other sweep is writing"
            raise InputError("--out", "", str(self.path), expected) from None
        except (ImportError, OSError):  # without locks a file can still be written
            return

    def _read(self, keys: Sequence[Record]) -> list[Record]:
        self._file.seek(0)
        data = self._file.read()
        whole = data[: data.rfind(b"\n") + 1]
        records = [self._record(n, line) for n, line in enumerate(whole.splitlines(), 1)]
        for number, record in enumerate(records):
            same = number < len(keys) and _text(record["key"]) == _text(keys[number])
            where = f"line {number + 1}"
            require(same, str(self.path), where, record["key"], "this sweep's configuration, or"
                    " another file")  # fmt: skip
        self._file.truncate(len(whole))
        return records

    def _record(self, number: int, line: bytes) -> Record:
        found: Record = {}
        with suppress(msgspec.DecodeError):
            found = msgspec.json.decode(line, type=Record)
        ended = isinstance(found.get("figures"), dict) or isinstance(found.get("error"), str)
        require("key" in found and ended, str(self.path), f"line {number}",
                line.decode(errors="replace"), "a result of simcg sweep")  # fmt: skip
        return found


def _text(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")
