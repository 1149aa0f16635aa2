"""A difference is told with its place, and blamed on what the two values say."""

from __future__ import annotations

import re

import pytest

from simcg.formal.blame import blame_output, blame_world
from simcg.formal.check import OLD
from simcg.formal.launch import Launch
from simcg.formal.machine import Machine, Run, Tags, layout_of
from simcg.formal.memory import Tag
from simcg.formal.program import Op, Program
from simcg.formal.terms import Terms
from simcg.formal.violation import Violation

PROGRAM = Program((Op("scatter", (0,)), Op("state", (0,)), Op("scatter", (2,)), Op("state", (2,))))
ROWS, LENGTH = 2, 3


def machine() -> Machine:
    layout = layout_of(PROGRAM, tokens=3, slots=2, rows=ROWS, length=LENGTH)
    return Machine(Terms(), PROGRAM, layout)


def places(of: Machine) -> dict[int, tuple[int, ...]]:
    """(row, position), or (row,), of each cell of caches and states but the sinks."""
    found: dict[int, tuple[int, ...]] = {}
    for base in of.at.caches.values():
        cells = ((r, p) for r in range(ROWS) for p in range(LENGTH))
        found |= {base + i: cell for i, cell in enumerate(cells)}
    for base in of.at.states.values():
        found |= {base + row: (row,) for row in range(ROWS)}
    return found


WRITTEN: Tag = (1, (0,), 5)
PADDING: Tag = ("padding", 1, (0,), 5)


@pytest.mark.parametrize(("tag", "cache", "state"), [
    (WRITTEN, "I4", "I15"), (PADDING, "I8", "I15"), (OLD, "I4", "I4"),
])  # fmt: skip
def test_a_wrong_cell_is_told_with_its_row_and_position(tag: Tag, cache: str, state: str) -> None:
    """Each cell of each cache and state in turn; sinks are not compared."""
    m = machine()
    first, end = m.at.worlds
    right = [m.terms.make("token", 0, i) for i in range(end - first)]
    wrong = m.terms.make("gemm", 0, right[0])
    for address, where in places(m).items():
        found = [*right]
        found[address - first] = wrong
        m.memory.tag[address] = tag
        told = blame_world(m, right, found, OLD)
        assert told.key == (cache if len(where) == 2 else state)
        numbers = re.search(r"row (\d+)(?:, position (\d+))?", str(told))
        assert numbers is not None
        assert tuple(int(n) for n in numbers.groups() if n is not None) == where


def test_a_cell_of_an_earlier_step_that_changed_is_outside_of_what_this_one_writes() -> None:
    m = machine()
    first, end = m.at.worlds
    right = [m.terms.make("old cache", 0, 0, i) for i in range(end - first)]
    found = [m.terms.make("token", 0, 0), *right[1:]]
    m.memory.tag[first] = WRITTEN
    assert blame_world(m, right, found, OLD).key == "I6"


def test_the_first_wrong_row_of_an_output_is_told() -> None:
    m = machine()
    right = [m.terms.make("token", 0, i) for i in range(4)]
    for row in range(4):
        found = [*right[:row], *[m.terms.make("gemm", 0, t) for t in right[row:]]]
        assert f"row {row} of the output" in str(blame_output(m, right, found))
    told = blame_output(m, right, right[:3])
    assert told.key == "I14"
    assert {"3", "4"} <= set(re.findall(r"\d+", str(told)))


def test_blame_is_that_of_the_innermost_difference() -> None:
    """Whatever lies around it, and of the first argument in which two terms differ."""
    m = machine()
    terms = m.terms
    a, b, c = (terms.make("token", 0, i) for i in range(3))
    poison, foreign = terms.poison, terms.foreign
    for want, got, key in (
        (a, b, "I4"),
        (terms.make("gemm", 0, a), terms.make("gemm", 0, b), "I4"),
        (terms.make("gemm", 0, a), terms.make("gemm", 0, poison), "I4"),
        (terms.make("mix", 0, a, b), terms.make("mix", 0, a, poison), "I7"),
        (terms.make("mix", 0, a, b), terms.make("mix", 0, a, b, c), "I7"),
        (terms.make("attend", 0, a, b), terms.make("attend", 0, a), "I17"),
        (terms.make("attend", 0, a, b), terms.make("attend", 0, a, b, poison), "I7"),
        (terms.make("causal", 0, a, b), terms.make("causal", 0, a), "I9"),
        (terms.make("causal", 0, a, b), terms.make("causal", 0, a, poison), "I7"),
        (terms.make("constant", 0, a, b), terms.make("constant", 0, a, foreign), "I2"),
        (terms.make("borrow", 0, a, b), terms.make("borrow", 0, a, foreign), "I5"),
        (terms.make("random", 0, a, 3), terms.make("random", 0, a, 4), "I11"),
        (terms.make("draw", 0, a, 3), terms.make("draw", 0, a, 4), "I15"),
        (terms.make("launch", 0, a, 0), terms.make("launch", 0, a, 1), "I17"),
        (terms.make("host", 0, a, 0), terms.make("host", 0, a, 1), "I17"),
        (terms.make("state", 0, terms.make("old state", 1, 0), a),
         terms.make("state", 0, terms.make("fresh state"), a), "I15"),
    ):  # fmt: skip
        for around in (lambda t: t, lambda t: terms.make("gemm", 3, t),
                       lambda t: terms.make("add", 3, c, t)):  # fmt: skip
            told = blame_output(m, [around(want)], [around(got)])
            assert told.key == key, told


def test_a_stale_input_is_no_matter_of_streams() -> None:
    """Also where the last operator is one of the second stream."""
    program = Program((Op("gemm", (0,)), Op("gemm", (1,), side=True)))
    layout = layout_of(program, tokens=2, slots=1, rows=1, length=2)
    m = Machine(Terms(), program, layout)
    at = m.at.statics
    run = Run((0,), 1, 2, 1, 2, at, 2, Tags((0,), 1))
    launch = Launch(0, "gemm", (at["ids"],), (0,), m.pool.allocate(2), 2, 1)
    with pytest.raises(Violation) as stale:
        m.run(launch, run)
    assert stale.value.key == "I11"
    m.memory.fill(at["ids"], 2, m.terms.make("token", 0, 0), run.tags["ids"])
    m.run(launch, run)
    side = Launch(1, "gemm", (launch.out,), (1,), m.pool.allocate(2), 2, 1, side=True)
    m.memory.tag[launch.out + 1] = ("nothing",)
    with pytest.raises(Violation) as unordered:
        m.run(side, run)
    assert unordered.value.key == "I21"
    m.memory.put(launch.out, m.memory.value[launch.out : launch.out + 2], run.tags[1])
    m.run(side, run)


def test_a_term_is_shown_with_the_number_of_its_operator_counted_from_one() -> None:
    """As ``t1`` is what the first operator makes. What lies deeper than three is cut short."""
    terms = Terms()
    ids = terms.make("token", 4, 1)
    assert terms.show(ids) == "s4[1]"
    assert terms.show(0) == "0"
    assert terms.show(terms.make("old cache", 1, 2, 3)) == "old cache#2[row 2, position 3]"
    assert terms.show(terms.make("old state", 1, 2)) == "old state#2[row 2]"
    nested = terms.make("gemm", 0, ids)
    assert terms.show(nested) == "gemm#1(s4[1])"
    nested = terms.make("add", 1, terms.make("gemm", 4, nested), ids)
    assert terms.show(nested) == "add#2(gemm#5(gemm#1(s4[1])), s4[1])"
    assert terms.show(terms.make("gemm", 6, nested)) == "gemm#7(add#2(gemm#5(gemm#1(...)), s4[1]))"
    assert "gemm#1(...)" not in terms.show(nested)


def test_a_wrong_result_is_told_by_the_operator_that_made_it() -> None:
    """The innermost that differs, or the copy to the output where none does."""
    m = machine()
    a, b = (m.terms.make("token", 0, i) for i in range(2))
    for op in range(3):
        right, wrong = (m.terms.make("gemm", 3, m.terms.make("gemm", op, t)) for t in (a, b))
        assert blame_output(m, [right], [wrong]).op == PROGRAM.words(op)
    assert blame_output(m, [a], [b]).op not in {PROGRAM.words(i) for i in range(4)}
