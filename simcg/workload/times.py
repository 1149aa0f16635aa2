"""Raw time stamps (CSV text or JSON values) to exact nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from simcg.arrays import Ints
from simcg.workload.requests import MAX_TIME_NS
from simcg.workload.values import BadValueError, plain_integers

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
# 1970 to 2199: within the range of 64-bit nanoseconds, which NumPy does not check
_DAY = r"(?:19[7-9][0-9]|2[01][0-9]{2})-[0-9]{2}-[0-9]{2}"
_DATE = rf"({_DAY}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:[.,][0-9]{{1,9}})?)"
_LOCAL = re.compile(_DATE)
_ZONED = re.compile(_DATE + r" ?(Z|[+-][0-9]{2}:?[0-5][0-9])")
_NS_PER_MINUTE = 60_000_000_000
_SECOND_NS = 1_000_000_000

_EPOCHS = (
    (10**12, 10**14, 1_000_000, "milliseconds"),
    (10**15, 10**17, 1_000, "microseconds"),
    (10**18, 10**20, 1, "nanoseconds"),
)
"""From, to: numbers that as seconds are beyond all calendars, and since 1970 in this many
nanoseconds are from 2001 on."""

_TOO_FAR = (
    "a time stamp within 146 years of 0 (_ms, _us or _ns ends a name: its unit, else seconds)"
)
_NO_TIME = (
    "a number, or a date and time (1970 to 2199) in ISO 8601, such as 2026-11-12T08:00:00; "
    "--columns arrival=- reads no times"
)


class Times:
    """Parses one column of time stamps; its first good value decides which kind it holds.

    Kinds: numbers, dates with a zone, dates without one (1970 to 2199, up to nine fractional
    digits after a point or a comma). Every other value must be of the same kind. ``unit_ns`` None:
    numbers are seconds, or what their magnitude shows; ``note`` then says so.
    """

    def __init__(self, unit_ns: int | None) -> None:
        self._unit_ns = unit_ns
        self._kind: _Kind | None = None

    def parse(self, values: Sequence[object]) -> Ints:
        """Nanoseconds (int64) of each value; BadValueError for one that is not of the kind."""
        kind = self._kind or _Kind(values[0], self._unit_ns)
        times = kind.parse(values)
        self._kind = kind
        return times

    @property
    def note(self) -> str | None:
        """The unit, where the numbers' magnitude decided it."""
        unit = None if self._kind is None else self._kind.guessed
        return None if unit is None else f"times taken as {unit}"


class _Kind:
    """What the first time stamp of a column says of all."""

    def __init__(self, first: object, unit_ns: int | None) -> None:
        self.guessed: str | None = None
        self._unit_ns = _SECOND_NS if unit_ns is None else unit_ns
        self._pattern, self._expected = _NUMBER, "a number, like the first time stamp"
        if isinstance(first, str) and _ZONED.fullmatch(first):
            self._pattern, self._expected = _ZONED, "a date, time and zone, like the first one"
        elif isinstance(first, str) and _LOCAL.fullmatch(first):
            self._pattern, self._expected = _LOCAL, "a date and time, like the first one"
        elif not _is_number(first):
            self._expected = _NO_TIME
        elif unit_ns is None:
            size = abs(Decimal(str(first)))
            for least, limit, found_ns, name in _EPOCHS:
                if least <= size < limit:
                    self._unit_ns, self.guessed = found_ns, name

    def parse(self, values: Sequence[object]) -> Ints:
        """Nanoseconds (int64) of each value."""
        if self._pattern is _NUMBER:
            return self._numbers(values)
        matches = [self._pattern.fullmatch(v) if isinstance(v, str) else None for v in values]
        if None in matches:
            raise BadValueError(matches.index(None), self._expected)
        found = [m for m in matches if m is not None]
        times = _dates([m[1].replace(",", ".") for m in found])
        if self._pattern is _ZONED:
            times -= np.array([_zone_minutes(m[2]) for m in found]) * _NS_PER_MINUTE
        return times

    def _numbers(self, values: Sequence[object]) -> Ints:
        """Times given as numbers: exact, rounded to a nanosecond where finer."""
        whole = plain_integers(values)
        if whole is None:
            return np.array([self._one(i, v) for i, v in enumerate(values)], dtype=np.int64)
        limit = MAX_TIME_NS // self._unit_ns
        for index, value in enumerate(whole if max(map(abs, whole)) >= limit else ()):
            if abs(value) >= limit:
                raise BadValueError(index, _TOO_FAR)
        return np.array(whole, dtype=np.int64) * self._unit_ns

    def _one(self, index: int, value: object) -> int:
        """One number in nanoseconds."""
        if not _is_number(value):
            raise BadValueError(index, self._expected)
        number = Decimal(str(value))
        # the exponent first: arithmetic with a huge one overflows, with a tiny one underflows
        if number.adjusted() > 20 or abs(number) >= MAX_TIME_NS // self._unit_ns:
            raise BadValueError(index, _TOO_FAR)
        if number.adjusted() < -20:  # seconds far below half a nanosecond
            return 0
        return int((number * self._unit_ns).to_integral_value())


def _is_number(value: object) -> bool:
    """Is this a finite decimal number, or the text of one, of at most 64 characters?"""
    text = value if isinstance(value, str) else repr(value)
    right_type = type(value) in (str, int, float)
    return right_type and len(text) <= 64 and _NUMBER.fullmatch(text) is not None


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
