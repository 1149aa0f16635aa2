"""What an exploration counts is how often it did it: told by counting the same things apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from simcg.backend import FULL
from simcg.formal.enumerate import Scope, Sequences, after, fresh, single_steps, steps
from simcg.formal.explore import settings
from simcg.formal.mutants import MUTANTS
from simcg.formal.mutants.hunt import hunt
from simcg.formal.program import Op, Program
from simcg.formal.rules import Rules
from simcg.formal.setting import Setting
from simcg.formal.stage import Checks, Stage, explore
from simcg.formal.step import Step
from simcg.formal.tally import Tally
from simcg.formal.terms import Terms
from simcg.formal.traces import Node, tree
from simcg.formal.violation import Violation
from simcg.ladder import dispatch

SCOPE = Scope(
    ops=3, breaks=1, tokens=2, sequences=2, trace=2, ladders=(((1, 1), (2, 2)),), length=2
)
STATE = Program((Op("state", (0,)),))
SIDE = Program((Op("gemm", (0,), side=True), Op("gemm", (0,)), Op("add", (1, 2))))
SCALAR = Program((Op("launch", (0,)), Op("reduce", (1,))))


def told(checks: Checks, program: Program) -> Tally:
    tally = explore(Stage("one", checks, SCOPE), [program])
    assert tally.failed is None
    assert tally.counts["programs"] == 1
    return tally


def traces(before: Sequences, length: int) -> Iterator[list[Step]]:
    """Every trace of one to so many steps."""
    for step in steps(SCOPE, before) if length else ():
        yield [step]
        yield from ([step, *more] for more in traces(after(before, step), length - 1))


def bucket(setting: Setting, step: Step) -> int:
    """All steps of the scope have one."""
    batch = np.array([step.tokens]), np.array([len(step.requests)])
    return int(dispatch(setting.ladder, setting.rule, *batch)[0])


@pytest.mark.parametrize(("program", "streams"), [(STATE, 1), (SIDE, 2)], ids=["state", "side"])
def test_a_walk_takes_every_trace_step_by_step(program: Program, streams: int) -> None:
    """With all buckets captured before and with the last one late, each stream order."""
    tally, every = told("traces", program), list(traces(fresh(2), SCOPE.trace))
    orders = len(list(settings(SCOPE, program)))
    walks = 2 * orders * streams
    assert tally.counts["walks"] == walks
    assert tally.counts["trace steps"] == walks * len(every)
    second = [trace for trace in every if len(trace) == 2]
    assert tally.witnesses["I14"] == walks * len(second)
    alike = witnessed = 0
    for setting, late in product(settings(SCOPE, program), (0, 1)):
        for one, two in second:
            keys = [bucket(setting, step) for step in (one, two)]
            replays = keys[0] in setting.order[: len(setting.order) - late]
            alike += replays and keys[0] == keys[1]
            witnessed += replays and keys[0] != keys[1]
    assert alike
    assert tally.witnesses["I18"] == streams * witnessed
    first = {id(trace[0]) for trace in second}
    assert tally.witnesses["I22"] == orders * streams * len(first)


def test_a_capture_is_checked_elsewhere_once_and_at_each_operator_that_fails() -> None:
    for program in (STATE, SIDE):
        tally, number = told("captures", program), len(list(settings(SCOPE, program)))
        assert tally.counts["settings"] == number
        assert tally.witnesses["I16"] == number
        assert tally.witnesses["I20"] == number * len(program.ops)


def test_ranks_step_in_pairs_of_one_mode_also_after_each_failed_capture() -> None:
    """A scalar of the host is the same on all ranks: two modes make no four kinds of pairs."""
    tally, every = told("ranks", SCALAR), single_steps(SCOPE, SCALAR)
    assert {step.mode for step in every} == {0, 1}
    alike = [(a, b) for a, b in product(every, every) if a.mode == b.mode]
    differ = sum((a.tokens, len(a.requests)) != (b.tokens, len(b.requests)) for a, b in alike)
    captures = [len(s.ladder) * len(s.modes) for s in settings(SCOPE, SCALAR)]
    assert tally.counts["settings"] == len(captures)
    rounds = sum(1 + number for number in captures)
    assert tally.counts["lockstep steps"] == rounds * len(alike)
    assert tally.witnesses["I19"] == rounds * differ


def test_single_steps_are_counted_as_eager_replayed_and_padded() -> None:
    tally, every = told("steps", STATE), single_steps(SCOPE, STATE)
    counts = tally.counts
    found = list(settings(SCOPE, STATE))
    assert counts["settings"] == len(found)
    assert counts["settings like another"] == tally.witnesses["I18"] > 0
    assert counts["captures"] == sum(len(s.order) for s in found)
    checked = [s for s in found if s.order == (0, 1)] if counts["settings like another"] else found
    assert counts["steps"] % len(every) == 0
    assert counts["steps"] == (len(found) - counts["settings like another"]) * len(every)
    assert counts["eager"] + counts["replays"] == counts["steps"]
    # two tokens of one request each go to (2, 2); one token to (1, 1): none of either is padded
    assert counts["eager"] == counts["padded"] == 0
    assert checked


def test_a_ladder_without_the_size_is_counted_as_eager_and_as_padded() -> None:
    scope = Scope(ops=1, breaks=0, tokens=3, sequences=1, ladders=(((2, 1),),), length=3)
    tally = explore(Stage("one", "steps", scope), [STATE])
    queries = [step.tokens for step in single_steps(scope, STATE)]
    kept = len(list(settings(scope, STATE))) - tally.counts["settings like another"]
    assert tally.counts["eager"] == kept * queries.count(3)
    assert tally.counts["padded"] == tally.witnesses["I7"] == kept * queries.count(1)
    assert tally.counts["replays"] == kept * (queries.count(1) + queries.count(2))


def test_tallies_add_up_and_the_first_violation_stays() -> None:
    one, other = Tally(), Tally()
    one.counts["steps"], other.counts["steps"], other.witnesses["I7"] = 3, 4, 2
    one.cpu_ns, other.cpu_ns = 10, 5
    other.failed = first = Violation("I7", "first")
    one.add(other)
    late = Tally()
    late.failed = Violation("I8", "later")
    one.add(late)
    assert (one.counts["steps"], one.witnesses["I7"], one.cpu_ns) == (7, 2, 15)
    assert one.failed is first


def test_every_order_of_captures_is_a_setting() -> None:
    orders = [s.order for s in settings(SCOPE, STATE) if s.backend is FULL]
    assert orders == list(permutations(range(2)))


def paths(nodes: tuple[Node, ...]) -> Iterator[list[Step]]:
    for node in nodes:
        yield [node.step]
        yield from ([node.step, *more] for more in paths(node.then))


def test_a_tree_has_every_trace_and_both_scalars_where_the_host_gives_one() -> None:
    for program in (STATE, SCALAR):
        setting = next(settings(SCOPE, program))
        found = list(paths(tree(SCOPE, setting.runner(Terms(), Rules()).machine)))
        modes = (0, 1) if program is SCALAR else (0,)
        expected = [
            [replace(step, mode=mode) for step, mode in zip(trace, chosen, strict=True)]
            for trace in traces(fresh(2), SCOPE.trace)
            for chosen in product(modes, repeat=len(trace))
        ]
        assert {tuple(path) for path in found} == {tuple(trace) for trace in expected}


def test_replays_with_empty_request_slots_are_counted_for_what_speaks_of_them() -> None:
    """I9 speaks of them where requests are told apart, I7 of every padded row."""
    scope = Scope(ops=1, breaks=0, tokens=3, sequences=2, ladders=(((3, 2),),), length=3)
    program = Program((Op("causal", (0,)),))
    tally = explore(Stage("one", "steps", scope), [program])
    every = single_steps(scope, program)
    slotted = [s for s in settings(scope, program) if s.ladder.buckets[0].slots]
    assert len(slotted) == 1
    alone = sum(len(step.requests) == 1 for step in every)
    others = len({s.backend.name for s in settings(scope, program)}) - 1
    left = tally.counts["settings"] - tally.counts["settings like another"] - 1
    assert 1 <= left <= others
    in_all_slots = tally.witnesses["I9"] - alone
    assert in_all_slots in (0, left * alone)
    assert tally.witnesses["I7"] == tally.counts["padded"]


@pytest.mark.parametrize("name", ["output read too late", "warm-up writes real slots"])
def test_a_story_counts_its_steps_from_one(name: str) -> None:
    first = hunt(MUTANTS[name]).first
    assert first is not None
    numbers = [int(n) for line in first.story for n in re.findall(r"^step (\d+) of ", line)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert name != "output read too late" or len(numbers) == 2


def test_ranks_that_part_are_told_with_what_each_of_them_runs() -> None:
    first = hunt(MUTANTS["capture failed on one rank"]).first
    assert first is not None
    told = re.search(r"rank 0 runs (.+), rank 1 (.+)", str(first))
    assert told is not None
    assert told[1] != told[2]
