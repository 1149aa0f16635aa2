"""What a step must leave alone: all of the pool that its capture does not own, and held blocks."""

from __future__ import annotations

from itertools import permutations

import pytest

from simcg.backend import BREAKABLE, FULL, CaptureBackend
from simcg.formal.check import Checker, frame
from simcg.formal.explore import ladder_of
from simcg.formal.program import Op, Program
from simcg.formal.setting import Room, Setting

ROOM = Room(tokens=3, slots=2, rows=2, length=4)
PROGRAMS = (
    Program((Op("constant", (0,)), Op("gemm", (1,)), Op("gemm", (2,)))),
    Program((Op("borrow", (0,)), Op("gemm", (1,)), Op("add", (0, 2)))),
    Program((Op("gemm", (0,)), Op("gemm", (1,), breaks=True), Op("add", (1, 2)))),
)


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
@pytest.mark.parametrize("backend", [FULL, BREAKABLE])
def test_the_frame_is_the_pool_without_the_footprint_and_every_held_block(
    program: Program, backend: CaptureBackend
) -> None:
    """Cell by cell, of each capture and of an eager step."""
    ladder = ladder_of(((1, 1), (3, 2)), backend)
    for order in permutations(range(len(ladder))):
        checker = Checker.of(Setting(program, backend, ladder, order, ROOM))
        machine, held = checker.runner.machine, checker.handed_out[1][0]
        assert held == machine.outside.live
        for capture in (None, *checker.runner.captures.values()):
            mine = {
                cell
                for address, cells in (capture.footprint if capture else ())
                for cell in range(address, address + cells)
            }
            kept = set(range(machine.at.pool, machine.at.outside)) - mine
            kept |= {a + i for a, cells in held.items() for i in range(cells)}
            found = frame(checker.runner, capture, held)
            cells_of = [cell for start, end in found for cell in range(start, end)]
            assert len(cells_of) == len(set(cells_of))
            assert set(cells_of) == kept
