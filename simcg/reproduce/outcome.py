"""The reproduction: every published value beside its simulation, its error and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from simcg.reproduce.cases import FITTED, INPUTS, Simulation, cases
from simcg.reproduce.fit import Fit, fit
from simcg.reproduce.follows import FOLLOWS
from simcg.reproduce.parameters import BOUNDS, Parameters
from simcg.reproduce.published import Published, published_rows
from simcg.reproduce.reasons import CAUSES, CHANGED, NOT_SIMULATED
from simcg.reproduce.simulator import Simulator

Kind = Literal["fitted", "predicted", "draft", "input", "not simulated"]

FITTED_LIMIT = 0.03
PREDICTED_MEDIAN_LIMIT = 0.08
PREDICTED_WORST_LIMIT = 0.20
NUDGE = 0.10
"""Sensitivities are logarithmic differences to parameters that much larger."""
NOTICED = 0.005
"""A value rests on a parameter if 1 % of it changes the value by this share of 1 %."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One published value. ``error``: relative, None without simulation.

    ``sensitivity``: d log simulated / d log parameter by parameter, where noticeable.
    ``note``: why the value is missed by more than the median target, or why it is not simulated.
    ``changed``: what was changed in the model after the first comparison with the value.
    ``follows``: of which other rows it is arithmetic, or that it cannot miss; "" if neither.
    """

    published: Published
    kind: Kind
    simulated: float | None = None
    error: float | None = None
    sensitivity: tuple[tuple[str, float], ...] = ()
    note: str = ""
    changed: str = ""
    follows: str = ""

    @property
    def rests_on(self) -> tuple[str, ...]:
        """The fitted parameters that the value depends on."""
        return tuple(name for name, _ in self.sensitivity)


@dataclass(frozen=True, slots=True)
class Reproduction:
    """All outcomes in the order of the published file, and the fit they rest on."""

    fit: Fit
    outcomes: tuple[Outcome, ...]

    def of_kind(self, kind: Kind) -> tuple[Outcome, ...]:
        """The outcomes of that kind."""
        return tuple(outcome for outcome in self.outcomes if outcome.kind == kind)

    @property
    def independent(self) -> tuple[Outcome, ...]:
        """The predictions that are no arithmetic of other rows and can miss."""
        return tuple(outcome for outcome in self.of_kind("predicted") if not outcome.follows)

    @property
    def beside_memory(self) -> tuple[Outcome, ...]:
        """The independent ones without rows M, most of them neighbours: two models' memory."""
        return tuple(one for one in self.independent if not one.published.id.startswith("M"))

    @property
    def targets(self) -> tuple[tuple[str, float, float], ...]:
        """(what, reached, limit) of each target."""
        fitted, predicted = errors(self.of_kind("fitted")), errors(self.independent)
        return (
            ("fitted values, worst", max(fitted), FITTED_LIMIT),
            ("independent predictions, median", median(predicted), PREDICTED_MEDIAN_LIMIT),
            ("independent predictions, worst", max(predicted), PREDICTED_WORST_LIMIT),
        )


def errors(outcomes: Sequence[Outcome]) -> list[float]:
    """Absolute relative errors, one a simulated value."""
    return [abs(outcome.error) for outcome in outcomes if outcome.error is not None]


def reproduce(rows: Sequence[Published] = published_rows()) -> Reproduction:
    """Fit the parameters to the rows that may be fitted, and simulate everything else."""
    simulations, solved = cases(), solve(rows)
    return Reproduction(
        solved, tuple(_outcome(row, simulations.get(row.id), solved.parameters) for row in rows)
    )


def solve(rows: Sequence[Published] = published_rows()) -> Fit:
    """The parameters that meet the rows that may be fitted; the built-in gb300 carries them."""
    simulations = cases()
    targets = {row.id: row.low for row in rows if row.id in FITTED}
    return fit(lambda p, row: simulations[row](Simulator(p)), targets.__getitem__, BOUNDS)


def _outcome(row: Published, simulation: Simulation | None, parameters: Parameters) -> Outcome:
    if row.id in INPUTS:
        return Outcome(row, "input", note="bounds a parameter")
    if simulation is None:
        return Outcome(row, "not simulated", note=reason(row.id, NOT_SIMULATED))
    value = simulation(Simulator(parameters))
    error = row.relative_error(value)
    kind: Kind = "draft" if row.status == "draft" else "predicted"
    return Outcome(
        published=row,
        kind="fitted" if row.id in FITTED else kind,
        simulated=value,
        error=error,
        sensitivity=_sensitivity(simulation, parameters, value),
        note=reason(row.id, CAUSES) if abs(error) > PREDICTED_MEDIAN_LIMIT else "",
        changed=CHANGED.get(row.id, ""),
        follows=FOLLOWS[row.id].mark if row.id in FOLLOWS else "",
    )


def reason(row_id: str, reasons: dict[str, str]) -> str:
    """What is said of a value, or of all values that begin so; "" if nothing is."""
    return next((why for stem, why in reasons.items() if row_id.startswith(stem)), "")


def _sensitivity(
    simulation: Simulation, parameters: Parameters, value: float
) -> tuple[tuple[str, float], ...]:
    out = []
    for bound in BOUNDS:
        more = getattr(parameters, bound.name) * (1 + NUDGE)
        changed = simulation(Simulator(parameters.with_value(bound.name, more)))
        slope = math.log(changed / value) / math.log(1 + NUDGE) if value > 0 < changed else 0.0
        if abs(slope) >= NOTICED:
            out.append((bound.name, slope))
    return tuple(out)
