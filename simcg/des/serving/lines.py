"""Piecewise-linear durations in integer ticks, so that sums of many steps are exact."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

TICK_BITS = 20
TICKS_PER_NS = 1 << TICK_BITS
"""Durations are counted in 2**-20 ns: a key more of decode attention costs far less than a ns."""


class Lines(NamedTuple):
    """``ticks(x) = base[j] + slope[j] * x`` on the j-th piece, which begins at ``starts[j]``.

    The first piece holds below its start too, the last one without end. Slopes are >= 0.
    """

    starts: tuple[int, ...]
    bases: tuple[int, ...]
    slopes: tuple[int, ...]


def lines_through(xs: Sequence[int], ns: Sequence[int], tolerance: float = 0.0) -> Lines:
    """Lines through points of ascending ``xs`` and times ``ns``, beyond them the last slope.

    Points within ``tolerance`` (a share of their time) of a line between kept ones are dropped.
    A time that falls is lifted to the one before, as a step with more to attend to is no shorter,
    and a point whose ``x`` does not rise is left out.
    """
    at, times = [xs[0]], [ns[0]]
    for x, value in zip(xs, ns, strict=True):
        if x > at[-1]:
            at.append(x)
            times.append(max(value, times[-1]))
    kept = _kept(at, times, tolerance)
    if len(kept) == 1:  # the same everywhere
        return Lines((at[0],), (times[0] << TICK_BITS,), (0,))
    starts, bases, slopes = [], [], []
    for a, b in pairwise(kept):
        slope = ((times[b] - times[a]) << TICK_BITS) // (at[b] - at[a])
        starts.append(at[a])
        slopes.append(slope)
        bases.append((times[a] << TICK_BITS) - slope * at[a])
    return Lines(tuple(starts), tuple(bases), tuple(slopes))


def value_at(lines: Lines, x: int) -> int:
    """The ticks at ``x``."""
    starts, bases, slopes = lines
    if len(starts) == 1:
        return bases[0] + slopes[0] * x
    j = max(bisect_right(starts, x) - 1, 0)
    return bases[j] + slopes[j] * x


def _kept(xs: Sequence[int], ns: Sequence[int], tolerance: float) -> list[int]:
    """Indices of the points that lines must pass: greedily the longest lines.

    A line from a kept point may have any slope that passes all points since within tolerance; it
    ends at the last point whose own slope is among them.
    """
    kept, last = [0], len(xs) - 1
    at = 0
    while at < last:
        least, most, end = -1.0, float("inf"), at + 1
        for i in range(at + 1, last + 1):
            run, rise, room = xs[i] - xs[at], ns[i] - ns[at], tolerance * ns[i]
            slope = rise / run
            if least <= slope <= most:
                end = i
            least, most = max(least, (rise - room) / run), min(most, (rise + room) / run)
            if least > most:
                break
        kept.append(end)
        at = end
    return kept
