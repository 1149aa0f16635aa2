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
class Band:
    """For each row its first and last column, inclusive and not empty, and its slope."""

    low: Ints
    high: Ints
    slopes: Ints


def row_minima(band: Band, heights: Ints, positions: Ints) -> Ints:
    """The leftmost argmin of each row, in O((rows + columns) log rows)."""
    rows = len(band.low)
    # rows 0 and rows + 1 are sentinels that bound the search on both sides
    argmins = np.zeros(rows + 2, dtype=np.int64)
    argmins[-1] = len(heights) - 1
    stride = 1 << rows.bit_length() >> 1
    while stride:
        level = np.arange(stride, rows + 1, 2 * stride)
        after = np.minimum(level + stride, rows + 1)
        start = np.maximum(band.low[level - 1], argmins[level - stride])
        last = np.minimum(band.high[level - 1], argmins[after])
        argmins[level] = _level_argmins(band.slopes[level - 1], start, last, heights, positions)
        stride //= 2
    return argmins[1:-1]


def _level_argmins(slopes: Ints, start: Ints, last: Ints, heights: Ints, positions: Ints) -> Ints:
    """Leftmost argmin of each row over its columns start..last.

    A row's last column is at most the next row's first, so one pass over the columns, each
    with its row's slope, covers all but the last column of each row; those are added apart.
    """
    base, end = int(start[0]), int(last[-1]) + 1
    start, last_here = start - base, last - base
    owned = np.diff(start, append=end - base)
    values = heights[base:end] - np.repeat(slopes, owned) * positions[base:end]
    at_last = heights[last] - slopes * positions[last]
    ranges = np.stack((start, last_here), axis=1).ravel()
    # an empty range yields a value of another row: masked by start < last
    inner = np.minimum.reduceat(values, ranges)[0::2]
    minima = np.where(start < last_here, np.minimum(inner, at_last), at_last)
    hits = np.flatnonzero(values == np.repeat(minima, owned))
    hits = np.append(hits, end)
    first = hits[np.searchsorted(hits, start)]
    return np.minimum(first, last_here) + base
