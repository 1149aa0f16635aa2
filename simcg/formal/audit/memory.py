"""Who wrote each byte last, over all addresses."""

from __future__ import annotations

import numpy as np

from simcg.formal.audit.runs import Runs

NOBODY = 0
"""The number of no write: memory as it was before the replay."""


class Memory:
    """Maps addresses to the numbers of writes, in pieces of one number each.

    A piece reaches from its edge to the next one; the last has no end.
    """

    def __init__(self) -> None:
        self._edges = np.array([0], dtype=np.int64)
        self._numbers = np.array([NOBODY], dtype=np.int64)

    def read(self, runs: Runs) -> list[tuple[int, int]]:
        """(number, first address with it) of every number in the runs, by address."""
        low = np.searchsorted(self._edges, runs.starts, side="right") - 1
        high = np.searchsorted(self._edges, runs.ends, side="left")
        counts = high - low
        before = np.repeat(low - (np.cumsum(counts) - counts), counts)
        pieces = before + np.arange(int(counts.sum()))
        numbers, first = np.unique(self._numbers[pieces], return_index=True)
        begins = np.maximum(self._edges[pieces], np.repeat(runs.starts, counts))[first]
        found = [(int(n), int(a)) for n, a in zip(numbers, begins, strict=True)]
        return sorted(found, key=lambda pair: pair[1])

    def write(self, runs: Runs, number: int) -> None:
        """From now on the runs have that number."""
        if not len(runs):
            return
        after = self._numbers[np.searchsorted(self._edges, runs.ends, side="right") - 1]
        run = np.searchsorted(runs.starts, self._edges, side="right") - 1
        outside = (run < 0) | (self._edges > runs.ends[run])
        edges = np.concatenate([self._edges[outside], runs.starts, runs.ends])
        numbers = np.concatenate(
            [self._numbers[outside], np.full(len(runs), number, dtype=np.int64), after]
        )
        order = np.argsort(edges, kind="stable")
        edges, numbers = edges[order], numbers[order]
        changes = np.append(True, numbers[1:] != numbers[:-1])
        self._edges, self._numbers = edges[changes], numbers[changes]

    def written(self) -> Runs:
        """Everything that was written."""
        touched = np.append(self._numbers != NOBODY, False)
        changes = np.flatnonzero(touched[1:] != touched[:-1]) + 1
        if touched[0]:
            changes = np.append(0, changes)
        edges = self._edges[changes]
        return Runs(edges[::2], edges[1::2])
