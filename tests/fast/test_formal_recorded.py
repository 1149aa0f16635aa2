"""A capture that is not its program, operator by operator in order, is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from simcg.backend import BREAKABLE
from simcg.formal.check import Checker
from simcg.formal.launch import Break, Capture, Launch, Marker, Segment
from simcg.formal.program import Op, Program
from simcg.formal.recorded import check_recorded
from simcg.formal.setting import Room, Setting
from simcg.formal.violation import Violation
from simcg.ladder import Ladder

PROGRAM = Program((
    Op("gemm", (0,)), Op("causal", (1,)), Op("gemm", (2,), breaks=True),
    Op("gemm", (3,), breaks=True, nested=True), Op("gemm", (4,)),
))  # fmt: skip
Entries = tuple[Launch | Marker, ...]


def captured() -> Capture:
    setting = Setting(PROGRAM, BREAKABLE, Ladder.of((3,)), (0,), Room(3, 2, 2, 4))
    (capture,) = Checker.of(setting).runner.captures.values()
    return capture


def on_graph(number: int, change: Callable[[Entries], Entries]) -> Capture:
    """Other entries in one of the two graphs."""
    capture = captured()
    items = list(capture.items)
    at = [i for i, item in enumerate(items) if isinstance(item, Segment)][number]
    graph = items[at]
    assert isinstance(graph, Segment)
    items[at] = replace(graph, entries=change(graph.entries))
    return replace(capture, items=tuple(items))


def without_nested() -> Capture:
    capture = captured()
    items = [replace(i, inner=()) if isinstance(i, Break) else i for i in capture.items]
    return replace(capture, items=tuple(items))


def break_in_a_graph() -> Capture:
    """The break's launch stands at the end of the graph before it."""
    capture = captured()
    graph, first, *rest = capture.items
    assert isinstance(graph, Segment)
    assert isinstance(first, Break)
    launches = (first.launch, *(inner.launch for inner in first.inner))
    longer = replace(graph, entries=(*graph.entries, *launches))
    return replace(capture, items=(longer, *rest))


WRONG: dict[str, tuple[Callable[[], Capture], str]] = {
    "two operators exchanged": (lambda: on_graph(0, lambda e: e[::-1]), "I12"),
    "an operator left out": (lambda: on_graph(0, lambda e: e[1:]), "I12"),
    "an operator twice": (lambda: on_graph(0, lambda e: (*e, e[-1])), "I12"),
    "the copy to the output left out": (lambda: on_graph(1, lambda e: e[:-1]), "I12"),
    "the copy to the output first": (lambda: on_graph(1, lambda e: e[::-1]), "I12"),
    "a nested break left out": (without_nested, "I13"),
    "a break in a graph": (break_in_a_graph, "I12"),
}


def test_a_capture_of_the_program_is_accepted() -> None:
    check_recorded(PROGRAM, BREAKABLE, captured())


@pytest.mark.parametrize("name", WRONG)
def test_another_capture_is_refused(name: str) -> None:
    wrong, key = WRONG[name]
    with pytest.raises(Violation) as refused:
        check_recorded(PROGRAM, BREAKABLE, wrong())
    assert refused.value.key == key


def test_an_operator_that_is_no_break_is_refused_in_a_break() -> None:
    other = Program((*PROGRAM.ops[:2], replace(PROGRAM.ops[2], breaks=False),
                     replace(PROGRAM.ops[3], nested=False), PROGRAM.ops[4]))  # fmt: skip
    with pytest.raises(Violation, match="I12"):
        check_recorded(other, BREAKABLE, captured())
