"""How a run breaks an invariant, and what it takes to tell it as a story."""

from __future__ import annotations

from dataclasses import dataclass, field

from simcg.formal.invariants import INVARIANTS, Invariant


@dataclass(eq=False)
class Violation(Exception):  # noqa: N818  # an outcome of a check, not an error of the checker
    """An invariant does not hold. ``what``: one sentence on what was found and expected.

    ``op``: the operator in question as a line; "" for none. ``story``: what happened, step by step.
    """

    key: str
    what: str
    op: str = ""
    story: list[str] = field(default_factory=list)

    @property
    def invariant(self) -> Invariant:
        """Which invariant."""
        return INVARIANTS[self.key]

    def __str__(self) -> str:
        return f"{self.key} {self.invariant.name}: {self.what}"


class Refused(Exception):  # noqa: N818  # the capture says no: a result, not an error
    """A program that a backend does not capture, as a replay could not equal eager."""
