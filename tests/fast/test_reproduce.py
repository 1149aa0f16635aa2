"""The reproduction: what is fitted, what is predicted, and that nothing leaks between them."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from functools import cache
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import least_squares

from simcg.errors import InputError
from simcg.report.reproduction_plot import errors_figure
from simcg.reproduce.cases import FITTED, INPUTS, cases
from simcg.reproduce.fit import fit
from simcg.reproduce.follows import FOLLOWS
from simcg.reproduce.outcome import (
    FITTED_LIMIT,
    PREDICTED_MEDIAN_LIMIT,
    Reproduction,
    errors,
    reproduce,
)
from simcg.reproduce.parameters import BOUNDS, Parameters, start
from simcg.reproduce.published import Published, matching, published, published_rows
from simcg.reproduce.simulator import Simulator
from tests.studies import run_cli


@cache
def whole() -> Reproduction:
    return reproduce()


def simulate(parameters: Parameters, row: str) -> float:
    return cases()[row](Simulator(parameters))


def test_every_published_value_parses_and_is_simulated_or_refused_with_a_reason() -> None:
    ids = [row.id for row in published_rows()]
    assert len(ids) == len(set(ids)) > 70
    for outcome in whole().outcomes:
        row = outcome.published
        assert 0 < row.low <= row.high < math.inf
        assert row.metric
        assert row.source
        if outcome.kind in ("input", "not simulated"):
            assert outcome.simulated is None
            assert outcome.note, f"{row.id} has no simulation and no reason"
        else:
            assert outcome.simulated is not None
            assert math.isfinite(outcome.simulated)
    assert {row.id for row in published_rows() if row.status == "draft"} == {
        o.published.id for o in whole().of_kind("draft")
    }


def test_errors_are_those_of_the_definition() -> None:
    """(simulated - published) / published; a range counts from its nearer end."""
    for outcome in whole().outcomes:
        if outcome.simulated is None or outcome.error is None:
            continue
        row, value = outcome.published, outcome.simulated
        if row.digits == ".001":
            continue
        if row.low <= value <= row.high:
            assert outcome.error == 0
        else:
            end = row.low if value < row.low else row.high
            assert outcome.error == pytest.approx(value / end - 1, abs=1e-12)


def test_a_value_of_one_digit_is_known_to_half_a_digit() -> None:
    """0.001 stands for 0.0005 to 0.0015; 0.56 is not such a value."""
    coarse, fine = published("M4-after"), published("M4-before")
    assert coarse.relative_error(0.0005) == coarse.relative_error(0.0015) == 0
    assert coarse.relative_error(0.003) == pytest.approx(1.0)
    assert coarse.relative_error(0.0001) == pytest.approx(-0.8)
    assert fine.relative_error(0.5604) == pytest.approx(0.0004 / 0.56)


def test_only_the_seven_rows_are_fitted_and_they_are_met() -> None:
    assert {o.published.id for o in whole().of_kind("fitted")} == set(FITTED)
    assert sorted(bound.row for bound in BOUNDS) == sorted(FITTED)
    assert max(errors(whole().of_kind("fitted"))) <= FITTED_LIMIT


def test_a_value_that_follows_is_the_arithmetic_of_its_rows_whatever_the_parameters() -> None:
    """At the fit and far from it: so its error says nothing that those of its rows do not."""
    fitted = whole().fit.parameters
    for parameters in (fitted, start(), fitted.with_value("piece_ns", 2 * fitted.piece_ns)):
        for row, law in FOLLOWS.items():
            made = law.of(*(simulate(parameters, other) for other in law.rows))
            assert simulate(parameters, row) == pytest.approx(made, rel=1e-12), row


def test_no_other_prediction_is_a_row_before_it_or_a_difference_ratio_or_share_of_two() -> None:
    """The table of values that follow misses none of these forms."""
    rows = [o for o in whole().outcomes if o.kind in ("fitted", "predicted")]
    found = set()
    for place, outcome in enumerate(rows):
        before = [one.simulated or math.nan for one in rows[:place]]
        forms = [
            form for a, b in permutations(before, 2)
            for form in (a, a - b, a / b, 100 * (a / b - 1), 100 * a / (a + b))
        ]  # fmt: skip
        if np.isclose(forms, outcome.simulated or math.nan, rtol=1e-9, atol=0).any():
            found.add(outcome.published.id)
    assert found | {"K5"} == set(FOLLOWS)


def test_targets_are_over_the_independent_predictions() -> None:
    """Eight values follow; the worst is none of them, and the last line counts both ways."""
    by_id = {o.published.id: o for o in whole().of_kind("predicted")}
    left = sorted(abs(o.error or 0.0) for row, o in by_id.items() if row not in FOLLOWS)
    reached = {name: value for name, value, _ in whole().targets}
    assert reached["independent predictions, median"] == np.median(left)
    assert reached["independent predictions, worst"] == left[-1]
    machine = json.loads(run_cli("reproduce", "--json").out)
    assert {r["id"]: r["follows"] for r in machine["rows"] if r["follows"]} == {
        row: law.mark for row, law in FOLLOWS.items()
    }
    everything = [abs(o.error or 0.0) for o in by_id.values()]
    assert machine["median_of_all_predictions"] == np.median(everything)


def test_the_picture_draws_each_value_once_and_those_that_follow_hollow() -> None:
    drawn = [*whole().of_kind("fitted"), *whole().of_kind("predicted")]
    (axes,) = errors_figure(drawn).axes
    marks = {str(line.get_label()): line for line in axes.lines if line.get_marker() in ("o", "s")}
    rows = {label: set(np.asarray(line.get_ydata()).tolist()) for label, line in marks.items()}
    assert {drawn[row].published.id for row in rows["follows, or cannot miss"]} == set(FOLLOWS)
    assert {drawn[row].published.id for row in rows["fitted"]} == set(FITTED)
    assert sorted(row for group in rows.values() for row in group) == list(range(len(drawn)))
    assert marks["follows, or cannot miss"].get_markerfacecolor() == "white"
    assert marks["predicted"].get_markerfacecolor() != "white"


def test_every_parameter_lies_within_its_bounds() -> None:
    solved = whole().fit
    for bound in BOUNDS:
        value = getattr(solved.parameters, bound.name)
        assert bound.low <= value <= bound.high
        assert (bound.name in solved.at_bound) == (value in (bound.low, bound.high))


def changed(rows: tuple[Published, ...], row_id: str, factor: float) -> tuple[Published, ...]:
    return tuple(
        replace(row, low=row.low * factor, high=row.high * factor) if row.id == row_id else row
        for row in rows
    )


def test_no_prediction_changes_with_its_published_value() -> None:
    """All values that are not fitted, doubled at once: parameters and simulations stay."""
    doubled = tuple(
        row if row.id in FITTED else replace(row, low=2 * row.low, high=2 * row.high)
        for row in published_rows()
    )
    other = reproduce(doubled)
    assert other.fit == whole().fit
    simulated = [o.simulated for o in whole().outcomes]
    assert [o.simulated for o in other.outcomes] == simulated


@pytest.mark.parametrize("row", FITTED)
def test_each_fitted_value_moves_a_parameter(row: str) -> None:
    """A fit to a value 2 % higher differs: none of the seven is there for show."""
    rows = {r.id: r.low for r in changed(published_rows(), row, 1.02)}
    other = fit(simulate, rows.__getitem__, BOUNDS)
    assert other.parameters != whole().fit.parameters


@pytest.mark.parametrize("seed", range(3))
def test_planted_parameters_are_found_again(seed: int) -> None:
    """The values that random costs give rise to determine those costs."""
    draw = random.Random(seed)
    planted = start()
    for bound in BOUNDS:
        share = draw.uniform(0.2, 0.8)
        planted = planted.with_value(bound.name, bound.low + share * (bound.high - bound.low))
    targets = {bound.row: simulate(planted, bound.row) for bound in BOUNDS}
    found = fit(simulate, targets.__getitem__, BOUNDS)
    for bound in BOUNDS:
        true = getattr(planted, bound.name)
        assert getattr(found.parameters, bound.name) == pytest.approx(true, rel=0.01), bound.name


def test_the_fit_is_as_good_as_scipys_bounded_least_squares() -> None:
    """Also where a value is out of reach, so that a parameter stops at its bound."""
    targets = {bound.row: published(bound.row).low for bound in BOUNDS}
    targets["M1"] *= 20
    ours = fit(simulate, targets.__getitem__, BOUNDS)
    assert "exec_factor" in ours.at_bound
    low = np.array([b.low for b in BOUNDS])
    span = np.array([b.high for b in BOUNDS]) - low

    def misses(x: np.ndarray) -> list[float]:
        values = Parameters(
            **{b.name: float(v) for b, v in zip(BOUNDS, low + x * span, strict=True)}
        )
        return [math.log(simulate(values, b.row) / targets[b.row]) for b in BOUNDS]

    at = [(getattr(ours.parameters, b.name) - b.low) / (b.high - b.low) for b in BOUNDS]
    theirs = least_squares(
        misses, [0.5] * len(BOUNDS), bounds=(0, 1), diff_step=[1e-3] * len(BOUNDS)
    )
    assert sum(m * m for m in misses(np.array(at))) <= 2 * theirs.cost * 1.01 + 1e-8


def test_sensitivities_are_logarithmic_slopes() -> None:
    """Seconds of TTFT outside the forward weigh as their share; memory rests on no parameter."""
    outcomes = {o.published.id: o for o in whole().outcomes}
    full = outcomes["T64-full"]
    assert full.rests_on == ("outside_ns",)
    assert full.simulated is not None
    share = whole().fit.parameters.outside_ns / 1e6 / full.simulated
    assert full.sensitivity[0][1] == pytest.approx(share, rel=0.03)
    for row in ("M2-none", "M2-8192", "M4-before", "K5"):
        assert outcomes[row].rests_on == ()
    for row in FITTED:
        solved_by = next(bound.name for bound in BOUNDS if bound.row == row)
        assert solved_by in outcomes[row].rests_on


def test_every_prediction_that_misses_the_median_target_says_why() -> None:
    for outcome in whole().of_kind("predicted"):
        assert outcome.error is not None
        if abs(outcome.error) > PREDICTED_MEDIAN_LIMIT:
            assert outcome.note, f"{outcome.published.id} is off by {outcome.error:+.1%}"


def test_rows_are_found_by_id_or_group_and_others_are_refused_by_name() -> None:
    known = tuple(row.id for row in published_rows())
    assert matching("r1", known) == ("R1",)
    assert matching("M2", known) == tuple(f"M2-{c}" for c in ("none", 1024, 2048, 4096, 8192))
    assert matching("C2", known) == ("C2-compile", "C2-capture")
    for row in INPUTS:
        assert matching(row, known) == (row,)
    with pytest.raises(InputError, match=r"--row: got 'C22', expected a published row such as C2"):
        matching("C22", known)


def test_the_command_prints_all_of_it_in_100_columns() -> None:
    plain, machine = run_cli("reproduce"), run_cli("reproduce", "--json")
    assert (plain.code, plain.err, machine.code, machine.err) == (0, "", 0, "")
    assert max(map(len, plain.out.splitlines())) <= 100
    value = json.loads(machine.out)
    assert [row["id"] for row in value["rows"]] == [row.id for row in published_rows()]
    assert set(value["parameters"]) == {bound.name for bound in BOUNDS}
    for row in value["rows"]:
        if row["kind"] in ("fitted", "predicted"):
            assert f"\n{row['id']} " in plain.out
    one = run_cli("reproduce", "--row", "M2", "--json")
    assert [row["id"] for row in json.loads(one.out)] == [f"M2-{c}" for c in
        ("none", 1024, 2048, 4096, 8192)]  # fmt: skip


def test_an_unknown_row_is_one_line() -> None:
    result = run_cli("reproduce", "--row", "R9")
    assert (result.code, result.out) == (2, "")
    assert result.err.count("\n") == 1
    assert "expected a published row such as R" in result.err


def test_an_error_of_nothing_says_why_it_is_none() -> None:
    """A range holds the value, or one printed digit does; others are met as they stand."""
    for row, said in (("M4-after", "rounds to it"), ("C5-Qwen3", "in range"), ("K5", "+0.0 %")):
        lines = run_cli("reproduce", "--row", row).out.splitlines()
        assert said in next(line for line in lines if line.startswith(row))
