"""Minima of lines' envelopes (a discrete Legendre transform) by vectorised hull peeling.

For each slope c the leftmost minimiser of ``heights[i] - c * positions[i]`` is a vertex of the
lower convex hull of the points (positions, heights). A round removes at once every point whose
left slope is at least its right slope: such a point lies on or above the chord of its current
neighbours, so it is no vertex of the hull of the current points, and removing points that are
no vertices leaves the hull as it was, however many go together.

Slopes are float64, and yet the answer is exact for integer slopes c as long as
max(c) * max(positions) < 2**51 and all heights are below 2**51 in magnitude:
numerators and denominators are then exact, and each computed slope is the true one rounded
once. Let v be the leftmost minimiser for c. Seen from any point to its left the true slope s is
below c, by at least 1 / (p_v - p_l) since c is an integer; s can round up to c only if c - s is
within c * 2**-53, which c * max(positions) < 2**51 excludes: the rounded slope is below c. Seen
to any point on its right the true slope is at least c, and rounding is monotone and c
representable: the rounded slope is at least c. Points of equal position fit in with slopes of
-infinity to a lower and +infinity to an equal or higher point on the right. So v survives every
round. When a round removes nothing, the rounded slopes ascend strictly and v is the one vertex
with left slope < c <= right slope: a binary search finds it.
"""

from __future__ import annotations

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.optimize.monotone import Band, row_minima

MAX_EXACT = 2**51
"""Bound on max(slope) * max(position), and on heights, under which the argmins are exact."""

MAX_ROUNDS = 64
"""Peeling rounds before the worst case (one point a round) goes to monotone minima instead."""


def leftmost_minimisers(positions: Ints, heights: Ints, slopes: Ints) -> Ints:
    """Index of the leftmost minimiser of heights - c * positions for each c in ``slopes``.

    ``positions`` and ``slopes`` are non-decreasing; all are within the bounds above.
    """
    points = np.arange(len(positions), dtype=np.int64)
    x, y = positions.astype(np.float64), heights.astype(np.float64)
    for _ in range(MAX_ROUNDS):
        edges = _slopes(x, y)
        vertex = np.ones(len(x), dtype=np.bool_)
        np.less(edges[:-1], edges[1:], out=vertex[1:-1])
        if vertex.all():
            # the queries with slope up to edge v belong to the vertices up to v
            ends = np.searchsorted(slopes.astype(np.float64), edges, side="right")
            counts = np.diff(ends, prepend=0, append=len(slopes))
            return np.repeat(points, counts)
        points, x, y = points[vertex], x[vertex], y[vertex]
    low = np.zeros(len(slopes), dtype=np.int64)
    band = Band(low, low + (len(points) - 1), slopes)
    return points[row_minima(band, heights[points], positions[points])]


def _slopes(x: Floats, y: Floats) -> Floats:
    """Slope from each point to the next."""
    rise, run = np.diff(y), np.diff(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes: Floats = rise / run
    slopes[(run == 0) & (rise == 0)] = np.inf
    return slopes
