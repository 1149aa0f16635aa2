"""What a replay has in it: which invariants speak of a capture, and how often replays count."""

from __future__ import annotations

from collections import Counter

import pytest

from simcg.backend import BREAKABLE, FULL, CaptureBackend
from simcg.formal.check import Checker
from simcg.formal.explore import ladder_of
from simcg.formal.invariants import INVARIANTS
from simcg.formal.launch import Capture, Launch, Segment
from simcg.formal.program import Op, Program
from simcg.formal.setting import Room, Setting
from simcg.formal.witness import Premises, premises

ROOM = Room(tokens=3, slots=2, rows=2, length=4)


def met(backend: CaptureBackend, *ops: Op) -> Premises:
    """Of the only capture of a program."""
    program = Program(ops)
    ladder = ladder_of(((3, 2),), backend)
    checker = Checker.of(Setting(program, backend, ladder, (0,), ROOM))
    (capture,) = checker.runner.captures.values()
    return premises(program, capture)


def test_replays_are_counted_for_every_invariant_with_padding_and_with_empty_slots() -> None:
    witnesses = Counter({"I1": 1})
    Premises(("I1", "I2"), ("I7",), ("I9", "I1")).count(witnesses, 100, 10, 3)
    assert witnesses == {"I1": 104, "I2": 100, "I7": 10, "I9": 3}


GEMM = Op("gemm", (0,))
BREAK = Op("gemm", (0,), breaks=True)

CASES: dict[str, tuple[CaptureBackend, tuple[Op, ...], set[str]]] = {
    "a row-local kernel": (FULL, (GEMM,), set()),
    "a tensor from outside": (FULL, (Op("borrow", (0,)),), {"I1"}),
    "a tensor from outside in a break": (BREAKABLE, (Op("borrow", (0,), breaks=True),),
                                         {"I3", "I12"}),
    "a constant": (FULL, (Op("constant", (0,)),), {"I2"}),
    "a break": (BREAKABLE, (BREAK,), {"I3", "I12"}),
    "a break that is not one": (FULL, (BREAK,), set()),
    "a break that reads what a graph made": (BREAKABLE, (GEMM, Op("gemm", (1,), breaks=True)),
                                             {"I3", "I5", "I12"}),
    "a break that writes in place": (BREAKABLE, (GEMM, Op("accumulate", (1, 0), breaks=True)),
                                     {"I5", "I12"}),
    "a nested break": (BREAKABLE, (BREAK, Op("gemm", (1,), breaks=True, nested=True)),
                       {"I3", "I12", "I13"}),
    "memory handed on": (FULL, (GEMM, Op("gemm", (1,)), Op("gemm", (2,))), {"I4"}),
    "memory written in place": (FULL, (GEMM, Op("accumulate", (1, 0))), set()),
    "a cache": (FULL, (Op("scatter", (0,)), GEMM), {"I11", "+I8"}),
    "attention": (FULL, (Op("scatter", (0,)), Op("attend", (0,))), {"I11", "I17", "+I8", "-I9"}),
    "attention over the batch": (FULL, (Op("causal", (0,)),), {"I11", "-I9"}),
    "a state": (FULL, (Op("state", (0,)),), {"I11", "I15", "-I9"}),
    "rows that cross": (FULL, (Op("mix", (0,)),), {"I11"}),
    "numbers by position": (FULL, (Op("random", (0,)),), {"I11", "I15"}),
    "numbers of a generator": (BREAKABLE, (Op("draw", (0,), breaks=True),),
                               {"I3", "I12", "I15"}),
    "a scalar in a graph": (FULL, (Op("launch", (0,)),), {"I17"}),
    "a scalar in a break": (BREAKABLE, (Op("launch", (0,), breaks=True),), {"I3", "I12"}),
    "a second stream": (FULL, (Op("gemm", (0,), side=True), GEMM, Op("add", (1, 2))),
                        {"I12", "I21"}),
    "a second stream that is alone": (FULL, (Op("gemm", (0,), side=True),), {"I12"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_invariant_speaks_of_a_capture_that_has_what_it_is_about(case: str) -> None:
    """With + where there is padding, with - where there are empty request slots."""
    backend, ops, expected = CASES[case]
    found = met(backend, *ops)
    assert found.padded[0] == "I7"
    said = {*found.always, *("+" + k for k in found.padded[1:]), *("-" + k for k in found.sentinel)}
    assert said == expected
    assert {key.strip("+-") for key in said} <= set(INVARIANTS)


@pytest.mark.parametrize(("outs", "shared"), [
    ((0, 3), False), ((3, 0), False), ((0, 2), True), ((5, 3), True), ((4, 4), True),
    ((0, 3, 7), False), ((6, 0, 2), True),
])  # fmt: skip
def test_results_of_three_rows_share_memory_where_their_cells_meet(
    outs: tuple[int, ...], shared: bool
) -> None:
    launches = tuple(Launch(i, "gemm", (), (), out, 3, 1) for i, out in enumerate(outs))
    capture = Capture((0,), 3, 1, (Segment(launches, launches, launches),), {})
    program = Program(tuple(Op("gemm", (0,)) for _ in outs))
    assert ("I4" in premises(program, capture).always) == shared
