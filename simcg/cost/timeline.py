"""The step timeline as a max-plus linear map, vectorised over batches.

Item i costs the host a_i to issue and the GPU d_i to run after a gap g_i; l is the launch latency:

    h_i = h_{i-1} + a_i        end_i = max(end_{i-1} + g_i, h_i + l) + d_i

On (h, end) this is h' = h + A, end' = max(end + D, h + B), and such maps compose. Equal runs of
items are powers, which have a closed form, so 94 equal layers cost no more than one.

The launch queue's back-pressure is left out: with a queue of depth Q, h_i >= start_{i-Q} as well.
That changes no start exactly if, without it, start_j >= start_{i-Q} + a_{i+1} + .. + a_j + l for
all j >= i >= Q: the GPU works on what is queued for as long as the host needs to catch up. Equal
layers that fit the queue meet it; what would end later is a step that first fills the queue and
then becomes host-bound.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from simcg.arrays import Ints

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class MaxPlus:
    """A: host time; B: from the host's clock to the GPU's; D: GPU time, gaps included (ns)."""

    host: int
    cross: Ints
    device: Ints

    def then(self, later: MaxPlus) -> MaxPlus:
        """This map, followed by ``later``."""
        return MaxPlus(
            self.host + later.host,
            np.maximum(self.cross + later.device, self.host + later.cross),
            self.device + later.device,
        )

    def power(self, times: int) -> MaxPlus:
        """This map ``times`` >= 1 times in a row.

        A path crosses to the GPU once, in one of the repeats, and what it takes is linear in
        which: so the longest crosses in the last one (all host) or in the first (all GPU).
        """
        if times < 1:
            raise ValueError("a map to the power 0 has no size")
        more = times - 1
        return MaxPlus(
            self.host * times,
            self.cross + more * np.maximum(self.host, self.device),
            self.device * times,
        )

    def end(self) -> Ints:
        """When the last kernel ends, from an idle start at 0."""
        return np.maximum(self.device, self.cross)


def item(host_ns: int, gap_ns: int, latency_ns: int, duration_ns: Ints) -> MaxPlus:
    """The map of one item of the recurrence."""
    return MaxPlus(host_ns, host_ns + latency_ns + duration_ns, gap_ns + duration_ns)


def fold_repeats(keys: Sequence[K]) -> list[tuple[tuple[K, ...], int]]:
    """The sequence as (unit, times) runs: greedily the unit that covers most by repeating.

    Concatenating each unit ``times`` times gives ``keys`` back.
    """
    runs: list[tuple[tuple[K, ...], int]] = []
    at, end = 0, len(keys)
    while at < end:
        best, best_cover = 1, 1
        for period in range(1, (end - at) // 2 + 1):
            if keys[at] != keys[at + period]:
                continue
            if period < best_cover and period % best == 0:
                continue  # inside the best run a multiple of its period covers no more
            unit = keys[at : at + period]
            stop = at + period
            while keys[stop : stop + period] == unit:
                stop += period
            if stop - at > max(best_cover, period):
                best, best_cover = period, stop - at
        runs.append((tuple(keys[at : at + best]), best_cover // best))
        at += best_cover
    return runs


def compose(runs: Sequence[tuple[Sequence[K], int]], maps: dict[K, MaxPlus]) -> MaxPlus:
    """The map of all runs in order."""
    out: MaxPlus | None = None
    for unit, times in runs:
        body: MaxPlus | None = None
        for key in unit:
            body = maps[key] if body is None else body.then(maps[key])
        if body is not None:
            body = body.power(times)
            out = body if out is None else out.then(body)
    if out is None:
        raise ValueError("a step without items has no timeline")
    return out
