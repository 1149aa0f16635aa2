"""What a server counts while it runs: steps by size, busy time, gaps between tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

GAP_BITS = 7
"""Gaps fall into 128 classes an octave, so a quantile is off by at most 0.4 %."""


class Gaps:
    """A histogram of gaps between tokens, in ticks."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (128 << GAP_BITS)

    def add(self, ticks: int, count: int) -> None:
        """``count`` gaps of that length."""
        self.counts[gap_class(ticks)] += count

    def add_run(self, first: int, growth: int, steps: int, count: int) -> None:
        """``count`` gaps of each of ``first``, ``first + growth``, ..., ``steps`` of them."""
        low = gap_class(first)
        high = gap_class(first + growth * (steps - 1))
        done = 0
        for at in range(low, high):  # growth is above 0 where the classes differ
            below = min(steps, -((first - gap_start(at + 1)) // growth))
            self.counts[at] += (below - done) * count
            done = below
        self.counts[high] += (steps - done) * count


def gap_class(ticks: int) -> int:
    """The class of a gap: 128 equal parts of each octave."""
    shift = ticks.bit_length() - GAP_BITS - 1
    return ticks if shift <= 0 else (shift << GAP_BITS) + (ticks >> shift)


def gap_start(index: int) -> int:
    """The shortest gap of a class."""
    if index < 2 << GAP_BITS:
        return index
    shift = (index >> GAP_BITS) - 1
    return (index - (shift << GAP_BITS)) << shift


@dataclass(slots=True)
class Tally:
    """Counts since the start of the run.

    ``chunked[c][rows]``: steps with prefill tokens, by slot class and rows; ``decode[m]``: steps
    of m decodes alone. ``*_ticks``: their busy time. ``prefill_tokens``, ``mixed_decodes``: what
    steps with prefill tokens computed. ``held_by_cap``, ``held_by_cache``: how often a request had
    to wait as no more may run, or as the KV cache has no room for it.
    """

    chunked: list[list[int]]
    decode: list[int]
    chunked_ticks: int = 0
    decode_ticks: int = 0
    prefill_tokens: int = 0
    mixed_decodes: int = 0
    recomputed_tokens: int = 0
    preemptions: int = 0
    held_by_cap: int = 0
    held_by_cache: int = 0
    gaps: Gaps = field(default_factory=Gaps)
