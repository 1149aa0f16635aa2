"""What a run of cases covered, and the table of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from simcg.formal.program import KINDS, ONLY_AS_BREAK

WHERE = ("exact", "padded", "fallback")
BACKEND_NAMES = ("eager", "full", "breakable", "tc_piecewise")
Covered = Counter[tuple[str, str, str]]
"""How often (operator, backend, exact | padded | fallback) was checked, in steps."""


@dataclass(slots=True)
class Report:
    """Counts of a run. A case is one program with its captures and one trace of steps.

    ``steps``: triples of program, batch and what ran before it. ``poison``: replays after each
    kind. ``reasons``: of fallbacks. ``refused``: cases whose captures both sides refuse;
    ``unseen``: those where the model refuses what a backend cannot see is wrong.
    """

    covered: Covered = field(default_factory=Counter)
    poison: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    steps: int = 0
    refused: int = 0
    unseen: int = 0

    def add(self, other: Report) -> None:
        """Count another run's too."""
        self.covered += other.covered
        self.poison += other.poison
        self.reasons += other.reasons
        self.cases += other.cases
        self.steps += other.steps
        self.refused += other.refused
        self.unseen += other.unseen

    def least(self, backend: str) -> int:
        """Steps of the operator and way that this backend was checked least in."""
        return min(
            self.covered[kind, backend, where]
            for kind in KINDS
            for where in WHERE
            if replays(kind, backend) or where == "fallback"
        )

    def lines(self) -> list[str]:
        """The report as a person reads it."""
        names = [name for name in BACKEND_NAMES if any(key[1] == name for key in self.covered)]
        heads = "".join(f"{name:>26}" for name in names)
        lines = [
            f"{'':10}{heads}",
            f"{'operator':10}" + f"{'exact/padded/fallback':>26}" * len(names),
        ]
        for kind in KINDS:
            cells = ["/".join(self._cell(kind, name, where) for where in WHERE) for name in names]
            lines.append(f"{kind:10}" + "".join(f"{cell:>22}" for cell in cells))
        return [
            *lines,
            f"{self.cases} cases (program, captures, trace); {self.steps} steps checked",
            "free pool memory and padding before replays: " + _listed(self.poison),
            "fallbacks: " + _listed(self.reasons),
            f"captures refused by both sides: {self.refused - self.unseen}; by the model alone, as "
            f"no recording shows an unmasked mix of rows: {self.unseen}",
        ]

    def _cell(self, kind: str, backend: str, where: str) -> str:
        if where != "fallback" and not replays(kind, backend):
            return "-"
        return str(self.covered[kind, backend, where])


def replays(kind: str, backend: str) -> bool:
    """Whether a graph of that backend may have the operator in it or between its segments."""
    return backend != "full" or kind not in ONLY_AS_BREAK


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
