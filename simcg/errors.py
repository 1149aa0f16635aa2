"""The errors that a user can cause. The text of each is the one line the CLI prints."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class SimcgError(ValueError):
    """Base of every error that a user's input can cause; exit code 2, no traceback."""


class Finding(str):
    """What was found, in words: an error shows it without the quotes of a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class InputError(SimcgError):
    """A value that cannot be used: says where it stands, what it is and what was expected.

    ``source`` is a file, flag or object; ``where`` a line, field or index in it ("" if none).
    """

    def __init__(self, source: str, where: str, value: object, expected: str) -> None:
        self.source, self.where, self.value, self.expected = source, where, value, expected
        place = f"{source}, {where}" if where else source
        super().__init__(f"{place}: got {_short(value)}, expected {expected}")


def _short(value: object) -> str:
    """``repr`` in one printable line of at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def require(condition: bool, source: str, where: str, value: object, expected: str) -> None:
    """Raise ``InputError`` unless ``condition`` holds."""
    if not condition:
        raise InputError(source, where, value, expected)


def one_of(name: str, known: Sequence[str]) -> str:
    """What was expected instead of ``name``, with the closest of the known names."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"one of {', '.join(known)}" + (f"; did you mean {close[0]}?" if close else "")
