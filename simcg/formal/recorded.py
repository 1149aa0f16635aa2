"""What a capture must be, read off its items alone: every operator once, in the program's order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from simcg.backend import CaptureBackend
from simcg.formal.launch import Capture, Launch, Segment
from simcg.formal.program import Program
from simcg.formal.violation import Violation
from simcg.formal.words import counted, operator


def calls(capture: Capture) -> Iterator[tuple[Launch, bool]]:
    """The launches in the order of capture, and whether each is in a break."""
    for item in capture.items:
        if isinstance(item, Segment):
            for entry in item.entries:
                if isinstance(entry, Launch):
                    yield entry, False
        else:
            yield item.launch, True
            for inner in item.inner:
                yield inner.launch, True


def check_recorded(program: Program, backend: CaptureBackend, capture: Capture) -> None:
    """Raises ``Violation`` (I12, or I13 where a nested break is at fault)."""
    found = list(calls(capture))
    ops = [launch.op for launch, _ in found]
    for index in range(len(program.ops) + 1):
        if ops.count(index) != 1:
            nested = index < len(program.ops) and program.ops[index].nested
            word = operator(program, index)
            what = f"({word}) is recorded {counted(ops.count(index), 'time')}, expected once"
            raise Violation("I13" if nested else "I12", what, word)
    for before, later in pairwise(ops):
        if before > later:
            what = f"({operator(program, before)}) is recorded before ({operator(program, later)})"
            told = what + ", the program has them the other way round"
            raise Violation("I12", told, operator(program, later))
    for launch, breaking in found:
        marked = launch.op < len(program.ops) and program.ops[launch.op].breaks and backend.breaks
        if marked != breaking:
            place = "outside a graph" if breaking else "in a graph"
            word = operator(program, launch.op)
            raise Violation("I12", f"({word}) is {place}", word)
