"""A counterexample is a story that a person can follow without knowing the machine."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.backend import BREAKABLE, FULL, CaptureBackend
from simcg.formal.check import Checker
from simcg.formal.explore import ladder_of
from simcg.formal.mutants import MUTANTS
from simcg.formal.mutants.hunt import programs_of, violations
from simcg.formal.places import place
from simcg.formal.program import KINDS, Kind, Op, Program
from simcg.formal.runner import Runner
from simcg.formal.setting import Room, Setting
from simcg.formal.step import Request, Step
from simcg.formal.terms import Terms
from simcg.formal.violation import Violation
from simcg.formal.words import DISPATCH, OUTPUT_COPY, VIEW, counted, said_bucket
from simcg.ladder import Bucket, Ladder
from simcg.report.verify import NOTATION, story

KILLED = [name for name, mutant in MUTANTS.items() if not mutant.equivalent]
PLACES = {DISPATCH, OUTPUT_COPY, VIEW}


@cache
def first(name: str) -> Violation:
    """The first violation of a mutant, as ``--mutant`` tells it."""
    mutant = MUTANTS[name]
    return next(v for v in violations(mutant, mutant.rules) if v is not None)


def told(name: str) -> str:
    return "\n".join(story(first(name)))


@pytest.mark.parametrize("name", KILLED)
def test_every_story_names_the_operator_or_the_place_where_it_went_wrong(name: str) -> None:
    violation = first(name)
    (program,) = {p for p in programs_of(MUTANTS[name]) if f"program: {p}" == violation.story[0]}
    operators = {program.words(index) for index in range(len(program.ops))}
    assert violation.op in operators | PLACES
    assert f"   at: {violation.op}" in story(violation)


@pytest.mark.parametrize("name", KILLED)
def test_no_story_shows_the_machine_s_own_numbers_and_tuples(name: str) -> None:
    """No address, no tag as Python writes it, no number of an epoch or of an operator alone."""
    text = told(name).split(" says: ")[0]
    for raw in (r"\bcell \d", r"\bat \d", r"\(\d*,\)", r"\('", r"\bepoch\b", r"\boperator \d", "@"):
        assert not re.search(raw, text), raw


@pytest.mark.parametrize("name", KILLED)
def test_one_is_singular_and_more_are_plural(name: str) -> None:
    nouns = "token|slot|row|number|request|block|time"
    assert not re.search(rf"\b1 ({nouns})s\b", told(name))
    assert not re.search(rf"\b([02-9]|\d\d+) ({nouns})\b", told(name))


@pytest.mark.parametrize("name", KILLED)
def test_what_a_term_s_number_means_is_said_beside_it(name: str) -> None:
    assert ("#" in first(name).what) == (f"   ({NOTATION})" in story(first(name)))


SENTENCES = {
    "smaller bucket": "gets (1 token, 1 slot), expected (3 tokens, 2 slots)",
    "constant freed after capture": "holds nothing: its block was freed",
    "host read captured": "expected host#1(s0[0], value 2), found host#1(s0[0], value 3)",
    "output read too late": "of step 1 is read when it holds what (the copy to the output) wrote "
    "in step 2",
    "stale lengths in the tail": "lengths[1] was not written in step 1",
    "outside argument held weakly": "holds the data of a new owner",
    "kernel writes whole tiles": "row 1 of t1 of (3 tokens, 2 slots), which held nothing",
    "memory freed too early": "row 0 of t1 holds what (t2 = gemm(ids)) wrote in step 1",
    "unmasked operator captured": "full (one graph, breaks included)",
    "key without a scalar": "(3 tokens, 2 slots), each for host scalars 0 and 1",
    "guard forgotten": "eager where the bucket is above 5/4 of the tokens",
    "failed capture keeps its memory": "the failed capture still has 1 block of the pool",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_the_story_is_the_mutant_s_own_sentence(name: str) -> None:
    """The first case shows what the mutant stands for, not another end of the same decision."""
    assert SENTENCES[name] in told(name)


@given(st.integers(0, 10_000_000))
def test_a_count_reads_back(number: int) -> None:
    value, noun = counted(number, "row").split()
    assert int(value.replace(",", "")) == number
    assert (noun == "row") == (number == 1)


def test_buckets_are_told_apart_by_what_they_were_captured_for() -> None:
    plain, slotted = Ladder.of([1, 3]), Ladder((Bucket(1, 1), Bucket(3, 1), Bucket(3, 2)))
    keys = [(plain, (0,)), (plain, (1,)), (plain, (1, 0)), (plain, (1, 1)), (plain, ())]
    keys += [(slotted, (index,)) for index in range(3)]
    words = [said_bucket(ladder, key) for ladder, key in keys]
    assert len(set(words)) == len(words)
    assert words[-1] == "(3 tokens, 2 slots)"


def test_a_step_names_its_tokens_by_sequence_and_position() -> None:
    step = Step((Request(1, 0, 2, 2), Request(0, 3, 0, 1)), 1)
    assert str(step) == "s0[2] s0[3] of sequence 0 in row 1, s3[0] of sequence 3 in row 0, " \
        "host scalar 1"  # fmt: skip


SCALARS: set[Kind] = {"random", "draw", "launch", "host"}


@st.composite
def flat_terms(draw: st.DrawFn) -> tuple[str | int, ...]:
    """The parts of a term whose arguments are tokens, or of one that no operator made."""
    few = st.integers(0, 3)
    head = draw(st.sampled_from([*KINDS, "token", "old cache", "old state", "weight"]))
    numbers = {"token": 2, "old cache": 3, "old state": 2, "weight": 1}.get(head, 1)
    return (head, *(draw(few) for _ in range(numbers)))


@given(st.lists(st.tuples(flat_terms(), st.integers(0, 2), st.integers(0, 9)), min_size=2))
def test_different_terms_are_shown_differently(
    made: list[tuple[tuple[str | int, ...], int, int]],
) -> None:
    """So that ``expected`` and ``found`` are never the same words."""
    terms, shown = Terms(), dict[int, str]()
    for parts, rows, scalar in made:
        arguments = [terms.make("token", 0, row) for row in range(rows + 1)]
        kind = parts[0] in KINDS
        number = [scalar] if parts[0] in SCALARS else []
        term = terms.make(*parts, *(arguments + number if kind else []))
        shown[term] = terms.show(term)
    assert len(set(shown.values())) == len(shown)


def name_of(runner: Runner, address: int) -> str:
    return place(runner.machine, runner.ladder, runner.captures.values(), address)


@pytest.mark.parametrize("backend", [FULL, BREAKABLE])
def test_every_cell_has_a_name_and_no_two_of_fixed_address_share_one(
    backend: CaptureBackend,
) -> None:
    program = Program((
        Op("gemm", (0,)), Op("scatter", (1,)), Op("attend", (0,)), Op("state", (3,)),
        Op("constant", (4,)), Op("gemm", (5,), breaks=True),
    ))  # fmt: skip
    ladder = ladder_of(((1, 1), (3, 2)), backend)
    runner = Checker.of(Setting(program, backend, ladder, (0, 1), Room(3, 2, 2, 4))).runner
    at = runner.machine.at
    names = [name_of(runner, address) for address in range(at.cells)]
    assert all(names)
    fixed = [a for a in range(at.pool) if a not in at.sinks]
    assert len({names[a] for a in fixed}) == len(fixed)
    assert {names[a] for a in at.sinks} == {"the sink"}
    assert names[at.caches[1] + 5] == "row 1, position 1 of the cache of scatter(t1)"
    assert names[runner.machine.constants[4]] == "the tensor of t5 = constant(t4)"
    for capture in runner.captures.values():
        bucket = said_bucket(ladder, capture.key)
        for address, cells in capture.footprint:
            for row in range(cells):
                assert re.search(
                    rf"\brow {row} of t\d of {re.escape(bucket)}", names[address + row]
                )
