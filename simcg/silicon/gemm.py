"""Dense products: one grid for each type of weights, from rows that the GPU and not the host timed.

The tables have a row for pairs of row counts (16, 17, 32, 33, ...): the last row of a tile and the
first of the next. One tile costs one time, so the two ends of an interval are two measurements of
it; where the interval is longer than a tile, its first row stands for the first tile alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Bools, Floats, Ints
from simcg.cost.products import TILE
from simcg.hardware.profile import Grid
from simcg.silicon.order import ordered
from simcg.silicon.source import Table

WEIGHTS = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}
"""The package's names of types and ours."""
SMALLEST = 64
"""Sizes below are left out: they cost what this one does."""
TINY = (1024, 1024, 512)
"""Products up to these k, n and rows take a few microseconds on every GPU in the tables."""
HOST_NS = 20_000
"""Tiny products that take longer in the median are launches, not kernels."""
FLAT = ((1, 1), (2, 3), (3, 5), (5, 8), (9, 16))
"""Rows that share the smallest tile: the grid's row is the last of each, its time their median."""

SAME_TILE = (9, 16)
"""Rows that differ in nothing a kernel of tensor cores sees."""


@dataclass(frozen=True)
class Dense:
    """One type's table as an array [k, n, m] of ns, nan where there is no row."""

    k: Ints
    n: Ints
    m: Ints
    ns: Floats


@dataclass(frozen=True)
class Filtered:
    """A grid, or none where the host was timed, and how many rows were not taken for what."""

    weights: str
    rows: int
    host_bound: int
    disordered: int
    grid: Grid | None
    errors: tuple[float, float, float]
    """|log error| of held-out sizes at twice the grid's spacing: median, 68th, 95th percentile."""


def grids(table: Table, source: str) -> list[Filtered]:
    """One entry for each type of weights that the table has and simcg knows."""
    found = [name for name in WEIGHTS if (table.rows["gemm_dtype"] == name).any()]
    return [_grid(table.where(gemm_dtype=name), WEIGHTS[name], source) for name in found]


def _grid(table: Table, weights: str, source: str) -> Filtered:
    full = dense(table)
    bound = host_bound(full)
    if 2 * bound.sum() > len(table):
        return Filtered(weights, len(table), int(bound.sum()), 0, None, (0.0, 0.0, 0.0))
    kept = Dense(full.k, full.n, full.m, np.where(bound, np.nan, full.ns))
    # a row that is missing or not the kernel's takes at most what the least larger one does
    whole, late = ordered(kept.ns)
    usable = [np.flatnonzero(sizes >= SMALLEST) for sizes in (full.k, full.n)]
    usable_k, usable_n = complete(np.any(np.isinf(whole), axis=2), *usable)
    rows, ns = by_tile(full.m, whole[np.ix_(usable_k, usable_n)])
    k, n = full.k[usable_k], full.n[usable_n]
    errors = held_out(k, n, ns)
    grid = Grid(
        weights=weights,
        k=tuple(k.tolist()),
        n=tuple(n.tolist()),
        rows=tuple(rows.tolist()),
        ns=tuple(np.rint(ns).astype(np.int64).ravel().tolist()),
        noise=round(repeat_noise(kept), 4),
        sigma=round(errors[1], 4),
        provenance="measured",
        source=source,
    )
    return Filtered(weights, len(table), int(bound.sum()), late, grid, errors)


def dense(table: Table) -> Dense:
    """The table as an array; the fastest where a size was timed by several kernels."""
    axes = [np.unique(table.rows[name]) for name in ("k", "n", "m")]
    ns = np.full([len(axis) for axis in axes], np.inf)
    at = [
        np.searchsorted(axis, table.rows[name])
        for axis, name in zip(axes, ("k", "n", "m"), strict=True)
    ]
    np.minimum.at(ns, tuple(at), table.rows["latency"] * 1e6)
    k, n, m = axes
    return Dense(k, n, m, np.where(np.isfinite(ns) & (ns > 0), ns, np.nan))


def host_bound(table: Dense) -> Bools:
    """Rows that time a launch: all within 1.3 times what tiny products take, where that is long."""
    k, n, m = np.ix_(table.k <= TINY[0], table.n <= TINY[1], table.m <= TINY[2])
    tiny = table.ns[k, n, m]
    tiny = tiny[~np.isnan(tiny)]
    if not len(tiny) or np.median(tiny) < HOST_NS:
        return np.zeros(table.ns.shape, dtype=np.bool_)
    out: Bools = table.ns < 1.3 * np.percentile(tiny, 95)
    return out


def complete(missing: Bools, k: Ints, n: Ints) -> tuple[Ints, Ints]:
    """Indices into both axes without ``missing`` entries: those with most are dropped first."""
    while (part := missing[np.ix_(k, n)]).any():
        by_k, by_n = part.mean(axis=1), part.mean(axis=0)
        if by_k.max() >= by_n.max():
            k = np.delete(k, len(k) - 1 - int(np.argmax(by_k[::-1])))
        else:
            n = np.delete(n, len(n) - 1 - int(np.argmax(by_n[::-1])))
    return k, n


def by_tile(m: Ints, ns: Floats) -> tuple[Ints, Floats]:
    """Rows at which tiles end, and the times there, from pairs of rows at both ends of intervals.

    ``ns``: [k, n, m]. The two ends are averaged in their logarithms, but where the first row of a
    tile is the slower one: odd rows take slow paths that the rows of a bucket do not.
    """
    place = {int(row): i for i, row in enumerate(m)}
    rows, times = [], []
    for first, last in FLAT:
        inside = [i for row, i in place.items() if first <= row <= last]
        if inside:
            rows.append(last)
            times.append(np.median(ns[..., inside], axis=-1))
    before = rows[-1] if rows else 0
    ends = [row for row in place if row > before and row - 1 not in place]
    for end in ends:
        at_end = ns[..., place[end]]
        at_start = np.minimum(ns[..., place.get(before + 1, place[end])], at_end)
        if end - before <= TILE:
            at_end = np.sqrt(at_start * at_end)
        elif before + 1 in place:
            rows.append(before + TILE)
            times.append(at_start)
        rows.append(end)
        times.append(at_end)
        before = end
    return np.array(rows, dtype=np.int64), np.stack(times, axis=-1)


def repeat_noise(table: Dense) -> float:
    """One sigma of a measurement, as a share, by neighbouring rows of one smallest tile.

    They do equal work, so the logarithm of their ratio is the difference of two errors.
    """
    rows = [i for i, m in enumerate(table.m) if SAME_TILE[0] <= m <= SAME_TILE[1]]
    if len(rows) < 2:
        return 0.0
    off = np.abs(np.diff(np.log(table.ns[..., rows]), axis=-1))
    return float(np.nanmedian(off) * 1.4826 / np.sqrt(2.0))


def held_out(k: Ints, n: Ints, ns: Floats) -> tuple[float, float, float]:
    """|log error| of sizes interpolated from their neighbours' neighbours, at 50, 68 and 95 %."""
    log_ns = np.log(ns)
    errors = [np.zeros(1)]
    for axis, sizes in ((0, np.log(k)), (1, np.log(n))):
        along = np.moveaxis(log_ns, axis, 0)
        for j in range(1, len(sizes) - 1):
            share = (sizes[j] - sizes[j - 1]) / (sizes[j + 1] - sizes[j - 1])
            guess = along[j - 1] * (1 - share) + along[j + 1] * share
            errors.append(np.abs(guess - along[j]).ravel())
    found = np.percentile(np.concatenate(errors), [50, 68, 95])
    return float(found[0]), float(found[1]), float(found[2])
