"""What the steps of a model take on a GPU by part: dense ops, experts, attention, host."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.backend import COMPILED, EAGER, FULL, TC_PIECEWISE, CaptureBackend
from simcg.cost.kernels import Work
from simcg.cost.step import OpTimes, StepCost
from simcg.hardware.profile import HardwareProfile
from simcg.model.ops import ForwardPass

PER_OCTAVE = 6
"""Points a doubling of rows or keys, between which times are interpolated."""
MOST_ROWS = 1 << 15
MOST_CONTEXT = 1 << 15
MOST_LOGITS = 512


@dataclass(frozen=True)
class StepTables:
    """GPU time by part, in ns, of both forwards of one model on one profile; made when asked for.

    The parts add up, gaps between kernels included: a step's dense ops and experts depend on its
    rows, attention on who attends to what.
    """

    prefill: ForwardPass
    decode: ForwardPass
    profile: HardwareProfile
    _decode_attention: dict[int, tuple[list[int], list[float]]] = field(default_factory=dict)

    @cached_property
    def rows(self) -> Ints:
        """The rows at which dense ops and experts are tabulated."""
        return grid(MOST_ROWS)

    @cached_property
    def prefill_parts(self) -> tuple[Floats, Floats]:
        """Dense ops and experts of steps with prefills, over ``rows``."""
        return _parts(self.prefill, self.profile, self.rows)

    @cached_property
    def decode_parts(self) -> tuple[Floats, Floats]:
        """Dense ops and experts of steps of decodes alone, over ``rows``.

        All three engines run the shared expert of a decode step on a second stream, or as one more
        routed expert: the shorter of the two parts costs nothing.
        """
        dense, experts = _parts(self.decode, self.profile, self.rows)
        shared = _shared(self.decode, self.profile, self.rows)
        return dense - np.minimum(shared, experts), experts

    def at(self, parts: tuple[Floats, Floats], rows: int) -> tuple[float, float]:
        """Both parts at that many rows."""
        dense, experts = parts
        i = min(max(bisect_right(self._rows_list, rows), 1), len(self._rows_list) - 1)
        low, high = self._rows_list[i - 1], self._rows_list[i]
        u = (rows - low) / (high - low)
        return (
            float(dense[i - 1] + (dense[i] - dense[i - 1]) * u),
            float(experts[i - 1] + (experts[i] - experts[i - 1]) * u),
        )

    def prefill_attention(self, tokens: int, pairs: int) -> float:
        """Attention of prefill tokens that attend to ``pairs`` keys in all."""
        log_n, log_k, plane = self._plane
        at_n, at_k = float(np.log(tokens)), float(np.log(max(pairs / tokens, 1.0)))
        i = min(max(bisect_right(log_n, at_n), 1), len(log_n) - 1)
        j = min(max(bisect_right(log_k, at_k), 1), len(log_k) - 1)
        u = (at_n - log_n[i - 1]) / (log_n[i] - log_n[i - 1])
        v = (at_k - log_k[j - 1]) / (log_k[j] - log_k[j - 1])
        low = plane[i - 1][j - 1] * (1 - v) + plane[i - 1][j] * v
        high = plane[i][j - 1] * (1 - v) + plane[i][j] * v
        return low * (1 - u) + high * u

    def decode_attention(self, decodes: int, keys: int) -> float:
        """Attention of requests that add one token and attend to ``keys`` in all."""
        if decodes not in self._decode_attention:
            at = decodes * grid(MOST_CONTEXT)
            m, zeros = np.full_like(at, decodes), np.zeros_like(at)
            cost = StepCost(self.decode, self.profile, FULL)
            ns = cost.times(Work(m, zeros, m, zeros, m, at)).device_ns
            ns = ns - cost.times(Work(m, zeros, m, zeros, zeros, zeros)).device_ns
            self._decode_attention[decodes] = (at.tolist(), ns.astype(np.float64).tolist())
        known, times = self._decode_attention[decodes]
        j = min(max(bisect_right(known, keys), 1), len(known) - 1)
        share = (keys - known[j - 1]) / (known[j] - known[j - 1])
        return times[j - 1] + (times[j] - times[j - 1]) * share

    @cached_property
    def host_ns(self) -> dict[str, int]:
        """Host time of issuing a step with prefills, by backend."""
        return {b.name: self._issuing(b) for b in (EAGER, COMPILED, TC_PIECEWISE)}

    @cached_property
    def kernels(self) -> tuple[int, int]:
        """Kernels of a step with prefills, and of a decode step."""
        return _kernels(self.prefill), _kernels(self.decode)

    def _issuing(self, backend: CaptureBackend) -> int:
        one = np.ones(1, dtype=np.int64)
        return StepCost(self.prefill, self.profile, backend).times(Work(one, one, one, one)).host_ns

    @cached_property
    def _rows_list(self) -> list[int]:
        return self.rows.tolist()  # type: ignore[no-any-return]  # numpy says Any

    @cached_property
    def _plane(self) -> tuple[list[float], list[float], list[list[float]]]:
        """Logarithms of tokens and of mean keys, and the GPU time of prefill attention."""
        tokens, keys = grid(MOST_ROWS), grid(MOST_CONTEXT)
        n, k = (x.ravel() for x in np.meshgrid(tokens, keys, indexing="ij"))
        ones, zeros = np.ones_like(n), np.zeros_like(n)
        cost = StepCost(self.prefill, self.profile, FULL)
        ns = cost.times(Work(n, n, ones, n * k)).device_ns
        ns = ns - cost.times(Work(n, zeros, ones, zeros, zeros, zeros)).device_ns
        plane = ns.reshape(len(tokens), len(keys)).astype(np.float64)
        return np.log(tokens).tolist(), np.log(keys).tolist(), plane.tolist()


def grid(most: int) -> Ints:
    """1 to ``most``, ``PER_OCTAVE`` points a doubling."""
    points = 2.0 ** (np.arange(PER_OCTAVE * most.bit_length() + 1) / PER_OCTAVE)
    out: Ints = np.unique(np.minimum(np.rint(points).astype(np.int64), most))
    return out


def _parts(forward: ForwardPass, profile: HardwareProfile, rows: Ints) -> tuple[Floats, Floats]:
    """GPU time without attention and experts, and that of the experts."""
    zeros = np.zeros_like(rows)
    work = Work(rows, zeros, np.minimum(rows, MOST_LOGITS), zeros, zeros, zeros)
    times = OpTimes(profile, work)
    whole = StepCost(forward, profile, FULL).times_from(times).device_ns.astype(np.float64)
    distinct, order = forward.numbered
    experts = np.zeros(len(rows))
    for index, count in Counter(order).items():
        if distinct[index].part_of is not None:
            experts += count * times.of(distinct[index]).ns
    return whole - experts, experts


def _shared(forward: ForwardPass, profile: HardwareProfile, rows: Ints) -> Floats:
    """GPU time of the shared expert with its gaps."""
    zeros = np.zeros_like(rows)
    times = OpTimes(profile, Work(rows, zeros, rows, zeros, zeros, zeros))
    gap = profile.gaps.node.value
    distinct, order = forward.numbered
    out = np.zeros(len(rows))
    for index, count in Counter(order).items():
        op = distinct[index]
        if op.name.startswith("shared_"):
            out += count * (times.of(op).ns + gap * op.kernels)
    return out


def _kernels(forward: ForwardPass) -> int:
    distinct, order = forward.numbered
    return sum(distinct[index].kernels for index in order)
