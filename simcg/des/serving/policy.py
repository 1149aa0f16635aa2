"""Scheduler policies: how much of what waits a step takes, and whether decodes share it.

Free of the simulator, so that a real server may run the same code.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from simcg.errors import InputError


@dataclass(frozen=True, slots=True)
class Policy:
    """One way to fill steps; requests are always taken first come, first served.

    ``mixes``: decodes come first and prefills fill what is left of the chunk (vLLM v1; SGLang
    with mixed chunks). Otherwise what waits is prefilled before decodes go on, in steps of its
    own (SGLang's default). ``edges``: rows at which a bucket ends; while more waits than a step
    takes, its last chunk ends at the largest edge that fits, so that nothing is padded. ():
    chunks are as long as they can be, as in both engines. ``prices``: duration of a step by its
    rows in any unit, index 0 unused. With them a chunk is cut only where that pays: while more
    waits, if the shorter step computes more tokens a second; else if it and the rest in a step
    of its own take less time together.
    """

    name: str
    mixes: bool
    edges: tuple[int, ...] = ()
    prices: tuple[int, ...] = ()

    def room(self, chunk: int, decodes: int) -> int:
        """Most prefill tokens of a step beside ``decodes`` running requests."""
        return chunk - decodes if self.mixes else chunk

    def cut(self, tokens: int, decodes: int, *, more: bool = True) -> int:
        """How many of ``tokens`` prefill tokens to take; ``more``: further tokens wait.

        ``tokens`` itself without edges, where no bucket is small enough and where cutting does
        not pay.
        """
        beside = decodes if self.mixes else 0
        rows = tokens + beside
        at = bisect_right(self.edges, rows)
        if not at or self.edges[at - 1] <= beside or self.edges[at - 1] == rows:
            return tokens
        edge = self.edges[at - 1]
        if not self.prices:
            return edge - beside if more else tokens
        short, full = self.prices[edge], self.prices[rows]
        if more:
            pays = short * tokens < full * (edge - beside)
        else:
            pays = short + self.prices[rows - edge + beside] < full
        return edge - beside if pays else tokens

    def ending_at(self, edges: Sequence[int]) -> Policy:
        """The same policy with chunks that end at bucket edges."""
        return replace(self, name=f"{self.name}, bucket edges", edges=tuple(sorted(edges)))


PREFILL_FIRST = Policy("prefill-first", mixes=False)
MIXED = Policy("mixed", mixes=True)
POLICIES = ("prefill-first", "mixed", "bucket-edge", "bucket-edge-mixed")


def policy_named(name: str, edges: Sequence[int]) -> Policy:
    """The policy of that name; ``edges`` are the sizes of the prefill ladder.

    Raises ``InputError`` for a name that there is not.
    """
    if name not in POLICIES:
        raise InputError("policy", "", name, "one of " + ", ".join(POLICIES))
    plain = MIXED if name.endswith("mixed") else PREFILL_FIRST
    return plain.ending_at(edges) if name.startswith("bucket-edge") else plain


def shortened(chunks: Sequence[int], tokens: int) -> list[int]:
    """The first ``tokens`` of these chunks: the last ones are cut or left out."""
    out: list[int] = []
    for chunk in chunks:
        take = min(chunk, tokens)
        if take <= 0:
            break
        out.append(take)
        tokens -= take
    return out
