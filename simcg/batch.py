"""A batch: the requests of one forward step."""

from __future__ import annotations

from dataclasses import dataclass

from simcg.errors import require


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's requests: new tokens and cached context of each, in order.

    ``query_tokens[i] >= 1`` tokens of request ``i`` are computed in this step, after
    ``context_tokens[i] >= 0`` tokens whose keys and values are already cached.
    """

    query_tokens: tuple[int, ...]
    context_tokens: tuple[int, ...]

    def __post_init__(self) -> None:
        require(len(self.query_tokens) > 0, "Batch", "query_tokens", self.query_tokens, "a request")
        require(
            len(self.query_tokens) == len(self.context_tokens),
            "Batch", "context_tokens", self.context_tokens, "one entry per request",
        )  # fmt: skip
        for tokens in self.query_tokens:
            require(tokens >= 1, "Batch", "query_tokens", tokens, "an integer >= 1")
        for tokens in self.context_tokens:
            require(tokens >= 0, "Batch", "context_tokens", tokens, "an integer >= 0")

    @property
    def num_tokens(self) -> int:
        """Rows of the dense ops: n."""
        return sum(self.query_tokens)

    @property
    def num_requests(self) -> int:
        """Sequences: m."""
        return len(self.query_tokens)

    @property
    def pairs(self) -> int:
        """Query-key pairs of causal attention: sum of q*context + q(q+1)/2."""
        both = zip(self.query_tokens, self.context_tokens, strict=True)
        return sum(q * c + q * (q + 1) // 2 for q, c in both)
