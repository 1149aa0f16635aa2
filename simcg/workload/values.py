"""Raw column values (CSV text or JSON values) to exact int64 token counts."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from simcg.arrays import Ints

# "1,116" is a spreadsheet's and "100.0" that of a table in which some row had no value; "1.116" and
# "1.000" would be a thousand and more in one country and one point something in another
_WHOLE = re.compile(r"([0-9]{1,18})(?:\.0)?|([0-9]{1,3}(?:,[0-9]{3}){1,5})")


class BadValueError(Exception):
    """A value that does not parse: its index in the block and what was expected there."""

    def __init__(self, index: int, expected: str) -> None:
        self.index, self.expected = index, expected
        super().__init__(expected)


def parse_integers(values: Sequence[object], least: int, most: int, why: str = "") -> Ints:
    """Integers from ``least`` to ``most``, as int64; BadValueError otherwise.

    Decimal digits; a decimal ``.0`` or thousands parted by commas do not change the number.
    ``why`` ends the text of the error: what ``most`` is.
    """
    numbers = plain_integers(values)
    if numbers is None or min(numbers) < least or max(numbers) > most:
        found = [_whole(v) for v in values]
        numbers = [n for n in found if n is not None and least <= n <= most]
        if len(numbers) < len(found):
            inside = [n is not None and least <= n <= most for n in found]
            raise BadValueError(inside.index(False), f"an integer from {least} to {most}{why}")
    return np.array(numbers, dtype=np.int64)


def plain_integers(values: Sequence[object]) -> list[int] | None:
    """All values as int, or None if one of them is not plain digits (the usual case, fast)."""
    types = set(map(type, values))
    if types == {int}:
        return [v for v in values if isinstance(v, int)]
    if types != {str}:
        return None
    texts = [v for v in values if isinstance(v, str)]
    together = "".join(texts)
    digits = together.isascii() and together.isdecimal()
    if not digits or not min(map(len, texts)) or max(map(len, texts)) > 18:
        return None
    return list(map(int, texts))


def _whole(value: object) -> int | None:
    """This one value as an integer; None if it is none."""
    if isinstance(value, str):
        match = _WHOLE.fullmatch(value)
        return None if match is None else int(match[1] or match[2].replace(",", ""))
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if type(value) is int else None
