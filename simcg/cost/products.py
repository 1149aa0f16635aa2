"""Curves of dense products of any size from a grid of measured ones, and finer axes of curves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.hardware.profile import Curve, CurveKey, Grid

TILE = 128
"""Rows of the largest tile: beyond it time climbs by so many rows, wherever it was measured."""
FINE = ((256, 1), (1024, 8), (4096, 32))
"""Rows up to which an expert layer is priced every so many rows; beyond, every TILE."""


def product_curve(grid: Grid, key: CurveKey) -> Curve:
    """The time of one product over rows, bilinear in the logarithms of k, n and time.

    Exact where k and n are the grid's. A size beyond the grid costs in proportion to the last; one
    below it costs as the first. Where measured rows lie more than a tile apart, tiles in between
    lie on a straight line: the grid has no steps there to show.
    """
    at_k, more_k = _place(grid.k, key.k)
    at_n, more_n = _place(grid.n, key.n)
    log_ns = sum(
        wk * wn * grid.log_ns[i, j]
        for i, wk in at_k
        for j, wn in at_n
    )  # fmt: skip
    known = key.k in grid.k and key.n in grid.n
    x, ns = _every_tile(np.array(grid.rows), np.exp(log_ns) * (more_k * more_n))
    return Curve(
        key=key,
        x=tuple(x.tolist()),
        ns=tuple(ns.tolist()),
        spread_ns=(),
        provenance=grid.provenance if known else "interpolated",
        source=grid.source,
        sigma=grid.noise if known else grid.sigma,
    )


def finer(curve: Curve) -> Curve:
    """The curve of an expert layer at many more rows, on straight lines between logarithms.

    Routing spreads rows over experts, so that its time has no steps at the rows of the step.
    """
    last = curve.x[-1]
    parts, begin = [], 1
    for end, step in (*FINE, (int(last), TILE)):
        parts.append(np.arange(begin, min(end, last) + 1, step))
        begin = end + step
    x = np.unique(np.concatenate([*parts, np.array(curve.x)])).astype(np.float64)
    ns = np.exp(np.interp(np.log(x), np.log(curve.x), np.log(curve.ns)))
    return Curve(
        key=curve.key,
        x=tuple(x.tolist()),
        ns=tuple(ns.tolist()),
        spread_ns=(),
        provenance=curve.provenance,
        source=curve.source,
        sigma=curve.sigma,
    )


def _place(axis: Sequence[int], size: int) -> tuple[tuple[tuple[int, float], ...], float]:
    """The entries around ``size`` with their weights, and by how much it exceeds the last."""
    inside = min(max(size, axis[0]), axis[-1])
    j = max(int(np.searchsorted(axis, inside)), 1)
    low, high = np.log(axis[j - 1]), np.log(axis[j])
    share = float((np.log(inside) - low) / (high - low))
    return ((j - 1, 1 - share), (j, share)), max(size / axis[-1], 1.0)


def _every_tile(rows: Ints, ns: Floats) -> tuple[Floats, Floats]:
    """With a point every tile where measured rows lie further apart."""
    x = [rows[:1]]
    for low, high in pairwise(rows):
        x.append(np.append(np.arange(low + TILE, high, TILE), high))
    at = np.concatenate(x).astype(np.float64)
    return at, np.interp(at, rows, ns)
