"""Runs written line by line to a temporary file that becomes the file at the end.

After a failure it stays beside as ``.part``: a runs file of what was measured until then, which
``simcg validate`` reads like any other, under a name that nobody takes for a whole run.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from simcg.errors import InputError
from simcg.runs.read import encode_line
from simcg.runs.schema import Header, Line


def part_of(path: Path) -> Path:
    """Where the runs are until they are whole."""
    return path.with_name(path.name + ".part")


class RunsWriter:
    """A context whose file appears whole, or stays beside it as ``.part`` after a failure."""

    def __init__(self, path: Path, header: Header) -> None:
        self._path, self._part = path, part_of(path)
        try:
            self._file = self._part.open("wb")
        except OSError as error:
            raise InputError(
                "--out", "", str(path), f"a file that can be written ({error.strerror})"
            ) from None
        self.write(header)

    def write(self, line: Line) -> None:
        """Append a line; the file has it when this returns."""
        self._file.write(encode_line(line))
        self._file.flush()

    def __enter__(self) -> RunsWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if kind is None:
            self._part.replace(self._path)
