"""True traces: steps one after the other on one machine, nothing filled in between by the check.

They do not rest on the havoc lemma. Between two steps a new owner takes all memory outside the
pool that is free, writes it and gives it back; captures that come late are made after the first
step; and the view of the step before must refuse to be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from simcg.formal import reference
from simcg.formal.blame import blame_output, blame_world
from simcg.formal.check import FOREIGN, drawing, told_step
from simcg.formal.enumerate import Scope, Sequences, after, fresh, steps
from simcg.formal.launch import Key
from simcg.formal.machine import Machine
from simcg.formal.memory import UNWRITTEN, Handed
from simcg.formal.places import place
from simcg.formal.reference import EMPTY, World
from simcg.formal.rules import Rules
from simcg.formal.runner import Runner, View
from simcg.formal.setting import Setting
from simcg.formal.step import Step
from simcg.formal.tally import Tally
from simcg.formal.terms import Terms
from simcg.formal.violation import Violation
from simcg.formal.words import VIEW, counted, writer


@dataclass(frozen=True, slots=True)
class Node:
    """A step of a tree of traces: what it must give, and the steps that may follow."""

    step: Step
    output: list[int]
    world: list[int]
    drawn: int
    then: tuple[Node, ...]


def tree(scope: Scope, machine: Machine) -> tuple[Node, ...]:
    """Every trace of the scope for a machine's program, with the reference's results."""
    modes = (0, 1) if any(op.kind == "launch" for op in machine.program.ops) else (0,)
    return _grown(scope, machine, modes, (EMPTY, fresh(scope.sequences)), scope.trace)


def _grown(
    scope: Scope, machine: Machine, modes: tuple[int, ...], at: tuple[World, Sequences], depth: int
) -> tuple[Node, ...]:
    if not depth:
        return ()
    world, before = at
    found = []
    for plain in steps(scope, before):
        for mode in modes:
            step = Step(plain.requests, mode) if mode else plain
            output, new = reference.run(machine.terms, machine.program, step, world)
            then = _grown(scope, machine, modes, (new, after(before, step)), depth - 1)
            found.append(Node(step, output, machine.world(new), new.drawn, then))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Moment:
    """A machine and its runner between two steps."""

    value: list[int]
    tag: list[tuple[object, ...]]
    pool: Handed
    outside: Handed
    constants: dict[int, int]
    drawn: int
    epoch: int
    captures: dict[Key, object]


@dataclass(slots=True)
class Walker:
    """Walks a tree of traces on one setting. ``late``: buckets captured after the first step."""

    setting: Setting
    runner: Runner
    tally: Tally
    late: tuple[int, ...] = ()

    @staticmethod
    def of(setting: Setting, rules: Rules, terms: Terms, tally: Tally, late: int = 0) -> Walker:
        """A walker whose ``late`` last buckets wait."""
        runner = setting.runner(terms, rules)
        first = len(setting.order) - late
        setting.capture(runner, setting.order[:first])
        return Walker(setting, runner, tally, setting.order[first:])

    def walk(self, nodes: tuple[Node, ...]) -> None:
        """Every trace; raises ``Violation`` with the steps up to it."""
        self._walk(nodes, None, [])

    def _walk(self, nodes: tuple[Node, ...], last: View | None, told: list[str]) -> None:
        start = self._moment()
        for node in nodes:
            number = self.runner.epoch + 1
            try:
                view = self._step(node, last)
            except Violation as violation:
                line = told_step(self.runner, node.step, number)
                violation.story = [*self.setting.lines(), *told, line, *violation.story]
                raise
            if node.then:
                lines = [*told, told_step(self.runner, node.step, number)]
                if last is None and self.late:
                    self._capture_late(lines)
                self._walk(node.then, view, lines)
            self._back(start)

    def _capture_late(self, lines: list[str]) -> None:
        """Capture what was not; caches, states and what captures keep stay as they are.

        The warm-up is a forward, so the view of the step before is gone.
        """
        machine = self.runner.machine
        at, before = machine.at, (list(machine.memory.value), machine.drawn)
        kept = [*machine.pool.live.items(), *machine.outside.live.items()]
        kept += [(at.worlds[0], at.worlds[1] - at.worlds[0])]
        self.setting.capture(self.runner, self.late)
        lines.append("then the remaining buckets are captured")
        sinks, value = set(at.sinks), machine.memory.value
        changed = [cell for base, cells in kept for cell in range(base, base + cells)
                   if value[cell] != before[0][cell] and cell not in sinks]  # fmt: skip
        if changed or machine.drawn != before[1]:
            raise self._lasting(changed, lines)
        self.tally.witnesses["I22"] += 1

    def _lasting(self, changed: list[int], lines: list[str]) -> Violation:
        """A late capture that changed cells, or else the generator."""
        runner, machine = self.runner, self.runner.machine
        if not changed:
            what = "the capture moved the generator, which later steps draw from"
            return Violation("I22", what, drawing(machine.program), lines)
        where = place(machine, runner.ladder, runner.captures.values(), changed[0])
        by = writer(machine.program, machine.memory.tag[changed[0]])
        return Violation("I22", f"the capture changed {where}, which later steps read", by, lines)

    def _step(self, node: Node, last: View | None) -> View:
        runner, machine = self.runner, self.runner.machine
        for base, cells in machine.outside.free_ranges():
            machine.memory.fill(base, cells, machine.terms.foreign, FOREIGN)
        view = runner.step(node.step)
        self.tally.counts["trace steps"] += 1
        if last is not None:
            self._refuses(last)
            if view.key and last.key and view.key != last.key:
                self.tally.witnesses["I18"] += 1
        if runner.pending is not None:
            return view  # the device is behind: what it reads is checked when it runs
        if runner.rules.reads_output_at_once:
            got = runner.read(view)
            if got != node.output:
                raise blame_output(machine, node.output, got)
        self._world(node)
        return view

    def _refuses(self, last: View) -> None:
        """A view is good until the next step; it is read then only by a wrong runner."""
        runner = self.runner
        if not runner.rules.reads_output_at_once:
            runner.read(last)
        try:
            runner.read(last)
        except Violation:
            self.tally.witnesses["I14"] += 1
            return
        if runner.pending is None:
            what = f"the output of step {last.epoch} can still be read"
            raise Violation("I14", what, VIEW)

    def _world(self, node: Node) -> None:
        machine = self.runner.machine
        first, end = machine.at.worlds
        world = machine.memory.value[first:end]
        for sink in machine.at.sinks:
            world[sink - first] = machine.terms.poison
        if world != node.world:
            raise blame_world(machine, node.world, world, UNWRITTEN)
        if machine.drawn != node.drawn:
            gave = counted(machine.drawn, "number")
            what = f"the generator gave {gave} so far, expected {node.drawn}"
            raise Violation("I15", what, drawing(machine.program))

    def _moment(self) -> Moment:
        machine = self.runner.machine
        return Moment(
            list(machine.memory.value), list(machine.memory.tag), machine.pool.snapshot(),
            machine.outside.snapshot(), dict(machine.constants), machine.drawn, self.runner.epoch,
            dict(self.runner.captures),
        )  # fmt: skip

    def _back(self, to: Moment) -> None:
        machine, runner = self.runner.machine, self.runner
        machine.memory.value[:], machine.memory.tag[:] = to.value, to.tag
        machine.pool.restore(to.pool)
        machine.outside.restore(to.outside)
        machine.constants, machine.drawn = dict(to.constants), to.drawn
        runner.epoch, runner.pending = to.epoch, None
        for key in set(runner.captures) - set(to.captures):
            runner.forget(key)


def walk(scope: Scope, settings: list[Setting], rules: Rules, tally: Tally) -> None:
    """Every trace of one program's settings, all captured before, and the last bucket late; with
    a second stream that is early, and one that is late.
    """
    terms = Terms()
    grown: tuple[Node, ...] = ()
    for setting in settings:
        captured_late = (0, 1) if len(setting.order) > 1 else (0,)
        streams = (False, True) if any(op.side for op in setting.program.ops) else (False,)
        for late, behind in product(captured_late, streams):
            walker = Walker.of(setting, rules, terms, tally, late)
            walker.runner.late = behind
            grown = grown or tree(scope, walker.runner.machine)
            tally.counts["walks"] += 1
            walker.walk(grown)
