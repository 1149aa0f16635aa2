"""Requests: what clients send, as columns; the traffic before a scheduler makes steps of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Ints
from simcg.errors import require

MAX_TOKENS = 1 << 24
"""Most tokens one request may have: beyond every published context, and pairs stay in int64."""

MAX_TIME_NS = 1 << 62
"""Times stay within +-146 years, so that sums and differences of two fit int64."""


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Requests in order of arrival as equal-length int64 columns, one row a request.

    ``arrival_ns`` >= 0 counts from the first request and never falls; None: no time axis.
    ``prompt_tokens`` >= 1 includes ``cached_tokens`` >= 0, the prefix found in the cache, which
    is smaller: an engine computes at least one token. ``output_tokens`` 0 means unknown.
    ``source`` says where they come from.
    """

    arrival_ns: Ints | None
    prompt_tokens: Ints
    cached_tokens: Ints
    output_tokens: Ints
    source: str

    def __post_init__(self) -> None:
        columns = [self.prompt_tokens, self.cached_tokens, self.output_tokens]
        if self.arrival_ns is not None:
            columns.append(self.arrival_ns)
        types = sorted({str(c.dtype) for c in columns})
        require(types == ["int64"], "Requests", "columns", types, "int64")
        lengths = sorted({len(c) for c in columns})
        require(len(lengths) == 1, "Requests", "columns", lengths, "equal lengths")
        require(lengths[0] > 0, "Requests", "rows", 0, "at least one request")
        for name, column, least in (
            ("prompt_tokens", self.prompt_tokens, 1),
            ("cached_tokens", self.cached_tokens, 0),
            ("output_tokens", self.output_tokens, 0),
        ):
            low, high = int(column.min()), int(column.max())
            require(low >= least, "Requests", name, low, f"integers >= {least}")
            require(high <= MAX_TOKENS, "Requests", name, high, f"integers <= {MAX_TOKENS}")
        fewest = int(self.new_tokens.min())
        require(fewest >= 1, "Requests", "cached_tokens", fewest, "fewer than prompt_tokens")
        if self.arrival_ns is not None:
            first, last = int(self.arrival_ns[0]), int(self.arrival_ns[-1])
            inside = first >= 0 and last < MAX_TIME_NS
            require(inside, "Requests", "arrival_ns", (first, last), "0 to 2**62")
            ascending = bool((np.diff(self.arrival_ns) >= 0).all())
            require(ascending, "Requests", "arrival_ns", "a falling time", "ascending times")

    def __repr__(self) -> str:
        return f"Requests({len(self)} requests: {self.source})"

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @property
    def new_tokens(self) -> Ints:
        """Tokens of each prompt that are computed: prompt minus cached (int64)."""
        return self.prompt_tokens - self.cached_tokens
