"""All static checks of the recordings in one file, and the verdict on each invariant."""

from __future__ import annotations

from dataclasses import dataclass

from simcg.formal.audit.baked import BakedValue, check_baked
from simcg.formal.audit.finding import SEVERITY, Finding, Verdict, together
from simcg.formal.audit.flow import played
from simcg.formal.audit.order import check_order
from simcg.formal.audit.outside import check_outside
from simcg.formal.recording import Failure, Recordings, require_captures

CHECKED = (
    "I1", "I2", "I3", "I4", "I5", "I6", "I11", "I12", "I13", "I14", "I16", "I17", "I21",
)  # fmt: skip
"""The invariants that a recording can violate, by key."""


@dataclass(frozen=True, slots=True)
class Report:
    """``findings``, worst first; ``cases``: how often each invariant's premise occurred.

    ``baked``: how many host values and places in memory launches bake in; ``undecided``: those of
    which no recording decides whether a replay may have them. ``failed``: captures that failed.
    """

    findings: tuple[Finding, ...]
    cases: dict[str, int]
    baked: int
    undecided: tuple[BakedValue, ...]
    failed: tuple[Failure, ...] = ()

    @property
    def violated(self) -> bool:
        """Whether any replay is wrong."""
        return any(finding.verdict == "violated" for finding in self.findings)

    def of(self, invariant: str) -> tuple[Finding, ...]:
        """The findings on one invariant."""
        return tuple(f for f in self.findings if f.invariant == invariant)

    def verdict(self, invariant: str) -> Verdict | None:
        """The worst verdict on it; None where it holds, as far as a recording can show."""
        verdicts = {finding.verdict for finding in self.of(invariant)}
        if invariant == "I17" and self.undecided:
            verdicts.add("not decided")
        return next((verdict for verdict in SEVERITY if verdict in verdicts), None)


def check(recordings: Recordings) -> Report:
    """Check every capture by itself, and those of a file against each other.

    ``SimcgError`` where there is none.
    """
    require_captures(recordings, "audit")
    replays = [played(recording, n) for n, recording in enumerate(recordings.captures)]
    for replay in replays:
        check_order(replay)
    check_outside(replays)
    undecided = tuple(check_baked(replays))
    cases = {key: sum(replay.cases.get(key, 0) for replay in replays) for key in CHECKED}
    findings = together(finding for replay in replays for finding in replay.findings)
    return Report(findings, cases, cases["I17"], undecided, recordings.failed)
