"""Raw column values (CSV text or JSON values) to exact int64: token counts and times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from simcg.arrays import Ints
from simcg.workload.requests import MAX_TIME_NS

_INTEGER = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
# 1970 to 2199: within the range of 64-bit nanoseconds, which NumPy does not check
_DAY = r"(?:19[7-9][0-9]|2[01][0-9]{2})-[0-9]{2}-[0-9]{2}"
_DATE = rf"({_DAY}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{1,9}})?)"
_LOCAL = re.compile(_DATE)
_ZONED = re.compile(_DATE + r" ?(Z|[+-][0-9]{2}:?[0-5][0-9])")
_NS_PER_MINUTE = 60_000_000_000


class BadValueError(Exception):
    """A value that does not parse: its index in the block and what was expected there."""

    def __init__(self, index: int, expected: str) -> None:
        self.index, self.expected = index, expected
        super().__init__(expected)


def parse_integers(values: Sequence[object], least: int, most: int, why: str = "") -> Ints:
    """Plain decimal integers from ``least`` to ``most``, as int64; BadValueError otherwise.

    ``why`` ends the text of the error: what ``most`` is.
    """
    numbers = _plain_integers(values)
    if numbers is None or min(numbers) < least or max(numbers) > most:
        index = next(i for i, v in enumerate(values) if not _fits(v, least, most))
        raise BadValueError(index, f"an integer from {least} to {most}{why}")
    return np.array(numbers, dtype=np.int64)


def _plain_integers(values: Sequence[object]) -> list[int] | None:
    """All values as int, or None if one of them is not a plain integer."""
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


def _fits(value: object, least: int, most: int) -> bool:
    """Is this one value a plain integer within the bounds?"""
    if isinstance(value, str):
        return bool(_INTEGER.fullmatch(value)) and least <= int(value) <= most
    return type(value) is int and least <= value <= most


class TimeColumn:
    """Parses one column of time stamps; its first value decides which kind the column holds.

    Kinds: numbers (in ``unit_ns``), dates with a zone, dates without one (1970 to 2199, up to
    nine fractional digits). Every other value must be of the same kind.
    """

    def __init__(self, first: object, unit_ns: int) -> None:
        self._unit_ns = unit_ns
        self._pattern, self._expected = _NUMBER, "a number, like the first time stamp"
        if isinstance(first, str) and _ZONED.fullmatch(first):
            self._pattern, self._expected = _ZONED, "a date, time and zone, like the first one"
        elif isinstance(first, str) and _LOCAL.fullmatch(first):
            self._pattern, self._expected = _LOCAL, "a date and time, like the first one"
        elif isinstance(first, str) and not _NUMBER.fullmatch(first):
            self._expected = "a number, or a date and time (1970 to 2199)"

    def parse(self, values: Sequence[object]) -> Ints:
        """Nanoseconds (int64) of each value; BadValueError for one that is not of the kind."""
        if self._pattern is _NUMBER:
            return self._numbers(values)
        matches = [self._pattern.fullmatch(v) if isinstance(v, str) else None for v in values]
        if None in matches:
            raise BadValueError(matches.index(None), self._expected)
        found = [m for m in matches if m is not None]
        times = _dates([m[1] for m in found])
        if self._pattern is _ZONED:
            times -= np.array([_zone_minutes(m[2]) for m in found]) * _NS_PER_MINUTE
        return times

    def _numbers(self, values: Sequence[object]) -> Ints:
        """Times given as numbers: exact, rounded to a nanosecond where finer."""
        whole = _plain_integers(values)
        if whole is None:
            return np.array([self._one(i, v) for i, v in enumerate(values)], dtype=np.int64)
        limit = MAX_TIME_NS // self._unit_ns
        for index, value in enumerate(whole if max(map(abs, whole)) >= limit else ()):
            if abs(value) >= limit:
                raise BadValueError(index, "a time stamp within 146 years of 0")
        return np.array(whole, dtype=np.int64) * self._unit_ns

    def _one(self, index: int, value: object) -> int:
        """One number in nanoseconds."""
        text = value if isinstance(value, str) else repr(value)
        right_type = type(value) in (str, int, float)
        if not right_type or len(text) > 64 or not _NUMBER.fullmatch(text):
            raise BadValueError(index, self._expected)
        number = Decimal(text)
        # the exponent first: arithmetic with a huge one overflows, with a tiny one underflows
        if number.adjusted() > 20 or abs(number) >= MAX_TIME_NS // self._unit_ns:
            raise BadValueError(index, "a time stamp within 146 years of 0")
        if number.adjusted() < -20:  # seconds far below half a nanosecond
            return 0
        return int((number * self._unit_ns).to_integral_value())


def _dates(texts: list[str]) -> Ints:
    """Nanoseconds since 1970 of ISO dates that have the right form."""
    try:
        return np.array(texts, dtype="datetime64[ns]").astype(np.int64)
    except ValueError:
        for index, text in enumerate(texts):
            try:
                np.datetime64(text, "ns")
            except ValueError:
                raise BadValueError(index, "a date and time of the calendar") from None
        raise


def _zone_minutes(zone: str) -> int:
    """Minutes east of UTC of ``Z``, ``+hh:mm`` or ``+hhmm``."""
    if zone == "Z":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return minutes if zone[0] == "+" else -minutes
