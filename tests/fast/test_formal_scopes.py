"""The scopes of ``simcg verify`` are those of the run that benchmarks/runs/verify.json records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simcg.formal.enumerate import Scope, programs
from simcg.formal.explore import settings
from simcg.formal.program import Program
from simcg.formal.ranks import goes_in_lockstep
from simcg.formal.scopes import DEEP, DEFAULT
from simcg.formal.stage import Stage
from simcg.report.verify import scope_words

RUN = Path(__file__).parents[2] / "benchmarks" / "runs" / "verify.json"
RECORDED: list[dict[str, Any]] = json.loads(RUN.read_text(encoding="utf-8"))["stages"]


def taken(stage: Stage) -> list[Program]:
    every = programs(stage.scope)
    return [p for p in every if stage.checks != "ranks" or goes_in_lockstep(p)]


@pytest.mark.parametrize(("stage", "run"), [*zip(DEFAULT, RECORDED, strict=True)])
def test_a_stage_has_the_programs_and_settings_of_the_recorded_run(
    stage: Stage, run: dict[str, Any]
) -> None:
    counts = run["counts"]
    assert (stage.name, stage.checks) == (run["name"], run["checks"])
    assert scope_words(stage) == run["scope"]
    found = taken(stage)
    assert len(found) == counts["programs"]
    if "settings" in counts:
        assert sum(len(list(settings(stage.scope, p))) for p in found) == counts["settings"]


WIDER = {
    "all operators, three": "3 operators of all 16 kinds, 2 breaks, steps of up to 4 tokens and "
    "2 sequences, 1 ladder",
    "memory handed on, four": "4 operators of 5 kinds, 2 breaks, steps of up to 3 tokens and "
    "2 sequences, 1 ladder",
    "caches, five": "5 operators of 3 kinds, 2 breaks, steps of up to 3 tokens and 2 sequences, "
    "1 ladder",
    "five tokens, three sequences": "up to 2 operators of all 16 kinds, 2 breaks, steps of up to "
    "5 tokens and 3 sequences, 3 ladders",
    "guards, all lengths": "1 operator of all 16 kinds, 1 break, steps of up to 5 tokens and "
    "3 sequences, 3 ladders, 3 admission rules",
    "traces of three": "1 operator of all 16 kinds, 1 break, all traces of 3 steps of up to "
    "3 tokens and 2 sequences, 1 ladder",
    "traces, two operators": "2 operators of all 16 kinds, 2 breaks, all traces of 2 steps of up "
    "to 3 tokens and 2 sequences, 1 ladder",
    "failing captures, three": "3 operators of all 16 kinds, 2 breaks, a failure at each "
    "operator, and a second capture, 1 ladder",
    "two ranks, three": "3 operators of 4 kinds, 1 break, all pairs of steps of up to 3 tokens "
    "and 2 sequences, 1 ladder",
}


def test_the_deep_stages_go_as_far_as_their_words_say() -> None:
    """And every one leaves something of the default scope behind: all of it is there, too."""
    assert DEEP[: len(DEFAULT)] == DEFAULT
    assert {stage.name: scope_words(stage) for stage in DEEP[len(DEFAULT) :]} == WIDER
    assert all(stage.every == 1 for stage in DEEP)


def test_the_longest_sequence_of_a_stage() -> None:
    """Longer than a step where steps are checked alone, so that a step may follow others."""
    steps, others = [4, 4, 5, 4, 4, 4, 5, 5], [3, 2, 3, 2, 3, 3, 3, 2]
    assert [s.scope.length for s in DEEP if s.checks == "steps"] == steps
    assert [s.scope.length for s in DEEP if s.checks != "steps"] == others
    assert {s.name for s in DEEP if s.scope.ends} == {
        "memory handed on", "three buckets, guards", "two ranks", "all operators, three",
        "memory handed on, four", "caches, five", "five tokens, three sequences",
        "two ranks, three",
    }  # fmt: skip


@pytest.mark.parametrize("stage", DEEP, ids=lambda stage: stage.name)
def test_a_stage_has_a_batch_above_a_captured_size_and_one_that_is_padded(stage: Stage) -> None:
    """So that both a replay with padding and a step without a graph are among its steps."""
    for buckets in stage.scope.ladders:
        sizes = sorted({tokens for tokens, _ in buckets})
        most = min(stage.scope.tokens, stage.scope.length * stage.scope.sequences)
        assert any(n not in sizes for n in range(1, min(most, sizes[-1]) + 1))
        assert sizes[-1] <= stage.scope.tokens + 1


def test_a_scope_asked_for_nothing_more_is_the_smallest_of_its_kind() -> None:
    scope = Scope(1, 1, 3, 2)
    assert (scope.trace, scope.shortest, scope.nested, scope.ends) == (1, 1, False, False)
    assert (scope.room.tokens, scope.room.slots, scope.room.rows, scope.room.length) == (3, 2, 2, 4)
    ((small, top),) = scope.ladders
    assert (small, top) == ((1, 1), (3, 2))  # without 2, which is padded


def test_nested_breaks_are_in_the_stages_of_all_operators_and_of_failures() -> None:
    nested = {s.name for s in DEEP if s.scope.nested}
    assert nested == {"all operators", "failing captures", "all operators, three"}


@pytest.mark.parametrize("stage", DEEP, ids=lambda stage: stage.name)
def test_a_bucket_has_at_most_the_slots_that_a_step_fills(stage: Stage) -> None:
    """And some bucket has them all; others are too few, so that requests decide."""
    for buckets in stage.scope.ladders:
        slots = {slots for _, slots in buckets}
        assert max(slots) == stage.scope.sequences
        assert slots <= {1, stage.scope.sequences}
