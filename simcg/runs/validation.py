"""Everything that ``simcg validate`` says of some runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from simcg.errors import Finding, require
from simcg.hardware.match import profile_matches
from simcg.hardware.profile import HardwareProfile
from simcg.runs.compare import Comparison, compare
from simcg.runs.decide import Decision, decisions
from simcg.runs.limits import (
    Check,
    accuracy_checks,
    bit_checks,
    decision_checks,
    error_checks,
    peer_checks,
    pool_checks,
    serving_checks,
)
from simcg.runs.order import Order, orders
from simcg.runs.read import Runs, join
from simcg.runs.schema import EqualityCell, InvarianceCell, MemoryCell, PeerCell, StepCell
from simcg.runs.serving import ServingComparison, compare_serving, served_runs


@dataclass(frozen=True, slots=True)
class Validation:
    """Predictions held against runs."""

    runs: tuple[Runs, ...]
    profile: HardwareProfile
    comparison: Comparison
    decisions: tuple[Decision, ...]
    orders: tuple[Order, ...]
    serving: tuple[ServingComparison, ...]
    checks: tuple[Check, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What stands between these runs and this profile."""
        found = []
        for runs in self.runs:
            where = runs.header.environment
            if where.device == "cpu":
                found.append(
                    f"{runs.source}: runs of the CPU device, whose figures are not held against "
                    f"profile {self.profile.name}; only bits are compared"
                )
            elif (other := profile_matches(self.profile, where.gpu)) is not None:
                found.append(f"{runs.source}: {other}")
        return tuple(found)

    @property
    def passed(self) -> bool:
        """Every stated limit holds."""
        return all(check.holds for check in self.checks)


def validate(many: Sequence[Runs], profile: HardwareProfile) -> Validation:
    """Runs against predictions and stated limits; raises ``InputError`` for a file given twice.

    Figures of the CPU device are held against nothing; bits are bits, so its equalities count.
    """
    for one, other in combinations(many, 2):
        same = one.header == other.header and one.lines == other.lines
        require(not same, "RUNS", other.source, Finding(f"{one.source} again"), "each file once")
    gpu = [runs for runs in many if runs.header.environment.device == "cuda"]
    compared = compare(gpu, profile)
    found = [one for runs in gpu for one in decisions(runs, profile)]
    order = orders(join(gpu, StepCell))
    for runs in many:
        served_runs(runs)  # rows that belong to nothing are wrong on any device
    serving = [one for runs in gpu for one in compare_serving(runs, profile)]
    checks = [
        *accuracy_checks(compared.errors),
        *bit_checks(join(many, StepCell), join(many, EqualityCell), join(many, PeerCell)),
        *error_checks(join(gpu, EqualityCell), join(gpu, InvarianceCell)),
        *pool_checks(join(gpu, MemoryCell)),
        *peer_checks(join(gpu, PeerCell)),
        *decision_checks(found),
        *serving_checks(serving),
    ]
    if any(one.launch_bound for one in order):
        bad = [f"{o.model} {o.faster} over {o.slower}" for o in order if not o.holds]
        text = "; ".join(bad) or "as expected"
        checks.append(Check("order of speed where launch-bound", text, "as expected", not bad))
    return Validation(
        tuple(many), profile, compared, tuple(found), tuple(order), tuple(serving), tuple(checks)
    )
