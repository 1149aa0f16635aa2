"""Steps: what the scheduler runs, as columns; the exact counts that a ladder is chosen for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Ints
from simcg.errors import require


@dataclass(frozen=True, slots=True)
class Steps:
    """Prefill steps as equal-length int64 columns, one row a step (or a counted kind of step).

    ``tokens`` n >= 1, ``requests`` m >= 1, ``context`` cached tokens attended to (summed over
    the requests), ``pairs`` query-key pairs of causal attention, ``count`` >= 1 how often.
    ``start_ns`` is each step's start in ascending order, None for steps without a time axis.
    ``source`` says where they come from.
    """

    tokens: Ints
    requests: Ints
    context: Ints
    pairs: Ints
    count: Ints
    start_ns: Ints | None
    source: str

    def __post_init__(self) -> None:
        columns = (self.tokens, self.requests, self.context, self.pairs, self.count)
        lengths = {len(c) for c in columns}
        require(len(lengths) == 1, "Steps", "columns", sorted(lengths), "equal lengths")
        require(len(self.tokens) > 0, "Steps", "rows", 0, "at least one step")
        for name, column, least in (
            ("tokens", self.tokens, 1),
            ("requests", self.requests, 1),
            ("context", self.context, 0),
            ("pairs", self.pairs, 0),
            ("count", self.count, 1),
        ):
            smallest = int(column.min())
            require(smallest >= least, "Steps", name, smallest, f"integers >= {least}")

    def __repr__(self) -> str:
        return f"Steps({self.total} steps: {self.source})"

    @property
    def total(self) -> int:
        """Number of steps."""
        return int(self.count.sum())

    def weights(self, max_tokens: int) -> Ints:
        """How many steps have exactly n tokens, for n = 0..max_tokens (int64, index = n)."""
        largest = int(self.tokens.max())
        require(largest <= max_tokens, "Steps", "tokens", largest, f"at most {max_tokens}")
        out = np.zeros(max_tokens + 1, dtype=np.int64)
        np.add.at(out, self.tokens, self.count)
        return out
