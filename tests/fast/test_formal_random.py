"""Longer programs than can be enumerated, at random: a serving machine, and single steps."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from simcg.formal.check import Checker
from simcg.formal.enumerate import Sequences
from simcg.formal.rules import Rules
from simcg.formal.setting import Setting
from simcg.formal.step import Step
from tests.formal_kit import ROOM, Deployment, requests, settings

FEW = hypothesis_settings(
    max_examples=60,
    stateful_step_count=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def test_a_deployment_serves_what_the_reference_says_whatever_happens_between_steps() -> None:
    run_state_machine_as_test(Deployment, settings=FEW)


class RestoresNothing(Deployment):
    """Warm-ups leave the generator where they took it."""

    decisions = Rules(restores=False)
    kinds, most = ("draw",), 1


def test_a_wrong_deployment_is_found() -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(RestoresNothing, settings=FEW)


@FEW
@given(setting=settings(), data=st.data())
def test_single_steps_of_long_programs_are_right_from_arbitrary_memory(
    setting: Setting, data: st.DataObject
) -> None:
    checker = Checker.of(setting)
    lengths = st.integers(0, ROOM.length)
    for _ in range(4):
        before: Sequences = tuple((row, data.draw(lengths)) for row in range(ROOM.rows))
        batch = data.draw(requests(before))
        renamed = tuple(type(r)(r.row, r.row, r.context, r.query) for r in batch)
        checker.step(Step(renamed, data.draw(st.sampled_from((0, 1)))))
