"""What becomes of rows that cannot be used: the first is an error, or all are left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simcg.errors import Finding, InputError

_HINT = "; --skip-invalid leaves such rows out"
_SHOWN_CHARACTERS = 90


@dataclass(slots=True)
class BadRows:
    """The rows of one table that cannot be used; ``rows`` counts all rows, bad and good.

    Without ``skip`` the first bad one raises; with it they are counted.
    """

    skip: bool
    rows: int = 0
    count: int = 0
    _first: tuple[int, Callable[[], InputError]] | None = None

    def add(self, row: int, error: Callable[[], InputError]) -> None:
        """Leaves ``row`` out, or raises ``error()``, an InputError that names the row."""
        if not self.skip:
            found = error()
            expected = found.expected + _HINT
            raise InputError(found.source, found.where, found.value, expected) from found
        self.count += 1
        if self._first is None or row < self._first[0]:
            self._first = (row, error)

    def note(self) -> str | None:
        """How many rows were left out, and why the first was; None where all were used."""
        if self._first is None:
            return None
        first = self._first[1]()
        reason = str(first).removeprefix(f"{first.source}, ")
        if len(reason) > _SHOWN_CHARACTERS:
            reason = reason[: _SHOWN_CHARACTERS - 3] + "..."
        return f"skipped {self.count:,} of {self.rows:,} rows, first: {reason}"

    def require_some(self, source: str, used: int) -> None:
        """Raises InputError where no row is left."""
        if used:
            return
        if self.rows == 0:
            expected = "at least one row after the header"
            raise InputError(source, "", Finding("no data rows"), expected)
        raise InputError(source, "", Finding(self.note()), "at least one row that can be used")
