"""The bytes of a region as runs of addresses: what a strided tensor leaves out is no part of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simcg.formal.recording import Region

Addresses = npt.NDArray[np.int64]

MOST_RUNS = 1 << 18
"""A region of more is taken for all its bytes, and what it writes for what it may write."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Ascending, disjoint half-open runs that do not touch; not ``exact``: gaps are among them."""

    starts: Addresses
    ends: Addresses
    exact: bool = True

    def __len__(self) -> int:
        return len(self.starts)


def runs_of(region: Region, base: int) -> Runs:
    """The runs of a region whose storage begins at address ``base``."""
    first = base + region.offset
    whole = np.array([first], dtype=np.int64), np.array([first + region.bytes], dtype=np.int64)
    if not region.shape:
        return Runs(*whole)
    length, outer = _innermost(region)
    if math.prod(size for size, _ in outer) > MOST_RUNS:
        return Runs(*whole, exact=False)
    starts = np.array([first], dtype=np.int64)
    for size, stride in outer:
        steps = np.arange(size, dtype=np.int64) * stride
        starts = (steps[:, None] + starts[None, :]).ravel()
    return _merged(np.sort(starts), length)


def common(one: Runs, other: Runs) -> Runs:
    """The addresses in both."""
    low = np.searchsorted(other.ends, one.starts, side="right")
    high = np.searchsorted(other.starts, one.ends, side="left")
    counts = np.maximum(high - low, 0)
    mine = np.repeat(np.arange(len(one)), counts)
    theirs = np.repeat(low - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    starts = np.maximum(one.starts[mine], other.starts[theirs])
    return Runs(starts, np.minimum(one.ends[mine], other.ends[theirs]), one.exact and other.exact)


def _innermost(region: Region) -> tuple[int, list[tuple[int, int]]]:
    """Bytes without a gap, and the (size, stride) of the dimensions that repeat them."""
    length = region.item_bytes
    outer: list[tuple[int, int]] = []
    for stride, size in sorted(zip(region.strides, region.shape, strict=True)):
        if stride <= length and not outer:
            length += (size - 1) * stride
        else:
            outer.append((size, stride))
    return length, outer


def _merged(starts: Addresses, length: int) -> Runs:
    """Runs of that length, joined where they touch or overlap."""
    begins = np.empty(len(starts), dtype=bool)
    begins[0] = True
    np.greater(starts[1:], starts[:-1] + length, out=begins[1:])
    last = np.append(np.flatnonzero(begins)[1:] - 1, len(starts) - 1)
    return Runs(starts[begins], starts[last] + length)
