"""Step durations of a deployment, tabulated once from the cost model."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.backend import FULL, CaptureBackend
from simcg.cost.kernels import Work
from simcg.cost.step import StepCost
from simcg.hardware.profile import HardwareProfile
from simcg.model.ops import ForwardPass

PER_OCTAVE = 6
"""Points a doubling of rows or keys, between which times are interpolated."""
LONGEST_CONTEXT = 1 << 17


@dataclass(frozen=True, slots=True)
class Slowdown:
    """What a server takes beside its kernels as they were timed one by one.

    ``step_ns``: host time of every step that nothing hides (scheduling, sampling). ``kernel_ns``:
    more GPU time of each kernel, idle gaps included. ``prefill``: how many times as long the
    kernels of steps with prefills take, as clocks fall under sustained load.
    """

    step_ns: float = 0.0
    kernel_ns: float = 0.0
    prefill: float = 1.0


@dataclass(frozen=True)
class Served:
    """What is priced: a model's two forwards on a profile, with the graphs of its decodes.

    ``backend`` runs steps with prefills of up to ``graph_top`` tokens, ``fallback`` all longer
    ones and decodes above the last of ``decode_sizes``, those of the full graphs.
    """

    prefill: ForwardPass
    decode: ForwardPass
    profile: HardwareProfile
    decode_sizes: tuple[int, ...]
    backend: CaptureBackend
    fallback: CaptureBackend
    graph_top: int
    most_tokens: int
    most_decodes: int


class TabulatedPrices:
    """``StepPrices`` of one deployment.

    A step with prefills lasts as long as the later of host and GPU: max(GPU time of its dense ops
    plus that of its attention, host time of issuing them all).
    """

    def __init__(self, served: Served, slowdown: Slowdown) -> None:
        self.served, self.slowdown = served, slowdown
        self._decodes: dict[int, tuple[list[int], list[float]]] = {}
        self._beside: dict[int, tuple[Ints, Ints]] = {}

    def mixed_ns(self, tokens: int, pairs: int, prefills: int, decodes: int, keys: int) -> int:
        """A step of prefill tokens of so many requests, with decodes or without."""
        rows = tokens + decodes
        attention = self._prefill_attention(tokens, pairs)
        if decodes:
            attention += self._decode_attention(decodes, keys)
        dense = float(np.interp(rows, self._rows, self._dense))
        device = (dense + attention) * self.slowdown.prefill + self._kernel_ns(self.served.prefill)
        host = self._host_ns[0 if rows <= self.served.graph_top else 1]
        return round(max(device, host) + self.slowdown.step_ns)

    def decode_ns(self, decodes: int, keys: int) -> int:
        """A step in which each request adds one token, attending to ``keys`` in all."""
        if decodes not in self._decodes:
            self._decodes[decodes] = self._decode_line(decodes)
        at, ns = self._decodes[decodes]
        j = min(max(bisect_right(at, keys), 1), len(at) - 1)
        share = (keys - at[j - 1]) / (at[j] - at[j - 1])
        return round(ns[j - 1] + (ns[j] - ns[j - 1]) * share + self.slowdown.step_ns)

    def _kernel_ns(self, forward: ForwardPass) -> float:
        distinct, order = forward.numbered
        return self.slowdown.kernel_ns * sum(distinct[i].kernels for i in order)

    @cached_property
    def _rows(self) -> Ints:
        most = self.served.most_tokens + self.served.most_decodes
        return _grid(most)

    @cached_property
    def _dense(self) -> Floats:
        """GPU time without attention over ``_rows``; logits of as many requests as may run."""
        rows = self._rows
        zeros = np.zeros_like(rows)
        logits = np.minimum(rows, self.served.most_decodes)
        ns = self._bare.times(Work(rows, zeros, logits, zeros, zeros, zeros)).device_ns
        return ns.astype(np.float64)

    @cached_property
    def _bare(self) -> StepCost:
        return StepCost(self.served.prefill, self.served.profile, FULL)

    @cached_property
    def _host_ns(self) -> tuple[int, int]:
        """Host time of issuing a step with prefills: within the graphs' sizes, and above."""
        one = np.ones(1, dtype=np.int64)
        work = Work(one, one, one, one)
        costs = (self.served.backend, self.served.fallback)
        within, above = (
            StepCost(self.served.prefill, self.served.profile, backend).times(work).host_ns
            for backend in costs
        )
        return within, above

    @cached_property
    def _attention_plane(self) -> tuple[Floats, Floats, Floats]:
        """Logarithms of tokens and of mean keys, and the GPU time of prefill attention."""
        tokens = _grid(self.served.most_tokens)
        keys = _grid(LONGEST_CONTEXT)
        n, k = (x.ravel() for x in np.meshgrid(tokens, keys, indexing="ij"))
        zeros, pairs = np.zeros_like(n), n * k
        with_it = self._bare.times(Work(n, n, np.ones_like(n), pairs)).device_ns
        bare = Work(n, zeros, np.ones_like(n), zeros, zeros, zeros)
        without = self._bare.times(bare).device_ns
        plane = (with_it - without).reshape(len(tokens), len(keys))
        return np.log(tokens), np.log(keys), plane.astype(np.float64)

    def _prefill_attention(self, tokens: int, pairs: int) -> float:
        log_n, log_k, plane = self._attention_plane
        at_n, at_k = np.log(tokens), np.log(max(pairs / tokens, 1.0))
        i = min(max(int(np.searchsorted(log_n, at_n)), 1), len(log_n) - 1)
        j = min(max(int(np.searchsorted(log_k, at_k)), 1), len(log_k) - 1)
        u = (at_n - log_n[i - 1]) / (log_n[i] - log_n[i - 1])
        v = (at_k - log_k[j - 1]) / (log_k[j] - log_k[j - 1])
        low = plane[i - 1, j - 1] * (1 - v) + plane[i - 1, j] * v
        high = plane[i, j - 1] * (1 - v) + plane[i, j] * v
        return float(low * (1 - u) + high * u)

    def _decode_attention(self, decodes: int, keys: int) -> float:
        """GPU time of decode attention beside prefills."""
        if decodes not in self._beside:
            at = decodes * _grid(LONGEST_CONTEXT)
            m, zeros = np.full_like(at, decodes), np.zeros_like(at)
            cost = StepCost(self.served.decode, self.served.profile, FULL)
            ns = cost.times(Work(m, zeros, m, zeros, m, at)).device_ns
            ns -= cost.times(Work(m, zeros, m, zeros, zeros, zeros)).device_ns
            self._beside[decodes] = (at, ns)
        at, ns = self._beside[decodes]
        return float(np.interp(keys, at, ns))

    def _decode_line(self, decodes: int) -> tuple[list[int], list[float]]:
        """Keys, and the duration of a decode step over them."""
        sizes = self.served.decode_sizes
        place = bisect_left(sizes, decodes)
        replays = place < len(sizes)
        rows = sizes[place] if replays else decodes
        at = decodes * _grid(LONGEST_CONTEXT)
        m, zeros = np.full_like(at, decodes), np.zeros_like(at)
        dense = np.full_like(at, rows)
        backend = FULL if replays else self.served.fallback
        cost = StepCost(self.served.decode, self.served.profile, backend)
        ns = cost.times(Work(dense, zeros, dense, zeros, m, at)).ns
        return at.tolist(), (ns + self._kernel_ns(self.served.decode)).tolist()


def _grid(most: int) -> Ints:
    """1 to ``most``, ``PER_OCTAVE`` points a doubling."""
    points = 2.0 ** (np.arange(PER_OCTAVE * most.bit_length() + 1) / PER_OCTAVE)
    whole = np.rint(points).astype(np.int64)
    out: Ints = np.unique(np.minimum(whole, most))
    return out
