"""Times of kernels that were not measured, from measured ones of other sizes.

The roofline is off by 5 % in the median and 27 % at the 95th percentile (products of an H200, but
for routers of a few columns). Most of that is common to products of similar sizes at equal rows:
which tiles the library takes and what share of the peaks they reach. So a size that was not
measured costs its roofline times what the measured sizes around it cost over theirs. Held out one
at a time, dense products are then off by 3 % and 14 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from simcg.arrays import Floats
from simcg.hardware.profile import Curve, CurveKey, HardwareProfile

Base = Callable[[CurveKey, Floats, Floats], Floats]
"""An estimate in ns of the kernel at (x, y) points; y is 1 where the kernel has no second axis."""

SIZES: dict[str, dict[str, float]] = {
    "gemm": {"k": 0.5, "n": 1.0},
    "grouped_gemm": {"k": 0.3, "n": 0.3, "experts": 1.0, "top_k": 1.0},
    "attention": {"heads": 1.0, "kv_heads": 0.1, "head_dim": 2.0},
    "decode_attention": {"heads": 0.5, "kv_heads": 1.0, "head_dim": 1.0},
}
"""By op: the sizes that may differ, and how much the logarithm of each counts in the distance.
Median errors change by under two points when any of these is halved or doubled."""
POWER = 3.0
"""A measured curve weighs the distance to the power of minus this: the nearest decide."""
UNREACHED = 1e-6
"""Weight of a curve beyond its last rows: its last value counts only where no curve reaches."""


def transfer(key: CurveKey, curves: Sequence[Curve], base: Base, sigma: float) -> Curve | None:
    """The curve of ``key`` by ``base``, corrected as measured curves are; None if none is alike.

    ``sigma``: one sigma of its error, as a share.
    """
    near = sorted((c for c in curves if _alike(c.key, key)), key=lambda c: _distance(c.key, key))
    if not near:
        return None
    x = np.array(near[0].x) if near[0].y else np.unique(np.concatenate([c.x for c in near]))
    ns = _estimate(key, near, (x, np.array(near[0].y or (1.0,))), base).ravel()
    if not np.all((ns > 1e-3) & np.isfinite(ns)):
        return None  # a wild profile, which the roofline refuses
    return Curve(
        key=key,
        x=tuple(x.tolist()),
        y=near[0].y,
        ns=tuple(ns.tolist()),
        spread_ns=tuple((max(sigma, 1e-3) * ns).tolist()),
        provenance="fitted",
        source="roofline, corrected as " + " and ".join(_name(c.key) for c in near[:2]),
    )


def leave_one_out(profile: HardwareProfile, op: str, base: Base) -> list[tuple[CurveKey, Floats]]:
    """Each curve of the op estimated from all others: its relative errors at its own points.

    Curves that no other is alike are left out.
    """
    out = []
    for curve in (c for c in profile.curves if c.key.op == op):
        others = [c for c in profile.curves if _alike(c.key, curve.key)]
        if others:
            grid = np.array(curve.x), np.array(curve.y or (1.0,))
            estimate = _estimate(curve.key, others, grid, base)
            out.append((curve.key, estimate.ravel() / np.array(curve.ns) - 1))
    return out


def _estimate(
    key: CurveKey, curves: Sequence[Curve], grid: tuple[Floats, Floats], base: Base
) -> Floats:
    """ns at the grid's points, [x, y]: the base times the curves' corrections, weighted."""
    x, y = grid
    total, weight = np.zeros((len(x), len(y))), np.zeros((len(x), 1))
    for curve in curves:
        at = x * _rows_alike(key, curve.key)
        reach = np.where(at <= curve.x[-1], 1.0, UNREACHED)
        part = _distance(curve.key, key) ** -POWER * reach[:, None]
        total += part * _correction(curve, at, y, base)
        weight += part
    out: Floats = _on_grid(base, key, x, y) * np.exp(total / weight)
    return out


def _alike(one: CurveKey, other: CurveKey) -> bool:
    """Another curve of the same op on the same type of weights; windowed both, or neither."""
    same = (one.op, one.weights, bool(one.window)) == (other.op, other.weights, bool(other.window))
    if not same or one.op not in SIZES or one == other:
        return False
    # a file may hold a curve of no size
    return all(min(getattr(one, size), getattr(other, size)) >= 1 for size in SIZES[one.op])


def _distance(one: CurveKey, other: CurveKey) -> float:
    """Between the logarithms of the sizes, at least a little."""
    squares = [
        (share * np.log(getattr(one, size) / getattr(other, size))) ** 2
        for size, share in SIZES[one.op].items()
    ]
    return max(float(np.sqrt(sum(squares))), 0.01)


def _rows_alike(key: CurveKey, other: CurveKey) -> float:
    """Rows of ``other`` for one of ``key``: equal rows, or equal rows an expert."""
    if key.op != "grouped_gemm":
        return 1.0
    return (key.top_k / key.experts) / (other.top_k / other.experts)


def _correction(curve: Curve, at: Floats, y: Floats, base: Base) -> Floats:
    """log(measured / base) of a curve, at its rows ``at`` by ``y``."""
    own_x, own_y = np.array(curve.x), np.array(curve.y or (1.0,))
    measured = np.array(curve.ns).reshape(len(own_x), len(own_y))
    log_ratio = np.log(measured / _on_grid(base, curve.key, own_x, own_y))
    along = np.array([_interpolate(at, own_x, column) for column in log_ratio.T]).T
    if np.array_equal(own_y, y):
        return along
    return np.array([_interpolate(y, own_y, row) for row in along])


def _interpolate(at: Floats, x: Floats, values: Floats) -> Floats:
    """Straight lines over the logarithm of x, constant beyond its ends."""
    out: Floats = np.interp(np.log(at), np.log(x), values)
    return out


def _on_grid(base: Base, key: CurveKey, x: Floats, y: Floats) -> Floats:
    points_x, points_y = np.meshgrid(x, y, indexing="ij")
    return base(key, points_x.ravel(), points_y.ravel()).reshape(len(x), len(y))


def _name(key: CurveKey) -> str:
    if key.heads:
        return f"{key.op} {key.heads}/{key.kv_heads}/{key.head_dim}"
    experts = f" of {key.top_k}/{key.experts}" if key.experts else ""
    return f"{key.k}x{key.n}{experts}"
