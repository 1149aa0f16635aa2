"""Random settings of the formal model and steps for them; a machine that plays them at length."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from simcg.backend import BREAKABLE, FULL, TC_PIECEWISE
from simcg.errors import InputError
from simcg.formal import reference
from simcg.formal.capture import CaptureFailed
from simcg.formal.check import FOREIGN
from simcg.formal.enumerate import Sequences, after, fresh
from simcg.formal.explore import ladder_of
from simcg.formal.program import IN_PLACE, KINDS, TWO_INPUTS, Kind, Op, Program, makes_tensor
from simcg.formal.reference import EMPTY
from simcg.formal.rules import Rules
from simcg.formal.runner import Runner, View
from simcg.formal.setting import Room, Setting
from simcg.formal.step import Request, Step
from simcg.formal.terms import Terms
from simcg.formal.violation import Refused, Violation
from simcg.ladder import AdmissionRule

ROOM = Room(tokens=5, slots=3, rows=3, length=6)
RULES = (
    AdmissionRule(),
    AdmissionRule(max_ratio=Fraction(3, 2)),
    AdmissionRule(eager_ranges=((1, 1), (4, 4))),
)


@st.composite
def programs(draw: st.DrawFn, kinds: tuple[Kind, ...], most: int) -> Program:
    """Any program of up to so many operators of these kinds."""
    ops: list[Op] = []
    for index in range(draw(st.integers(1, most))):
        made = [0, *(i + 1 for i, op in enumerate(ops) if makes_tensor(op))]
        cached = any(op.kind == "scatter" for op in ops)
        possible = [k for k in kinds if (k != "attend" or cached)
                    and (k not in IN_PLACE or len(made) > 1)]  # fmt: skip
        kind = draw(st.sampled_from(possible))
        first = draw(st.sampled_from(made[1:] if kind in IN_PLACE else made))
        rest = [draw(st.sampled_from(made))] if kind in TWO_INPUTS else []
        breaks = draw(st.booleans())
        ops.append(
            Op(
                kind,
                (first, *rest),
                breaks=breaks,
                side=kind == "gemm" and not breaks and draw(st.booleans()),
                nested=breaks and index > 0 and ops[-1].breaks and draw(st.booleans()),
            )
        )
    if not any(makes_tensor(op) for op in ops):
        ops.append(Op("gemm", (0,)))
    try:
        return Program(tuple(ops))
    except InputError as error:  # pragma: no cover - the strategy draws what the language allows
        raise AssertionError(str(error)) from error


@st.composite
def settings(draw: st.DrawFn, kinds: tuple[Kind, ...] = KINDS, most: int = 7) -> Setting:
    """A program, a ladder of one to three buckets in any order of captures, and a rule."""
    program = draw(programs(kinds, most))
    buckets = st.tuples(st.integers(1, 5), st.integers(1, 3))
    pairs = tuple(draw(st.lists(buckets, min_size=1, max_size=3, unique=True)))
    backend = draw(st.sampled_from((FULL, BREAKABLE, TC_PIECEWISE)))
    ladder = ladder_of(pairs, backend)
    order = tuple(draw(st.permutations(range(len(ladder)))))
    modes = draw(st.sampled_from(((0,), (0, 1))))
    return Setting(program, backend, ladder, order, ROOM, draw(st.sampled_from(RULES)), modes)


@st.composite
def requests(draw: st.DrawFn, before: Sequences) -> tuple[Request, ...]:
    """A batch after these sequences."""
    chosen, room = [], ROOM.tokens
    for row in draw(st.lists(st.sampled_from(range(ROOM.rows)), min_size=1, unique=True)):
        name, length = before[row]
        if length and (length == ROOM.length or draw(st.booleans())):
            name, length = name + ROOM.rows, 0
        if room:
            query = draw(st.integers(1, min(room, ROOM.length - length)))
            chosen.append(Request(row, name, length, query))
            room -= query
    return tuple(chosen)


class Deployment(RuleBasedStateMachine):
    """One rank that captures late, fails to capture, and serves while memory changes hands.

    ``decisions``: its rules; ``kinds``, ``most``: the programs it may get.
    """

    decisions = Rules()
    kinds: tuple[Kind, ...] = KINDS
    most = 7
    view: View | None

    @initialize(data=st.data(), captured=st.integers(0, 3))
    def start(self, data: st.DataObject, captured: int) -> None:
        self.setting = setting = data.draw(settings(self.kinds, self.most))
        self.runner: Runner = setting.runner(Terms(), self.decisions)
        self.world, self.sequences, self.view = EMPTY, fresh(ROOM.rows), None
        self.blocks: list[int] = []
        setting.capture(self.runner, setting.order[:captured])
        self.same_world()

    @rule(data=st.data(), mode=st.sampled_from((0, 1)), late=st.booleans())
    def step(self, data: st.DataObject, mode: int, late: bool) -> None:
        step = Step(data.draw(requests(self.sequences)), mode)
        machine, self.runner.late = self.runner.machine, late
        want, self.world = reference.run(machine.terms, self.setting.program, step, self.world)
        old, self.view = self.view, (view := self.runner.step(step))
        if old is not None:
            self.refuses(old)
        assert self.runner.read(view) == want
        self.sequences = after(self.sequences, step)
        self.same_world()

    @rule(
        index=st.integers(0, 2),
        fails_at=st.sampled_from((-1, 0, 1, 2, 3)),
        mode=st.sampled_from((0, 1)),
    )
    def capture(self, index: int, fails_at: int, mode: int) -> None:
        """A bucket, in the middle of everything; its warm-up ends the life of the last view."""
        before = dict(self.runner.captures)
        pool = dict(self.runner.machine.pool.live)
        try:
            self.runner.capture_one(index % len(self.setting.ladder), mode, fails_at)
        except (CaptureFailed, Refused):
            assert self.runner.captures == before
            constants = set(self.runner.machine.constants.values())
            left = set(self.runner.machine.pool.live) - set(pool)
            assert left <= constants
        self.view = None
        self.same_world()

    @rule(cells=st.integers(1, 4))
    def take(self, cells: int) -> None:
        """Somebody else gets memory and writes it."""
        machine = self.runner.machine
        if len(self.blocks) < 3:
            address = machine.outside.allocate(cells)
            machine.memory.fill(address, cells, machine.terms.foreign, FOREIGN)
            self.blocks.append(address)

    @precondition(lambda self: self.blocks)
    @rule()
    def give(self) -> None:
        self.runner.machine.outside.free(self.blocks.pop(0))

    @precondition(lambda self: self.view is not None)
    @rule()
    def read_again(self) -> None:
        assert self.view is not None
        self.runner.read(self.view)

    def refuses(self, view: View) -> None:
        with pytest.raises(Violation, match=r"^I14 "):
            self.runner.read(view)

    def same_world(self) -> None:
        machine = self.runner.machine
        first, end = machine.at.worlds
        found = machine.memory.value[first:end]
        for sink in machine.at.sinks:
            found[sink - first] = machine.terms.poison
        assert found == machine.world(self.world)
        assert machine.drawn == self.world.drawn
        for block in self.blocks:
            cells = machine.outside.live[block]
            assert machine.memory.value[block : block + cells] == [machine.terms.foreign] * cells
