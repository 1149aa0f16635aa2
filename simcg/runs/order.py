"""Which backend is the faster one, and up to which size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from simcg.runs.schema import StepCell

EXPECTED = (("full", ""), ("breakable", ""), ("tc_piecewise", "eager"), ("eager", ""))
"""Fastest first, where launches are what a step waits for."""


@dataclass(frozen=True, slots=True)
class Order:
    """Two backends of one model and number of requests, at the sizes that both ran.

    ``launch_bound``: sizes at which eager waited for the host; ``wrong``: the sizes at which the
    one expected to be faster took longer than the other by more than both repeat floors.
    """

    model: str
    requests: int
    faster: str
    slower: str
    sizes: tuple[int, ...]
    launch_bound: tuple[int, ...]
    wrong: tuple[int, ...]

    @property
    def holds(self) -> bool:
        """At every launch-bound size."""
        return not set(self.wrong) & set(self.launch_bound)


def orders(cells: Sequence[StepCell]) -> list[Order]:
    """Each neighbouring pair of ``EXPECTED`` that was measured, per model and requests."""
    by: dict[tuple[str, int, str, str], dict[int, StepCell]] = {}
    for cell in cells:
        key = (cell.model, cell.requests, cell.backend, cell.compiler)
        by.setdefault(key, {})[cell.tokens] = cell
    out = []
    for model, requests in dict.fromkeys((c.model, c.requests) for c in cells):
        eager = by.get((model, requests, "eager", ""), {})
        bound = tuple(sorted(n for n, cell in eager.items() if not cell.gpu_bound))
        ran = [key for key in EXPECTED if (model, requests, *key) in by]
        for fast, slow in pairwise(ran):
            one, two = by[model, requests, *fast], by[model, requests, *slow]
            sizes = tuple(sorted(one.keys() & two.keys()))
            wrong = tuple(n for n in sizes if _longer(one[n], two[n]))
            out.append(Order(model, requests, fast[0], slow[0], sizes, bound, wrong))
    return out


def _longer(one: StepCell, two: StepCell) -> bool:
    return one.ns - two.ns > one.floor * one.ns + two.floor * two.ns
