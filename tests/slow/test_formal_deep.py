"""The formal model further out: all of the default scope, long random traces, shrinking."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import run_state_machine_as_test

from simcg.formal.invariants import INVARIANTS
from simcg.formal.rules import Rules, padding
from simcg.formal.scopes import DEEP, DEFAULT
from simcg.formal.verification import verify
from simcg.formal.violation import Violation
from tests.formal_kit import Deployment

MANY = hypothesis_settings(
    max_examples=500,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def test_the_default_scope_holds_with_every_premise_seen_lemmas_proved_and_mutants_killed() -> None:
    command = [sys.executable, "-m", "simcg", "verify", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["holds"]
    assert report["failures"] == []
    assert {i["key"] for i in report["invariants"] if i["witnesses"]} == set(INVARIANTS)
    killed = {key for m in report["mutants"] for key in m["caught"]}
    assert killed == set(INVARIANTS)
    assert len(report["mutants"]) >= 35


@pytest.mark.parametrize("stage", DEEP[len(DEFAULT) :], ids=lambda stage: stage.name)
def test_a_sample_of_the_deep_scope_holds(stage: object) -> None:
    whole = DEEP[[s.name for s in DEEP].index(getattr(stage, "name", ""))]
    (result,) = verify([replace(whole, every=199)], 1)
    assert result.tally.failed is None
    assert result.tally.counts["programs"]


def test_long_random_deployments_serve_what_the_reference_says() -> None:
    run_state_machine_as_test(Deployment, settings=MANY)


class SlotZero(Deployment):
    """Padding writes slot 0."""

    kinds, most = ("scatter", "gemm"), 2
    decisions = Rules(
        padding=lambda name, step, layout: 0 if name == "slots" else padding(name, step, layout)
    )


def test_a_counterexample_shrinks_to_one_step() -> None:
    with pytest.raises((AssertionError, Violation)) as failure:
        run_state_machine_as_test(SlotZero, settings=hypothesis_settings(MANY, max_examples=200))
    told = "\n".join(failure.value.__notes__)
    assert told.count("state.step(") == 1
