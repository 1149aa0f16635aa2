"""What is enumerated is everything of a scope, once: against brute force on small scopes."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from simcg.errors import InputError
from simcg.formal.enumerate import (
    Scope,
    Sequences,
    after,
    fresh,
    programs,
    single_steps,
    steps,
)
from simcg.formal.program import KINDS, ONLY_AS_BREAK, TWO_INPUTS, Kind, Op, Program
from simcg.formal.step import Request, Step

SOME: tuple[Kind, ...] = ("gemm", "add", "accumulate", "scatter", "attend", "host")


def every_program(kinds: tuple[Kind, ...], ops: int, breaks: int) -> set[Program]:
    """All that the language allows, sifted by reading."""
    found = set()
    for length in range(1, ops + 1):
        choices = [
            Op(kind, inputs, breaks=b, side=s)
            for kind in kinds
            for inputs in product(range(length), repeat=2 if kind in TWO_INPUTS else 1)
            for b, s in ((False, False), (True, False), (False, True))
        ]
        for chosen in product(choices, repeat=length):
            try:
                program = Program(chosen)
            except InputError:
                continue
            if sum(op.breaks for op in chosen) <= breaks and wanted(program):
                found.add(program)
    return found


def wanted(program: Program) -> bool:
    """Captured whole or in pieces, no value is computed for nothing, sums have one order."""
    ops = program.ops
    graphs = all(op.breaks or op.kind not in ONLY_AS_BREAK for op in ops)
    ordered = all(op.inputs[0] <= op.inputs[-1] for op in ops if op.kind == "add")
    return graphs and ordered and not unread(program)


def unread(program: Program) -> bool:
    """Whether some value that an operator makes is neither read later nor the output."""
    for index, target in enumerate(program.targets):
        if not target:
            continue
        later = program.ops[index + 1 :]
        read = any(target in o.inputs for o in later)
        if not read and target != program.output:
            return True
    return False


@pytest.mark.parametrize("breaks", [0, 1, 2])
def test_programs_are_all_that_the_language_allows_without_dead_values_once_each(
    breaks: int,
) -> None:
    found = list(programs(Scope(ops=2, breaks=breaks, tokens=1, sequences=1, kinds=SOME)))
    assert len(found) == len(set(found))
    assert set(found) == every_program(SOME, 2, breaks)


def test_the_programs_of_all_kinds_are_as_many_as_is_said() -> None:
    counts = [0] * 3
    for program in programs(Scope(ops=2, breaks=2, tokens=1, sequences=1)):
        counts[len(program.ops)] += 1
    assert counts == [0, 24, 868]
    assert {op.kind for p in programs(Scope(2, 2, 1, 1)) for op in p.ops} == set(KINDS)


def test_nested_breaks_follow_a_break() -> None:
    nested = [
        p
        for p in programs(Scope(2, 2, 1, 1, kinds=("gemm",), nested=True))
        if any(op.nested for op in p.ops)
    ]
    assert [str(p) for p in nested] == ["t1 = gemm(ids) break; t2 = gemm(t1) nested break"]
    with pytest.raises(InputError, match="a break after a break"):
        Program((Op("gemm", (0,)), Op("gemm", (1,), breaks=True, nested=True)))


SCOPE = Scope(ops=1, breaks=0, tokens=3, sequences=2, length=3)
STATEFUL = Program((Op("state", (0,)),))


def every_step(rows: int) -> set[tuple[tuple[int, int, int], ...]]:
    """(row, context, query) of every batch, by brute force."""
    singles = [(r, c, q) for r in range(rows) for c in range(3) for q in range(1, 4 - c)]
    return {
        batch
        for count in (1, 2)
        for batch in product(singles, repeat=count)
        if len({r for r, _, _ in batch}) == count and sum(q for *_, q in batch) <= SCOPE.tokens
    }


def test_single_steps_are_every_batch_up_to_renaming_rows() -> None:
    plain = [tuple((r.row, r.context, r.query) for r in s.requests)
             for s in single_steps(SCOPE, STATEFUL)]  # fmt: skip
    assert len(plain) == len(set(plain))
    assert set(plain) <= every_step(2)
    renamed = {
        tuple((names[row], c, q) for row, c, q in batch)
        for batch in plain
        for names in permutations(range(2))
    }
    assert renamed == every_step(2)


def test_a_program_that_does_not_look_back_needs_no_cached_lengths() -> None:
    steps_of = single_steps(SCOPE, Program((Op("causal", (0,)),)))
    assert {tuple(r.query for r in s.requests) for s in steps_of} == {
        (1,), (2,), (3,), (1, 1), (1, 2), (2, 1),
    }  # fmt: skip
    assert all(r.context == 0 for s in steps_of for r in s.requests)
    assert all([r.row for r in s.requests] == [*range(len(s.requests))] for s in steps_of)


def test_a_program_with_a_host_scalar_is_stepped_with_both_values() -> None:
    modes = [s.mode for s in single_steps(SCOPE, Program((Op("launch", (0,)),)))]
    assert modes.count(0) == modes.count(1) > 0


def test_steps_of_traces_go_on_or_begin_anew_under_another_name() -> None:
    before: Sequences = ((0, 2), (1, 0))
    found = list(steps(SCOPE, before))
    assert len(found) == len(set(found))
    alone = {(r.row, r.name, r.context, r.query) for s in found for r in s.requests}
    on, anew = {(0, 0, 2, 1)}, {(0, 2, 0, q) for q in (1, 2, 3)}
    assert alone == on | anew | {(1, 1, 0, q) for q in (1, 2, 3)}


def test_rows_that_nobody_has_used_are_taken_in_order() -> None:
    first = [s.requests[0].row for s in steps(SCOPE, fresh(2))]
    assert set(first) == {0}


def test_sequences_after_a_step_are_those_that_it_names() -> None:
    step = Step((Request(1, 3, 0, 2), Request(0, 0, 1, 1)))
    assert after(((0, 1), (1, 2)), step) == ((0, 2), (3, 2))
