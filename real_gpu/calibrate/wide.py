"""How many requests decode attention reads at the cost of one: see ``simcg.cost.ragged``."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from simcg.arrays import Floats
from simcg.cost.curves import over_plane
from simcg.cost.ragged import PARTS, effective_parts
from simcg.hardware.profile import Curve, CurveKey

Raw = dict[str, Any]


def with_widths(curves: Sequence[Curve], long: Sequence[Raw]) -> tuple[Curve, ...]:
    """The curves with the widths that batches of one long request tell.

    ``long``: sections whose x is [requests, keys of the long one]; the others have ``short_keys``.
    """
    told = {CurveKey(**one["key"]): one for one in long}
    return tuple(_with_width(c, told[c.key]) if c.key in told else c for c in curves)


def _with_width(curve: Curve, long: Raw) -> Curve:
    """A key more of the longest alone over a key more of all, times all."""
    points: dict[int, list[tuple[float, float]]] = {}
    for (requests, keys), ns in zip(long["x"], long["ns"], strict=True):
        points.setdefault(requests, []).append((keys, ns))
    launched, widths = [1], [1.0]
    for requests, row in sorted(points.items()):
        (near, near_ns), (far, far_ns) = row[0], row[-1]
        many = np.array([requests, requests])
        equal = over_plane(curve, many, np.array([near, far], dtype=np.float64)).ns
        alone, together = far_ns - near_ns, float(equal[1] - equal[0])
        share = alone / together if together > 0 else 1.0
        launched.append(requests)
        widths.append(min(max(share * requests, 1.0), float(requests)))
    # beyond the last batch, and between two, as many as there
    width = np.minimum(np.interp(curve.x, launched, widths), curve.x)
    widened = msgspec.structs.replace(
        curve, width=tuple(round(float(w), 2) for w in np.maximum(width, 1.0))
    )
    return msgspec.structs.replace(widened, source=curve.source + _held_out(widened, long))


def _held_out(curve: Curve, long: Raw) -> str:
    """How far batches of drawn lengths are off, which no figure rests on."""
    errors = drawn_errors(curve, long)
    if not len(errors):
        return ""
    middle, worst = statistics.median(np.abs(errors).tolist()), float(np.abs(errors).max())
    return (
        f"; lengths drawn for {len(errors)} batches: {middle:.1%} off in the median, "
        f"{worst:.1%} at most"
    )


def drawn_errors(curve: Curve, long: Raw) -> Floats:
    """Predicted over measured, less 1, of the section's drawn batches."""
    out = []
    drawn = long.get("drawn", {"x": [], "ns": []})
    for lengths, ns in zip(drawn["x"], drawn["ns"], strict=True):
        count = len(lengths)
        width = round(float(np.interp(count, curve.x, curve.width)) * PARTS)
        each = effective_parts(sorted(lengths), width) / PARTS / count
        found = over_plane(curve, np.array([count]), np.array([each])).ns[0]
        out.append(float(found) / ns - 1)
    return np.array(out)
