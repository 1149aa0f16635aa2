"""Served traces beside their simulation: runs that obey a profile are predicted, others are not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from simcg.errors import SimcgError
from simcg.hardware.catalog import load_profile
from simcg.runs.read import Runs, read_runs
from simcg.runs.schema import Line, ServingLine, ServingRequest, ServingStep
from simcg.runs.serving import FIGURES, compare_serving, served_runs
from simcg.runs.validation import validate
from tests.made_runs import SERVED, runs_of, serving_lines, write
from tests.studies import run_cli

H200 = load_profile("h200")


def late(lines: list[Line], factor: float) -> Runs:
    """Every first token of the open run that much later."""

    def moved(line: Line) -> Line:
        if not isinstance(line, ServingRequest):
            return line
        waited = round((line.first_token_ns - line.arrival_ns) * factor)
        first = line.arrival_ns + waited
        finish = max(line.finish_ns, first)
        return msgspec.structs.replace(line, first_token_ns=first, finish_ns=finish)

    return runs_of([moved(line) for line in lines])


@pytest.mark.parametrize("policy", ["prefill-first", "mixed", "bucket-edge"])
def test_a_run_that_obeys_the_profile_is_predicted_to_the_nanosecond(policy: str) -> None:
    """Its latencies, and its steps; the server's own time is read off the closed run."""
    (found,) = compare_serving(runs_of(serving_lines(policy=policy)), H200)
    assert found.overheads == (70_000, ((2, 70_000),))
    assert found.simulated == found.run.figures
    assert set(found.simulated) == set(FIGURES)
    assert [(s.kind, s.count, s.median) for s in found.steps] == [
        ("prefill", 2, 0.0), ("decode", 2, 0.0),
    ]  # fmt: skip
    assert {s.overhead_ns for s in found.steps} == {90_000.0}


@pytest.mark.parametrize(
    ("factor", "missed"), [(1.0, []), (1.04, []), (1.08, ["ttft p50"]), (1.2, ["p50", "p99"])]
)
def test_first_tokens_are_held_to_5_and_10_percent(factor: float, missed: list[str]) -> None:
    """Of the median and of the 99th percentile."""
    result = validate([late(serving_lines(), factor)], H200)
    checks = [check for check in result.checks if check.what.startswith("served")]
    assert [check.limit for check in checks] == ["within 5%", "within 10%"]
    bad = [check.what for check in checks if not check.holds]
    assert len(bad) == len(missed)
    assert all(what.endswith(name) for what, name in zip(bad, missed, strict=True))


def test_a_server_near_its_capacity_is_shown_but_held_to_nothing() -> None:
    """Above a utilisation of 0.7, queues magnify every error."""
    lines = [
        msgspec.structs.replace(line, utilisation=0.9)
        if isinstance(line, ServingLine) and line.utilisation
        else line
        for line in serving_lines()
    ]
    result = validate([late(lines, 2.0)], H200)
    assert (len(result.serving), result.checks) == (1, ())


def test_the_command_shows_latencies_and_steps_and_ends_with_the_limits(tmp_path: Path) -> None:
    """At most 100 columns; exit code 1 when a first token is too late; the same as JSON."""
    good = write(tmp_path / "good.jsonl", runs_of(serving_lines()))
    ran = run_cli("validate", str(good))
    assert ran.code == 0
    assert "ttft p99" in ran.out
    assert "served steps" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 100
    bad = write(tmp_path / "bad.jsonl", late(serving_lines(), 1.2))
    assert run_cli("validate", str(bad)).code == 1
    (one,) = msgspec.json.decode(run_cli("validate", str(good), "--json").out)["serving"]
    assert one["simulated_ns"] == one["measured_ns"]


def refused(lines: list[Line]) -> str:
    """What is wrong with them."""
    with pytest.raises(SimcgError) as caught:
        compare_serving(runs_of(lines), H200)
    return str(caught.value)


def test_rows_that_belong_to_nothing_are_refused() -> None:
    """A run twice, rows of no run, a run without rows, an open run without a closed one."""
    lines = serving_lines(3)
    step = next(line for line in lines if isinstance(line, ServingStep))
    assert "a run twice" in refused([*lines, SERVED])
    assert "got 7, expected one of the runs 0, 1" in refused(
        [*lines, msgspec.structs.replace(step, run=7)]
    )
    assert "no rows" in refused([*lines, msgspec.structs.replace(SERVED, run=5)])
    opened = [line for line in lines if getattr(line, "run", 1) == 1]
    assert "expected a closed run of the same model beside it" in refused(opened)
    assert served_runs(runs_of([])) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"type": "serving", "policy": "sjf"}, "policy must be one of prefill-first, mixed"),
        ({"type": "serving", "prefill_sizes": [0]}, "Expected `int` >= 1"),
        ({"type": "serving_request", "first_token_ns": 1}, "must be in that order"),
        ({"type": "serving_step", "prefills": 0, "tokens": 3}, "a step must have requests"),
        ({"type": "serving_step", "tokens": 10**9}, "must ascend"),
        ({"type": "serving_step", "end_ns": 2}, "must not be before the device is done"),
    ],
)
def test_an_impossible_row_is_one_line_of_error(
    tmp_path: Path, change: dict[str, object], says: str
) -> None:
    """It names the file and the line."""
    path = write(tmp_path / "runs.jsonl", runs_of(serving_lines(3)))
    rows = [msgspec.json.decode(row) for row in path.read_bytes().splitlines()]
    at = next(
        i for i, row in enumerate(rows)
        if row["type"] == change["type"] and row.get("arrival_ns", 1) and row.get("tokens", 1)
    )  # fmt: skip
    rows[at] |= change
    path.write_bytes(b"\n".join(map(msgspec.json.encode, rows)))
    with pytest.raises(SimcgError) as caught:
        read_runs(path)
    assert f"runs.jsonl, line {at + 1}" in str(caught.value)
    assert says in str(caught.value)
