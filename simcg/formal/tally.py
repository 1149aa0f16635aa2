"""What an exploration has seen: counts, which add up over programs and processes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from simcg.formal.invariants import INVARIANTS
from simcg.formal.violation import Violation

Counts = Counter[str]


@dataclass(slots=True)
class Tally:
    """``counts``: programs, settings, steps and the like by name; ``witnesses``: by invariant, how
    often its premise occurred; ``failed``: the first violation in the order of exploration.
    """

    counts: Counts = field(default_factory=Counter)
    witnesses: Counts = field(default_factory=Counter)
    failed: Violation | None = None
    cpu_ns: int = 0

    def add(self, other: Tally) -> None:
        """Take in what was seen after this."""
        self.counts += other.counts
        self.witnesses += other.witnesses
        self.failed = self.failed or other.failed
        self.cpu_ns += other.cpu_ns

    def lacking(self) -> list[str]:
        """The invariants whose premise never occurred."""
        return [key for key in INVARIANTS if not self.witnesses[key]]
