"""Times along measured curves: stairs over rows, lines over bytes, planes over tokens and keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.cost.keys import curve_name
from simcg.errors import InputError
from simcg.hardware.profile import LONGEST_NS, Curve
from simcg.provenance import Provenance, weakest


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Durations in ns (int64, one per entry of the work) and what they rest on.

    ``relative_spread``: one sigma of the measurement as a share, 0 where nothing was measured.
    """

    ns: Ints
    provenance: Provenance
    relative_spread: float


def along(curve: Curve, at: Ints | Floats) -> KernelTime:
    """The time at the next measured point; beyond the last one in proportion to its rows.

    Kernels work in tiles, so their time is a staircase whose edges lie between measured points.
    A straight line across an edge would price sizes that no measurement has seen, and a ladder
    would gather its buckets there.
    """
    x, y = np.array(curve.x), np.array(curve.ns)
    ns = y[np.minimum(np.searchsorted(x, at), len(x) - 1)]
    beyond = at > x[-1]
    if beyond.any():
        ns = np.where(beyond, y[-1] * at / x[-1], ns)
    return KernelTime(whole_ns(ns, curve_name(curve)), curve.provenance, relative_spread(curve))


def between(curve: Curve, at: Floats) -> KernelTime:
    """Straight lines between the measured points, for times that have no steps: bytes moved."""
    x, y = np.array(curve.x), np.array(curve.ns)
    ns = np.where(at > x[-1], y[-1] * at / x[-1], np.interp(at, x, y))
    return KernelTime(whole_ns(ns, curve_name(curve)), curve.provenance, relative_spread(curve))


def over_plane(curve: Curve, tokens: Ints, keys: Floats) -> KernelTime:
    """Bilinear in the logarithms of tokens, keys and time; beyond the grid its last slope."""
    log_x, log_y = np.log(curve.x), np.log(curve.y)
    plane = np.log(curve.ns).reshape(len(log_x), len(log_y))
    at_x, at_y = np.log(tokens), np.log(keys)
    i = np.clip(np.searchsorted(log_x, at_x) - 1, 0, len(log_x) - 2)
    j = np.clip(np.searchsorted(log_y, at_y) - 1, 0, len(log_y) - 2)
    u = np.maximum((at_x - log_x[i]) / (log_x[i + 1] - log_x[i]), 0)
    v = np.maximum((at_y - log_y[j]) / (log_y[j + 1] - log_y[j]), 0)
    low = plane[i, j] * (1 - v) + plane[i, j + 1] * v
    high = plane[i + 1, j] * (1 - v) + plane[i + 1, j + 1] * v
    ns = np.exp(low * (1 - u) + high * u)
    where = curve.provenance
    if curve.causal and np.any(keys > (tokens + 1) / 2 + 1):
        where = weakest((where, "fitted"))
    return KernelTime(whole_ns(ns, curve_name(curve)), where, relative_spread(curve))


def whole_ns(ns: Floats, source: str) -> Ints:
    """Rounded; ``InputError`` names what gave a time that is none."""
    longest = ns.max(initial=0.0)
    if not longest <= LONGEST_NS:  # nor is nan
        expected = f"kernels of at most {LONGEST_NS:g} ns"
        raise InputError("hardware profile", source, float(longest), expected)
    return np.rint(ns).astype(np.int64)


def relative_spread(curve: Curve) -> float:
    """One sigma of a time, as a share: the median of what the curve states."""
    if not curve.spread_ns:
        return curve.sigma
    return float(np.median(np.array(curve.spread_ns) / np.array(curve.ns)))
