"""Exploration: what is counted, what is shared, what a counterexample tells."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from simcg.backend import BREAKABLE, FULL, TC_PIECEWISE
from simcg.formal import reference
from simcg.formal.check import Checker, smallest
from simcg.formal.enumerate import Scope, programs, single_steps
from simcg.formal.explore import Explorer, settings
from simcg.formal.invariants import INVARIANTS
from simcg.formal.meaning import Meaning
from simcg.formal.program import Kind, Op, Program
from simcg.formal.reference import EMPTY
from simcg.formal.rules import Rules, padding
from simcg.formal.scopes import DEFAULT, RULES, THREE, TWO
from simcg.formal.setting import Setting
from simcg.formal.stage import Stage, explore
from simcg.formal.step import Request, Step
from simcg.formal.tally import Tally
from simcg.formal.terms import Terms
from simcg.formal.verification import verify
from simcg.formal.violation import Violation
from simcg.ladder import AdmissionRule, Bucket, Ladder

SMALL = Scope(ops=1, breaks=1, tokens=3, sequences=2, trace=2, ladders=TWO, length=3)
STAGES = (
    Stage("steps", "steps", SMALL),
    Stage("traces", "traces", replace(SMALL, kinds=("scatter", "state", "borrow"))),
    Stage("captures", "captures", SMALL),
    Stage("ranks", "ranks", replace(SMALL, ends=True)),
)
SLOT_ZERO = Rules(
    padding=lambda name, step, layout: 0 if name == "slots" else padding(name, step, layout)
)


def test_the_counts_and_witnesses_do_not_depend_on_the_processes() -> None:
    alone, shared = verify(STAGES, 1), verify(STAGES, 2)
    for one, other in zip(alone, shared, strict=True):
        assert one.tally.failed is None
        assert one.tally.counts == other.tally.counts
        assert one.tally.witnesses == other.tally.witnesses


def test_all_settings_of_a_scope_are_every_backend_order_and_rule() -> None:
    program = Program((Op("gemm", (0,)),))
    scope = replace(SMALL, ladders=THREE, rules=RULES)
    found = list(settings(scope, program))
    whole = {(s.backend.name, s.ladder, s.order, s.rule) for s in found}
    assert len(whole) == len(found)
    # ladders of three, of three sizes or two (2 tokens twice are one), of one: orders 6 or 2, 1
    orders = {FULL: 6 + 6 + 1, BREAKABLE: 6 + 2 + 1, TC_PIECEWISE: 6 + 2 + 1}
    for backend, count in orders.items():
        assert sum(s.backend is backend for s in found) == count * len(RULES)


def test_settings_left_out_as_like_another_would_not_have_failed() -> None:
    """The same steps of each setting on its own checker, none left out."""
    program = Program((Op("constant", (0,)), Op("scatter", (1,)), Op("gemm", (1,), breaks=True)))
    explorer = Explorer.of(SMALL)
    explorer.program(program)
    assert explorer.tally.counts["settings like another"] > 0
    steps = single_steps(SMALL, program)
    for setting in settings(SMALL, program):
        checker = Checker.of(setting)
        for step in steps:
            checker.step(step)
    done = explorer.tally.counts["settings"] - explorer.tally.counts["settings like another"]
    assert explorer.tally.counts["steps"] == done * len(steps)


def test_a_step_gives_the_same_whichever_steps_came_before() -> None:
    """Memory is filled anew for each: the order of checks is no part of what is checked."""
    program = Program((Op("scatter", (0,)), Op("attend", (0,)), Op("state", (2,))))
    setting = next(settings(SMALL, program))
    steps = single_steps(SMALL, program)
    meaning = Meaning.of(Terms(), program, SMALL.room)  # one numbering of terms for both
    results = []
    for order in (steps, steps[::-1]):
        checker, seen = Checker.of(setting, meaning=meaning), {}
        for step in order:
            checker.step(step)
            seen[step] = list(checker.runner.machine.memory.value)
        results.append(seen)
    assert results[0] == results[1]


@pytest.mark.parametrize("rule", RULES)
def test_the_brute_force_choice_is_the_rule_in_words(rule: AdmissionRule) -> None:
    ladder = Ladder((Bucket(1, 1), Bucket(2, 3), Bucket(4, 2), Bucket(4, 3)))
    for tokens, requests in product(range(1, 6), range(1, 5)):
        index = smallest(ladder, rule, tokens, requests)
        holds = [i for i, b in enumerate(ladder.buckets)
                 if b.num_tokens >= tokens and (b.slots or 0) >= requests]  # fmt: skip
        if index >= 0:
            assert index == holds[0]
        elif holds:
            size = ladder.buckets[holds[0]].num_tokens
            ranged = any(low <= tokens <= high for low, high in rule.eager_ranges)
            guarded = rule.max_ratio is not None and size > rule.max_ratio * tokens
            assert ranged or guarded


ROW_LOCAL: tuple[Kind, ...] = ("gemm", "add", "accumulate", "scatter", "attend", "random", "state")


def test_in_the_reference_chunks_of_a_prompt_give_what_the_whole_prompt_gives() -> None:
    """For operators that see other rows through caches and states alone."""
    whole = [Step((Request(0, 0, 0, 3),))]
    chunks = [Step((Request(0, 0, 0, 2),)), Step((Request(0, 0, 2, 1),))]
    for program in programs(Scope(2, 0, 3, 1, kinds=ROW_LOCAL)):
        outcomes = []
        for steps in (whole, chunks):
            terms, world, rows = Terms(), EMPTY, list[str]()
            for step in steps:
                output, world = reference.run(terms, program, step, world)
                rows += [deep(terms, value) for value in output]
            outcomes.append((rows, {k: deep(terms, v) for k, v in world.caches.items()}))
        assert outcomes[0] == outcomes[1]


def deep(terms: Terms, value: int) -> str:
    """A term in full."""
    name, *parts = terms.parts(value) or (str(value),)
    return f"{name}({', '.join(p if isinstance(p, str) else deep(terms, p) for p in parts)})"


def test_a_counterexample_tells_program_setting_step_cell_and_both_values() -> None:
    setting = Setting(
        Program((Op("gemm", (0,)), Op("scatter", (1,)))), BREAKABLE, Ladder.of([1, 3]), (1, 0),
        SMALL.room,
    )  # fmt: skip
    checker = Checker.of(setting, SLOT_ZERO)
    with pytest.raises(Violation) as failure:
        checker.step(Step((Request(1, 1, 0, 2),)))
    assert failure.value.key == "I8"
    assert failure.value.op == "scatter(t1)"
    assert failure.value.story == [
        "program: t1 = gemm(ids); scatter(t1)",
        "backend breakable, captured in this order: (3 tokens) then (1 token)",
        "step 1 of 2 tokens, s1[0] s1[1] of sequence 1 in row 1, "
        "replays the capture of (3 tokens) with 1 row of padding",
    ]
    assert str(failure.value) == (
        "I8 padding writes no cache: row 0, position 0 of the cache: "
        "expected old cache#2[row 0, position 0], found scatter#2(gemm#1(padding))"
    )


def test_the_first_counterexample_is_a_shortest_program_on_any_number_of_processes() -> None:
    tally = explore(Stage("steps", "steps", replace(SMALL, ops=2)),
                    programs(replace(SMALL, ops=2)), SLOT_ZERO)  # fmt: skip
    assert tally.failed is not None
    assert tally.failed.story[0].count(";") == 1  # a scatter, and an operator with a result


def test_a_tally_says_what_it_never_saw() -> None:
    tally = Tally()
    assert tally.lacking() == list(INVARIANTS)
    tally.witnesses["I7"] += 1
    assert "I7" not in tally.lacking()


def test_stages_are_named_once() -> None:
    names = [stage.name for stage in DEFAULT]
    assert len(set(names)) == len(names)
