"""Row minima of a banded totally monotone matrix in product form, all rows of a level at once.

Row r and column i hold ``heights[i] - slopes[r] * positions[i]`` where ``low[r] <= i <=
high[r]`` and +infinity elsewhere. With slopes, low and high non-decreasing over r and positions
non-decreasing over i, the matrix is Monge in the extended sense: for rows r < s and columns
i < k, if (r, k) and (s, i) lie in the band then so do (r, i) and (s, k), because
low[r] <= low[s] <= i and k <= high[r] <= high[s]; and there
A(r, i) + A(s, k) - A(r, k) - A(s, i) = (slopes[s] - slopes[r]) (positions[i] - positions[k]) <= 0.
So the leftmost argmins are non-decreasing, and the row between two solved rows needs only the
columns between their argmins. Infeasible columns may hold any large finite height.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Ints


@dataclass(frozen=True, slots=True)
class Level:
    """Rows solved together (1-based) and, for each, the nearest solved rows on both sides."""

    rows: Ints
    before: Ints
    after: Ints
    low: Ints
    high: Ints
    slopes: Ints


@dataclass(frozen=True, slots=True)
class Band:
    """The band and the slopes of a matrix; they serve every vector of heights."""

    num_rows: int
    num_columns: int
    levels: tuple[Level, ...]

    @staticmethod
    def of(low: Ints, high: Ints, slopes: Ints, num_columns: int) -> Band:
        """The band of rows with columns low..high inclusive, none of them empty."""
        num_rows = len(low)
        levels = []
        stride = 1 << max(num_rows.bit_length() - 1, 0)
        while stride and num_rows:
            rows = np.arange(stride, num_rows + 1, 2 * stride, dtype=np.int64)
            after = np.minimum(rows + stride, num_rows + 1)
            at = rows - 1
            levels.append(Level(rows, rows - stride, after, low[at], high[at], slopes[at]))
            stride //= 2
        return Band(num_rows, num_columns, tuple(levels))


def row_minima(band: Band, heights: Ints, positions: Ints) -> tuple[Ints, Ints]:
    """The leftmost argmin and the minimum of each row, in O((rows + columns) log rows)."""
    # rows 0 and num_rows + 1 are sentinels that bound the search on both sides
    argmins = np.zeros(band.num_rows + 2, dtype=np.int64)
    argmins[-1] = band.num_columns - 1
    minima = np.zeros(band.num_rows + 2, dtype=np.int64)
    for level in band.levels:
        start = np.maximum(level.low, argmins[level.before])
        last = np.minimum(level.high, argmins[level.after])
        solved = _level_minima(level.slopes, start, last, heights, positions)
        argmins[level.rows], minima[level.rows] = solved
    return argmins[1:-1], minima[1:-1]


def _level_minima(
    slopes: Ints, start: Ints, last: Ints, heights: Ints, positions: Ints
) -> tuple[Ints, Ints]:
    """Leftmost argmin and minimum of each row over its columns start..last.

    A row's last column is at most the next row's first, so one pass over the columns, each
    with its row's slope, covers all but the last column of each row; those are added apart.
    """
    base, end = int(start[0]), int(last[-1]) + 1
    start, last_here = start - base, last - base
    owned = np.diff(start, append=end - base)
    values = heights[base:end] - np.repeat(slopes, owned) * positions[base:end]
    at_last = heights[last] - slopes * positions[last]
    ranges = np.empty(2 * len(start), dtype=np.int64)
    ranges[0::2], ranges[1::2] = start, last_here
    # an empty range yields a value of another row: masked by start < last
    inner = np.minimum.reduceat(values, ranges)[0::2]
    minima = np.where(start < last_here, np.minimum(inner, at_last), at_last)
    hits = np.flatnonzero(values == np.repeat(minima, owned))
    hits = np.append(hits, end)
    first = hits[np.searchsorted(hits, start)]
    return np.minimum(first, last_here) + base, minima
