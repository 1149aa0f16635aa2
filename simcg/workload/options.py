"""What a caller may say about an input file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simcg.errors import require
from simcg.workload.requests import MAX_TOKENS


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """``columns``: role to column name, dotted for a nested field, ``-`` for none.
    ``cache_tokens``: prefix-cache size, 0 for no cache, None
    for one without limit; only for inputs with block hashes. ``max_context``: longest prompt.
    ``skip_invalid``: rows that cannot be used are left out and counted in the source's text.
    """

    columns: Mapping[str, str] | None = None
    cache_tokens: int | None = None
    max_context: int | None = None
    skip_invalid: bool = False

    def __post_init__(self) -> None:
        size = self.cache_tokens
        require(size is None or size >= 0, "cache_tokens", "", size, "an integer >= 0, or None")
        most = self.max_context
        inside = most is None or 1 <= most <= MAX_TOKENS
        require(inside, "max_context", "", most, f"an integer from 1 to {MAX_TOKENS}, or None")

    @property
    def most_prompt_tokens(self) -> int:
        """The longest prompt that is accepted."""
        return MAX_TOKENS if self.max_context is None else self.max_context
