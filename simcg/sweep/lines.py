"""A file of results, one a line, that survives its writer: half a last line is dropped."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import IO

from simcg.errors import InputError, require


class Lines:
    """The lines of a file, open for more until exit. ``flag``: the option that named it.

    A line is written at once, so that only the last one can be half-written; ``settle`` drops
    such a line. Raises ``InputError`` for what is no file, and for one that another process
    writes now.
    """

    def __init__(self, path: Path, flag: str) -> None:
        self.path, self._flag = path, flag
        regular = path.is_file() or not path.exists()  # a device may have no end
        require(regular, flag, "", str(path), "a regular file")
        try:
            self._file: IO[bytes] = path.open("a+b", buffering=0)
        except OSError as error:
            expected = f"a file that can be read and written ({error.strerror})"
            raise InputError(flag, "", str(path), expected) from None
        try:
            self._lock()
            self._file.seek(0)
            data = self._file.read()
        except BaseException:
            self._file.close()
            raise
        self._whole = data[: data.rfind(b"\n") + 1]
        self.lines = self._whole.splitlines()

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let others write it."""
        self._file.close()

    def settle(self) -> None:
        """Drop half a last line: call it once the whole ones are known to be one's own."""
        self._file.truncate(len(self._whole))

    def append(self, line: bytes) -> None:
        """Write it at the end; ``InputError`` where the disk is full."""
        rest = memoryview(line + b"\n")
        try:
            while rest:  # the end of a disk takes a part and says so only to the next write
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            expected = f"a file that can be written ({error.strerror})"
            raise InputError(self._flag, "", str(self.path), expected) from None

    def _lock(self) -> None:
        """Refuse a file that another process writes; the lock ends with this process or file."""
        try:
            import fcntl  # noqa: PLC0415  # not on every system

            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            expected = "a file that no other simcg is writing"
            raise InputError(self._flag, "", str(self.path), expected) from None
        except (ImportError, OSError):  # without locks a file can still be written
            return
