"""A counterexample as a film: what every cell holds after each kernel of the step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from simcg.errors import Finding, InputError
from simcg.formal.check import Checker
from simcg.formal.enumerate import single_steps
from simcg.formal.explore import settings
from simcg.formal.kernels import Kernel
from simcg.formal.launch import Launch
from simcg.formal.machine import Machine, Run
from simcg.formal.memory import STATICS, Memory
from simcg.formal.mutants.hunt import programs_of, scope_of
from simcg.formal.mutants.mutant import Mutant
from simcg.formal.rules import Rules
from simcg.formal.setting import Setting
from simcg.formal.step import Step
from simcg.formal.violation import Violation


@dataclass(frozen=True, slots=True)
class Frame:
    """Memory after ``what`` has happened; ``touched``: the cells that it read or wrote."""

    what: str
    memory: Memory
    touched: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Film:
    """One step of one setting under some rules. ``violation``: how it ended; None if it is right.

    The first frame is memory before the step, the second after the host has written its inputs.
    """

    setting: Setting
    step: Step
    machine: Machine
    frames: tuple[Frame, ...]
    violation: Violation | None

    def under(self, rules: Rules) -> Film:
        """The same step of the same setting under other rules."""
        return _film(self.setting, rules, self.step)

    def shown(self, address: int, frame: Frame) -> str:
        """What a cell holds in a frame, in words."""
        return self.machine.terms.show(frame.memory.value[address])

    def places(self) -> dict[int, str]:
        """A name for every cell that has a meaning of its own, by address."""
        layout, at = self.machine.layout, self.machine.at
        names = {
            at.statics[name] + i: f"{name}[{i}]"
            for name in STATICS
            for i in range(layout.static_cells(name))
        }
        names |= {at.out + i: f"output[{i}]" for i in range(layout.tokens)}
        for base in at.caches.values():
            for cell in range(layout.sink):
                row, position = divmod(cell, layout.length)
                names[base + cell] = f"cache[{row}, {position}]"
            names[base + layout.sink] = "cache sink"
        names |= {a: f"pool {a - at.pool}" for a in range(at.pool, at.outside)}
        return names | {a: f"outside {a - at.outside}" for a in range(at.outside, at.cells)}


def counterexample(mutant: Mutant) -> Film:
    """The first single step on which the mutant's scope catches it.

    Raises ``InputError`` for a mutant that only traces, captures, several ranks or the order of two
    streams tell.
    """
    for setting, step in _steps(mutant):
        with suppress(Violation):  # of the captures: no step to show
            film = _film(setting, mutant.rules, step)
            if film.violation is not None:
                return film
    wrong = Finding(f"{mutant.name}: no single step on one stream is wrong")
    raise InputError("counterexample", "", wrong, "a mutant that such a step tells")


def _steps(mutant: Mutant) -> Iterator[tuple[Setting, Step]]:
    """Every step of the mutant's scope on one stream, as ``hunt`` goes through them."""
    scope = scope_of(mutant)
    for program in programs_of(mutant):
        if any(op.side for op in program.ops):
            continue
        every = single_steps(scope, program)
        yield from ((s, step) for s in settings(scope, program) for step in every)


def _film(setting: Setting, rules: Rules, step: Step) -> Film:
    frames: list[Frame] = []
    watched = replace(rules, kernels=dict(_watched(rules.kernels, frames)))
    checker = Checker.of(setting, watched)
    frames[:] = [Frame("before the step", checker.calm)]
    violation = None
    try:
        checker.step(step)
    except Violation as found:
        violation = found
    return Film(setting, step, checker.runner.machine, tuple(frames), violation)


def _watched(kernels: Mapping[str, Kernel], frames: list[Frame]) -> Iterator[tuple[str, Kernel]]:
    """The kernels, each of which leaves a frame."""

    def watched(kernel: Kernel) -> Kernel:
        def run(machine: Machine, launch: Launch, run: Run) -> None:
            if not frames:  # a warm-up of the captures
                kernel(machine, launch, run)
                return
            if len(frames) == 1:
                frames.append(_frame("the host writes the inputs", frames[0], machine, set()))
            try:
                kernel(machine, launch, run)
            finally:
                line = machine.line(launch)
                frames.append(_frame(line, frames[-1], machine, _read(launch)))

        return run

    for name, kernel in kernels.items():
        yield name, watched(kernel)


def _read(launch: Launch) -> set[int]:
    read = {base + row for base in launch.inputs for row in range(launch.rows)}
    return read | ({launch.extra} if launch.extra >= 0 else set())


def _frame(what: str, before: Frame, machine: Machine, read: set[int]) -> Frame:
    """Now, after the frame ``before``: what was written is what has another value or tag."""
    now = Memory(machine.memory.value.copy(), machine.memory.tag.copy())
    cells = range(len(now.value))
    then = before.memory
    written = {i for i in cells if (now.value[i], now.tag[i]) != (then.value[i], then.tag[i])}
    return Frame(what, now, frozenset(written | read))
