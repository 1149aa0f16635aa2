"""A mutant: one decision made wrongly, which stands for a class of bugs that people have met."""

from __future__ import annotations

from dataclasses import dataclass, field

from simcg.formal.program import Kind
from simcg.formal.rules import Rules


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong system.

    ``stands_for``: the bug, in a sentence. ``killers``: invariants that may say so.
    ``reports``: public reports of the class, as "project #number"; none found leaves it empty.
    ``kinds``, ``ops``: the operators of the smallest programs that show it. ``equivalent``: why no
    step can tell it from the correct system; "" for one that must be killed.
    """

    name: str
    stands_for: str
    rules: Rules
    killers: tuple[str, ...]
    kinds: tuple[Kind, ...]
    ops: int = 1
    reports: tuple[str, ...] = ()
    equivalent: str = ""
    modes: tuple[int, ...] = (0,)
    slotted: bool = field(default=False)
