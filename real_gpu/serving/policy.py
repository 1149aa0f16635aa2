"""Which requests the next step computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """``chunk``: most tokens of a step that prefills; ``running``: most requests at once."""

    chunk: int
    running: int


@dataclass(frozen=True, slots=True)
class Choice:
    """``prefill``: prompt tokens of the first so many in order; ``decodes``: how many decode."""

    prefill: tuple[int, ...]
    decodes: int

    @property
    def empty(self) -> bool:
        """There is nothing to compute."""
        return not self.prefill and not self.decodes


Policy = Callable[[Sequence[int], Sequence[int], int, Limits], Choice]
"""Of the prompt tokens left of requests begun, those of requests that wait, and the decoding."""


def prefill_first(
    begun: Sequence[int], waiting: Sequence[int], decoding: int, limits: Limits
) -> Choice:
    """Prompts as long as there are any, then decode steps."""
    taken = _fill((*begun, *waiting), limits.chunk)
    return Choice(taken, 0 if taken else decoding)


def mixed(begun: Sequence[int], waiting: Sequence[int], decoding: int, limits: Limits) -> Choice:
    """All decodes, and prompts in what remains of the chunk."""
    return Choice(_fill((*begun, *waiting), limits.chunk - decoding), decoding)


def _fill(lengths: Sequence[int], room: int) -> tuple[int, ...]:
    """Tokens of each, in order, until the room is full."""
    out = []
    for length in lengths:
        if room <= 0:
            break
        out.append(min(length, room))
        room -= out[-1]
    return tuple(out)
