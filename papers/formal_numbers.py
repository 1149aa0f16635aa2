"""Numbers of the section about the formal model."""

from __future__ import annotations

from simcg.formal.invariants import INVARIANTS


def formal_numbers() -> dict[str, object]:
    """Counts of invariants."""
    return {"invariants": str(len(INVARIANTS))}
