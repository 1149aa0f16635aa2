"""Piecewise-linear durations in integer ticks, so that sums of many steps are exact."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simcg.arrays import Bools, Ints

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
    """Lines through points of ascending ``xs`` and times ``ns``, as ``lines_of_rows`` has it."""
    (lines,) = lines_of_rows(np.array([xs]), np.array([ns]), tolerance)
    return lines


def lines_of_rows(xs: Ints, ns: Ints, tolerance: float = 0.0) -> list[Lines]:
    """For each row of points ``xs`` with times ``ns`` its lines, beyond them the last slope.

    ``xs``, ``ns`` [rows, points], both below 2**53. Points within ``tolerance`` (a share of their
    time) of a line between kept ones are dropped. A time that falls is lifted to the one before,
    as a step with more to attend to is no shorter, and a point whose ``x`` does not rise is left
    out.
    """
    at, times, count = _rising(xs, ns)
    row, point = np.nonzero(_kept(at, times, count - 1, tolerance))
    follows = row[1:] == row[:-1]
    begin, end = (row[:-1][follows], point[:-1][follows]), (row[1:][follows], point[1:][follows])
    starts, runs = at[begin].tolist(), (at[end] - at[begin]).tolist()
    low, rises = times[begin].tolist(), (times[end] - times[begin]).tolist()
    # plain integers from here on: ticks times x may pass 64 bits
    slopes = [(rise << TICK_BITS) // run for rise, run in zip(rises, runs, strict=True)]
    parts = zip(low, slopes, starts, strict=True)
    bases = [(time << TICK_BITS) - slope * x for time, slope, x in parts]
    out, done = [], 0
    pieces = np.bincount(begin[0], minlength=len(at)).tolist()
    for many, x, time in zip(pieces, at[:, 0].tolist(), times[:, 0].tolist(), strict=True):
        piece = slice(done, done + many)
        if many:
            out.append(Lines(tuple(starts[piece]), tuple(bases[piece]), tuple(slopes[piece])))
        else:  # the same everywhere
            out.append(Lines((x,), (time << TICK_BITS,), (0,)))
        done += many
    return out


def value_at(lines: Lines, x: int) -> int:
    """The ticks at ``x``."""
    starts, bases, slopes = lines
    if len(starts) == 1:
        return bases[0] + slopes[0] * x
    j = max(bisect_right(starts, x) - 1, 0)
    return bases[j] + slopes[j] * x


def _rising(xs: Ints, ns: Ints) -> tuple[Ints, Ints, Ints]:
    """The points of each row whose ``x`` rises, in front, with times that do not fall; how many."""
    rises = np.ones(xs.shape, dtype=np.bool_)
    rises[:, 1:] = xs[:, 1:] > np.maximum.accumulate(xs, axis=1)[:, :-1]
    times = np.maximum.accumulate(np.where(rises, ns, ns[:, :1]), axis=1)
    order = np.argsort(~rises, axis=1, kind="stable")
    in_front = (np.take_along_axis(one, order, axis=1) for one in (xs, times))
    return (*in_front, rises.sum(axis=1))


def _kept(xs: Ints, ns: Ints, last: Ints, tolerance: float) -> Bools:
    """Which points lines must pass, up to the ``last`` of each row: greedily the longest lines.

    A line from a kept point may have any slope that passes all points since within tolerance; it
    ends at the last point whose own slope is among them. All rows go on by a point at a time.
    """
    kept = np.zeros(xs.shape, dtype=np.bool_)
    kept[:, 0] = True
    rows = np.flatnonzero(last > 0)
    at = np.zeros(len(rows), dtype=np.int64)
    i, end = at + 1, at + 1
    least, most = np.full(len(rows), -1.0), np.full(len(rows), np.inf)
    while len(rows):
        time, run = ns[rows, i], xs[rows, i] - xs[rows, at]
        rise, room = time - ns[rows, at], tolerance * time
        slope = rise / run
        end = np.where((least <= slope) & (slope <= most), i, end)
        least = np.maximum(least, (rise - room) / run)
        most = np.minimum(most, (rise + room) / run)
        ends = (least > most) | (i == last[rows])
        kept[rows[ends], end[ends]] = True
        at = np.where(ends, end, at)
        i = np.where(ends, end, i) + 1
        end = np.where(ends, i, end)
        least, most = np.where(ends, -1.0, least), np.where(ends, np.inf, most)
        more = at < last[rows]
        rows, at, i, end = rows[more], at[more], i[more], end[more]
        least, most = least[more], most[more]
    return kept
