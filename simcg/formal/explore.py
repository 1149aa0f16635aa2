"""All of a small scope: each program, backend, ladder, order of captures and step is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import permutations

from simcg.backend import BREAKABLE, FULL, TC_PIECEWISE, CaptureBackend
from simcg.formal.check import Checker
from simcg.formal.enumerate import Scope, single_steps
from simcg.formal.meaning import Ground, Meaning
from simcg.formal.program import Program
from simcg.formal.rules import Rules
from simcg.formal.setting import Setting
from simcg.formal.step import Step
from simcg.formal.tally import Tally
from simcg.formal.witness import premises
from simcg.ladder import Bucket, Ladder

BACKENDS: tuple[CaptureBackend, ...] = (FULL, BREAKABLE, TC_PIECEWISE)


def settings(scope: Scope, program: Program) -> Iterator[Setting]:
    """Every setting of a program in the scope.

    A host scalar that graphs bake is 0 or 1: ``tc_piecewise``, which compiles once, captures for
    0, and a step with 1 fails its guard and runs eager; the others capture for both.
    """
    baked = any(op.kind == "launch" for op in program.ops)
    for buckets in scope.ladders:
        for backend in BACKENDS:
            ladder = ladder_of(buckets, backend)
            modes = (0, 1) if baked and backend is not TC_PIECEWISE else (0,)
            for rule in scope.rules:
                for order in permutations(range(len(ladder))):
                    yield Setting(program, backend, ladder, order, scope.room, rule, modes)


def ladder_of(buckets: tuple[tuple[int, int], ...], backend: CaptureBackend) -> Ladder:
    """The ladder with slots where the backend captures them, else with its sizes."""
    if backend.uses_slots:
        return Ladder(tuple(Bucket(tokens, slots) for tokens, slots in sorted(buckets)))
    return Ladder.of(tokens for tokens, _ in buckets)


Signature = tuple[object, ...]


@dataclass(slots=True)
class Explorer:
    """Checks single steps of programs of one scope; violations are kept in the tally."""

    scope: Scope
    rules: Rules
    ground: Ground
    tally: Tally

    @staticmethod
    def of(scope: Scope, rules: Rules | None = None) -> Explorer:
        """An explorer that has seen nothing."""
        return Explorer(scope, rules or Rules(), Ground.of(scope.room, scope.sequences), Tally())

    def program(self, program: Program) -> None:
        """Every setting and every step of one program; raises the first ``Violation``."""
        self.tally.counts["programs"] += 1
        meaning = Meaning.of(self.ground.terms.copy(), program, self.scope.room)
        every = single_steps(self.scope, program)
        seen: list[Signature] = []
        for setting in settings(self.scope, program):
            self.tally.counts["settings"] += 1
            checker = Checker.of(setting, self.rules, meaning, self.ground)
            self.tally.counts["captures"] += len(checker.runner.captures)
            if not checker.runner.captures:
                self.tally.counts["refused"] += 1
            signature = signed(checker)
            if signature in seen:  # the same launches, addresses and memory as before
                self.tally.counts["settings like another"] += 1
                self.tally.witnesses["I18"] += 1
                continue
            seen.append(signature)
            self._steps(checker, every)

    def _steps(self, checker: Checker, every: Iterable[Step]) -> None:
        replays = {key: [0, 0, 0] for key in checker.runner.captures}
        tally, choose = self.tally, checker.runner.choose
        for step in every:
            checker.step(step)
            found = choose(step)
            tally.counts["steps"] += 1
            if found is None:
                tally.counts["eager"] += 1
                continue
            of = replays[found.key]
            of[0] += 1
            of[1] += found.rows > step.tokens
            of[2] += found.slots > len(step.requests)
        for key, times in replays.items():
            tally.counts["replays"] += times[0]
            tally.counts["padded"] += times[1]
            met = premises(checker.setting.program, checker.runner.captures[key])
            met.count(tally.witnesses, *times)
        tally.witnesses["I10"] += len(checker.shapes)
        if len(checker.runner.captures) > 1 or checker.handed_out[1][0]:
            tally.witnesses["I6"] += sum(of[0] for of in replays.values())


def signed(checker: Checker) -> Signature:
    """Everything on which the checked steps of a setting depend, beside the program."""
    runner, machine = checker.runner, checker.runner.machine
    return (
        runner.ladder, runner.rule, runner.backend.breaks, machine.layout,
        sorted(runner.captures.items(), key=lambda item: item[0]),
        machine.constants, *checker.handed_out, checker.calm,
    )  # fmt: skip
