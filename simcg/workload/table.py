"""A table of named columns, read in blocks: what the readers of traffic see of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from simcg.errors import InputError
from simcg.workload.bad_rows import BadRows

BLOCK_ROWS = 1 << 9
"""Rows held as Python objects at once; their columns are then packed into int64 arrays. Measured:
more rows live long enough for the garbage collector to walk over them again and again."""

Block = tuple[Sequence[int], list[list[object]]]
"""The numbers of some data rows (from 0), and one list of their raw values per wanted name."""


class Table(Protocol):
    """Rows of a file with unique column ``names``, in order; ``blocks`` parses them, once."""

    @property
    def source(self) -> str:
        """What texts call the file."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""

    @property
    def is_json(self) -> bool:
        """Is each row a JSON object?"""

    @property
    def bad(self) -> BadRows:
        """Takes the rows that cannot be used."""

    def blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        """Every data row is in exactly one block, or is given to ``bad``. Raises InputError."""

    def error(self, row: int, name: str, value: object, expected: str) -> InputError:
        """The error for data row ``row`` (from 0), naming its place and column."""


def shown(name: str) -> str:
    """A column's name in an error, which stays one line."""
    return name if name.isprintable() else repr(name)
