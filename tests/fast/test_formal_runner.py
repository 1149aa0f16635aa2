"""A runner plans an eager run once, and again when memory has changed hands or inputs move."""

from __future__ import annotations

from simcg.backend import BREAKABLE
from simcg.formal.memory import STATICS, Blocks
from simcg.formal.program import Op, Program
from simcg.formal.rules import Rules
from simcg.formal.runner import Runner
from simcg.formal.setting import Room, Setting
from simcg.formal.step import Request, Step
from simcg.formal.terms import Terms
from simcg.ladder import Ladder

PROGRAM = Program((Op("gemm", (0,)), Op("gemm", (1,), breaks=True), Op("add", (1, 2))))


def uncaptured(rules: Rules | None = None) -> Runner:
    """A runner without captures: every step runs eager."""
    setting = Setting(PROGRAM, BREAKABLE, Ladder.of((3,)), (0,), Room(3, 2, 2, 4))
    return setting.runner(Terms(), rules or Rules())


def take(runner: Runner, tokens: int) -> None:
    runner.step(Step((Request(0, 0, 0, tokens),)))
    runner.finish()


def test_an_eager_run_of_a_shape_is_planned_once() -> None:
    runner = uncaptured()
    take(runner, 2)
    (plan,) = runner.plans.values()
    take(runner, 2)
    take(runner, 3)
    assert len(runner.plans) == 2
    assert any(known is plan for known in runner.plans.values())


def test_it_is_planned_anew_when_somebody_holds_the_memory_it_had() -> None:
    runner = uncaptured()
    take(runner, 2)
    (plan,) = runner.plans.values()
    outside = runner.machine.outside
    address = outside.allocate(1)
    take(runner, 2)
    (other,) = runner.plans.values()
    assert other is not plan
    assert address not in {launch.out for launch in other.early}
    outside.free(address)
    take(runner, 2)
    (again,) = runner.plans.values()
    assert again == plan


def test_a_static_input_has_the_cells_that_the_largest_step_fills() -> None:
    runner = uncaptured()
    largest = Step((Request(0, 0, 0, 2), Request(1, 1, 0, 1)))
    filled = {name: len(values) for name, values in runner.images.of(largest, 3, 2)}
    layout = runner.machine.layout
    assert filled == {name: layout.static_cells(name) for name in STATICS}


def test_a_weight_is_one_cell() -> None:
    machine = uncaptured().machine
    memory, at = machine.memory, machine.at.pool + 3
    values, tags = list(memory.value), list(memory.tag)
    machine.make_weight(2, at)
    assert [i for i, value in enumerate(memory.value) if value != values[i]] == [at]
    assert [i for i, tag in enumerate(memory.tag) if tag != tags[i]] == [at]
    assert memory.tag[at] == ("weight", 2)


def test_an_allocator_is_as_at_its_snapshot_whatever_was_done_since() -> None:
    """Blocks taken, given back, or both."""
    for later in (("take",), ("give",), ("take", "give"), ("give", "take"), ()):
        blocks = Blocks(0, 20)
        first, _ = blocks.allocate(4), blocks.allocate(4)
        at = blocks.snapshot()
        for what in later:
            if what == "take":
                blocks.allocate(6)
            else:
                blocks.free(first)
        blocks.restore(at)
        assert blocks.snapshot() == at
        assert blocks.allocate(3) == 8
