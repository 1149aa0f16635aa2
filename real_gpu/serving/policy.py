"""Which requests the next step computes: the simulator's policies, asked for one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simcg.des.serving.policy import Policy, shortened


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


def choose(
    policy: Policy, chunk: int, left: Sequence[int], decoding: int, more: bool = False
) -> Choice:
    """The step that a policy takes.

    ``left``: prompt tokens that are not computed yet, of the requests that have a place, in order
    of arrival; ``decoding``: requests that decode; ``more``: others wait for a place.
    """
    waiting, room = sum(left), policy.room(chunk, decoding)
    tokens = min(waiting, room)
    if tokens > 0 and (tokens < waiting or more):
        tokens = policy.cut(tokens, decoding)
    prefill = tuple(shortened(left, tokens))
    return Choice(prefill, decoding if policy.mixes or not prefill else 0)
