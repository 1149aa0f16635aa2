"""A mutant: one decision made wrongly, which stands for a class of bugs that people have met."""

from __future__ import annotations

from dataclasses import dataclass

from simcg.formal.program import Kind, Program
from simcg.formal.rules import Rules
from simcg.formal.stage import Checks


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong system.

    ``stands_for``: the bug, in a sentence. ``killers``: invariants that may say so. ``reports``:
    public reports of the class, as "project #number: what happened"; none found leaves it empty.
    ``kinds``, ``ops``, ``breaks``, ``nested``: the smallest programs that show it, or ``programs``
    themselves; ``ladder``: (tokens, slots) of its buckets; ``guarded``: under a guard too;
    ``checks``: what to look at, in this order. ``equivalent``: why no check can tell it from the
    correct system; "" for one that must be killed.
    """

    name: str
    stands_for: str
    rules: Rules
    killers: tuple[str, ...]
    kinds: tuple[Kind, ...]
    ops: int = 1
    reports: tuple[str, ...] = ()
    equivalent: str = ""
    breaks: int = 1
    nested: bool = False
    programs: tuple[Program, ...] = ()
    ladder: tuple[tuple[int, int], ...] = ((1, 1), (3, 2))
    guarded: bool = False
    checks: tuple[Checks, ...] = ("steps",)
