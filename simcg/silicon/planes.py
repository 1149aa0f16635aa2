"""Planes of times over tokens or requests and keys, from scattered measurements, and curves.

Prompts are measured as requests of equal length without cached context, so that a query sees half
of its prompt in the mean. A plane wants any number of keys for any number of tokens; where keys
are more than the tokens of one prompt allow, the entry is carried on: the work of a whole prompt
with as many keys a query, in proportion to the tokens, but no less than these tokens' own prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from simcg.arrays import Floats
from simcg.hardware.profile import Curve, CurveKey
from simcg.silicon.order import ordered, roughness
from simcg.silicon.source import Rows

TOKENS = tuple(2**i for i in range(4, 16))
LENGTHS = (16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
"""Prompt lengths of the plane; each has (length + 1) / 2 keys a query."""
REQUESTS = tuple(2**i for i in range(12))
KEYS = (16, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
FEWEST = 10
"""Measured entries that a curve or plane needs."""

Measured = Mapping[tuple[int, int], float]
"""ns by (requests, tokens or keys of each)."""


@dataclass
class Curves:
    """Curves made so far, the first of each key, and how many entries were out of order."""

    source: str
    made: list[Curve] = field(default_factory=list)
    disordered: int = 0

    def line(self, key: CurveKey, rows: Rows, axis: str) -> None:
        """A curve along one column; too few entries make none."""
        x, of = np.unique(rows[axis], return_inverse=True)
        if len(x) < FEWEST // 2:
            return
        ns = np.full(len(x), np.inf)
        np.minimum.at(ns, of, rows["latency"] * 1e6)
        ns, late = ordered(ns)
        self.disordered += late
        self._add(key, x.tolist(), (), ns)

    def prompts(self, key: CurveKey, measured: Measured) -> None:
        """A plane over tokens, and keys a query."""
        if len(measured) < FEWEST:
            return
        known = self._in_order(measured)
        keys = tuple((length + 1) / 2 for length in LENGTHS)
        plane = [[prompt_ns(known, tokens, length) for length in LENGTHS] for tokens in TOKENS]
        self._add(key, TOKENS, keys, np.array(plane))

    def decodes(self, key: CurveKey, measured: Measured) -> None:
        """A plane over requests, and keys of each."""
        if len(measured) < FEWEST:
            return
        known = self._in_order(measured)
        plane = [[decode_ns(known, m, keys) for keys in KEYS] for m in REQUESTS]
        self._add(key, REQUESTS, KEYS, np.array(plane))

    def _in_order(self, measured: Measured) -> Measured:
        """Neither more requests nor longer ones are faster."""
        many, each = (np.unique([size[axis] for size in measured]) for axis in (0, 1))
        ns = np.full((len(many), len(each)), np.nan)
        places = {
            size: (int(np.searchsorted(many, size[0])), int(np.searchsorted(each, size[1])))
            for size in measured
        }
        for size, place in places.items():
            ns[place] = measured[size]
        least, late = ordered(ns)
        self.disordered += late
        return {size: float(least[place]) for size, place in places.items()}

    def scattered(
        self,
        key: CurveKey,
        x: Sequence[int],
        y: Sequence[int],
        measured: Mapping[int, tuple[Floats, Floats]],
    ) -> None:
        """A plane from lines over keys, one for each x that was measured, else the next smaller's
        in proportion; straight in the logarithms, in proportion beyond a line's ends."""
        if not measured:
            return
        plane = []
        for one in x:
            near = max((n for n in measured if n <= one), default=min(measured))
            keys, ns = measured[near]
            at = np.clip(y, keys[0], keys[-1])
            line = np.exp(np.interp(np.log(at), np.log(keys), np.log(ns)))
            plane.append((line * np.maximum(np.array(y) / at, 1.0) * max(one / near, 1)).tolist())
        ns, late = ordered(np.array(plane))
        self.disordered += late
        self._add(key, x, y, ns)

    def _add(self, key: CurveKey, x: Sequence[float], y: Sequence[float], ns: Floats) -> None:
        if any(curve.key == key for curve in self.made):
            return
        self.made.append(
            Curve(
                key=key,
                x=tuple(map(float, x)),
                y=tuple(map(float, y)),
                ns=tuple(np.rint(ns).ravel().tolist()),
                spread_ns=(),
                provenance="measured",
                source=self.source,
                sigma=roughness(ns),
                causal=key.op in ("attention", "latent_attention", "gated_delta"),
            )
        )


def fastest(rows: Rows, many: str, each: str) -> Measured:
    """The fastest kernel of each size."""
    out: dict[tuple[int, int], float] = {}
    for m, size, ms in zip(rows[many], rows[each], rows["latency"], strict=True):
        at = int(m), int(size)
        out[at] = min(out.get(at, np.inf), float(ms) * 1e6)
    return out


def prompt_ns(measured: Measured, tokens: int, length: int) -> float:
    """``tokens`` of prompts of that length, or a part of one."""
    if tokens >= length:
        return _larger(measured, tokens // length, length, 2)
    own = _larger(measured, 1, tokens, 2)
    return max(own, _larger(measured, 1, length, 2) * tokens / length)


def decode_ns(measured: Measured, requests: int, keys: int) -> float:
    """So many requests with so many keys each."""
    return _larger(measured, requests, keys, 1)


def _larger(measured: Measured, requests: int, each: int, power: int) -> float:
    """Measured, else in proportion from the largest measured size that is in neither larger.

    ``power``: how time grows with the size of each request.
    """
    if (requests, each) in measured:
        return measured[requests, each]
    known = [(m, n) for m, n in measured if m <= requests and n <= each]
    if not known:
        return min(measured.values())
    m, n = max(known, key=lambda size: (size[0] * size[1], size[1]))
    return measured[m, n] * (requests / m) * (each / n) ** power
