"""Fits ``simcg.hardware.profile.Burst`` to bursts of layers: needs no GPU, and nothing else's fit.

Of medians over bursts, so that one that something else disturbed changes little. Layers take some
time that no clock of the SMs changes; the speeds are those of their products and attention.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simcg.arrays import Floats
from simcg.cost.curves import along, over_plane
from simcg.hardware.profile import Burst, Curve, CurveKey, Figure

Raw = dict[str, Any]
FEWEST = 3
"""Graphs of layers that a burst must have, to see its speed change."""
CONSTANTS_NS = np.geomspace(1e6, 3e9, 321)
"""Time constants that are tried, 2.5 % apart."""


@dataclass(frozen=True, slots=True)
class Fall:
    """Speed over the profile's: ``settled + (fresh - settled) * exp(-t / fall_ns)``."""

    fresh: float
    settled: float
    fall_ns: float
    sigma: float


@dataclass(frozen=True, slots=True)
class Usual:
    """Layers at the clocks of the profile's curves: a graph's time, its compute-bound share."""

    ns: float
    share: float

    def speed(self, ns: Floats) -> Floats:
        """Of the compute-bound part where the graph took ``ns``, over the curves'."""
        rest: Floats = ns / self.ns - (1 - self.share)
        return self.share / np.maximum(rest, 0.1)


Usuals = dict[int, Usual]
"""By rows."""


def burst_of(section: Raw, usual_ns: dict[int, float], curves: Sequence[Curve]) -> Burst | None:
    """The figures; None where the layers' usual time was not measured, or speeds make no sense.

    ``section``: see ``real_gpu.calibrate.burst``. ``usual_ns``: by rows the time of the layers
    that ``curves`` are at.
    """
    usual = {}
    for one in section["bursts"]:
        compute = compute_bound_ns(section, one["rows"], curves) * one["layers"]
        if one["rows"] in usual_ns and compute > 0:
            ns = usual_ns[one["rows"]]
            usual[one["rows"]] = Usual(ns, min(compute / ns, 1.0))
    bursts = [one for one in section["bursts"] if one["rows"] in usual and len(one["ns"]) > FEWEST]
    if not bursts:
        return None
    fall = fit_fall(*middle_burst(bursts, usual))
    if not 0.5 <= fall.settled <= fall.fresh <= 2:
        return None
    series = [one for one in section["pauses"] if one["rows"] in usual]
    rise = fit_rise(series, usual, fall)
    rows = ", ".join(str(r) for r in dict.fromkeys(one["rows"] for one in bursts))
    what = f"{len(bursts)} bursts of layers at {rows} rows after decode-like work"
    speeds = [
        Figure(round(value, 4), "measured", f"{what}, over the curves' clocks", round(sigma, 4))
        for value, sigma in ((fall.fresh, fall.sigma), (fall.settled, fall.sigma))
    ]
    times = [
        Figure(round(value), "measured", text)
        for value, text in (
            (fall.fall_ns, what),
            (rise, f"{len(series)} bursts after pauses of decode-like work"),
        )
    ]
    return Burst(speeds[0], speeds[1], times[0], times[1])


def compute_bound_ns(section: Raw, rows: int, curves: Sequence[Curve]) -> float:
    """What of one layer the clock changes: its products and attention, by their curves."""
    known, at = {curve.key: curve for curve in curves}, np.array([rows])
    heads, kv_heads, head_dim = section["attention"]
    key = CurveKey("attention", heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    products = [CurveKey("gemm", k=k, n=n) for k, n in section["products"]]
    found = [along(known[one], at).ns[0] for one in products if one in known]
    if key in known:
        found.append(over_plane(known[key], at, (at + 1) / 2).ns[0])
    return float(sum(found))


def middle_burst(bursts: Sequence[Raw], usual: Usuals) -> tuple[Floats, Floats]:
    """Times since the start, in ns, and there the median speed over bursts and rows."""
    least = min(one["at_ns"][-1] for one in bursts)
    step = max(one["at_ns"][1] - one["at_ns"][0] for one in bursts)
    at = np.arange(step / 2, least, step)
    speeds = [
        np.interp(at, _middles(one), usual[one["rows"]].speed(np.array(one["ns"])))
        for one in bursts
    ]
    speed: Floats = np.median(np.array(speeds), axis=0)
    return at, speed


def _middles(burst: Raw) -> Floats:
    out: Floats = np.array(burst["at_ns"], dtype=np.float64) + np.array(burst["ns"]) / 2
    return out


def fit_fall(at: Floats, speed: Floats) -> Fall:
    """Least squares over the two speeds for each time constant; a burst never gets faster."""
    best: Fall | None = None
    for constant in CONSTANTS_NS[: max(2, int(np.searchsorted(CONSTANTS_NS, at[-1])))]:
        left = np.exp(-at / constant)
        (settled, more), *_ = np.linalg.lstsq(
            np.stack((np.ones_like(left), left), axis=1), speed, rcond=None
        )
        if more <= 0:
            settled, more = float(np.median(speed)), 0.0
        sigma = float(np.std(speed - settled - more * left))
        if best is None or sigma < best.sigma:
            best = Fall(float(settled + more), float(settled), float(constant), sigma)
    if best is None:
        raise ValueError("no time constant was tried")
    return best


def fit_rise(series: Sequence[Raw], usual: Usuals, fall: Fall) -> float:
    """The time constant of rests that explains the bursts of a series best, in ns.

    Each begins as rested as the one before left it and the pause restored. By the mean absolute
    error; as ``fall_ns`` where there is nothing to see.
    """
    gain = fall.fresh - fall.settled
    if gain <= 1e-3 or not series:
        return fall.fall_ns
    errors = []
    for constant in CONSTANTS_NS:
        rest, off = 1.0, []
        for one in series:
            rest = 1 - (1 - rest) * np.exp(-one["pause_ns"] / constant)
            left = rest * np.exp(-_middles(one) / fall.fall_ns)
            found = usual[one["rows"]].speed(np.array(one["ns"]))
            off.append(np.abs(found - fall.settled - gain * left))
            ended = one["at_ns"][-1] + one["ns"][-1]
            rest *= float(np.exp(-ended / fall.fall_ns))
        errors.append(statistics.fmean(np.concatenate(off).tolist()))
    return float(CONSTANTS_NS[int(np.argmin(errors))])
