"""A step of the formal model: which requests, how far each is, and what the host knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from simcg.errors import require


@dataclass(frozen=True, slots=True)
class Request:
    """``query`` tokens of one sequence, after ``context`` that are in its cache row.

    ``row``: its place in the cache and among the states; ``name`` tells sequences that held the
    same row one after the other apart.
    """

    row: int
    name: int
    context: int
    query: int

    def __post_init__(self) -> None:
        require(self.query >= 1, "Request", "query", self.query, "an integer >= 1")
        require(self.context >= 0, "Request", "context", self.context, "an integer >= 0")
        require(self.row >= 0, "Request", "row", self.row, "an integer >= 0")

    @property
    def length(self) -> int:
        """Tokens in the cache after the step."""
        return self.context + self.query

    def __str__(self) -> str:
        tokens = " ".join(f"s{self.name}[{p}]" for p in range(self.context, self.length))
        return f"{tokens} of sequence {self.name} in row {self.row}"


@dataclass(frozen=True)
class Step:
    """One batch, in order. ``mode``: a host scalar of some launches, such as a phase."""

    requests: tuple[Request, ...]
    mode: int = 0

    def __post_init__(self) -> None:
        rows = [request.row for request in self.requests]
        require(bool(rows), "Step", "requests", self.requests, "at least one request")
        require(len(set(rows)) == len(rows), "Step", "requests", rows, "different rows")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.requests, self.mode))

    @cached_property
    def tokens(self) -> int:
        """n: real rows."""
        return sum(request.query for request in self.requests)

    @cached_property
    def longest(self) -> int:
        """The most tokens that one request has in the cache after the step."""
        return max(request.length for request in self.requests)

    def __str__(self) -> str:
        parts = [str(request) for request in self.requests]
        scalar = [f"host scalar {self.mode}"] if self.mode else []
        return ", ".join(parts + scalar)
