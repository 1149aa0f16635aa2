"""Captures that fail, and captures made twice: nothing may be left of one, and both must agree."""

from __future__ import annotations

from collections.abc import Iterable

from simcg.formal.blame import blame_world
from simcg.formal.capture import CaptureFailed
from simcg.formal.check import FOREIGN, OLD, drawing
from simcg.formal.launch import Capture
from simcg.formal.meaning import DRAWN_BEFORE, Meaning
from simcg.formal.program import Program
from simcg.formal.recorded import calls
from simcg.formal.rules import Rules
from simcg.formal.runner import Runner
from simcg.formal.setting import Setting
from simcg.formal.tally import Tally
from simcg.formal.violation import Refused, Violation
from simcg.formal.words import counted, operator, said_bucket


def check_captures(setting: Setting, rules: Rules, meaning: Meaning, tally: Tally) -> None:
    """Raises ``Violation`` when a failed capture leaves something (I20), or when what the device
    holds changes a capture (I16). A program that the backend refuses has nothing to check.
    """
    clean = setting.runner(meaning.terms, rules)
    try:
        clean.capture_all(setting.order, setting.modes)
    except Refused:
        return
    try:
        _elsewhere(setting, rules, meaning, clean)
        tally.witnesses["I16"] += 1
        for index in range(len(setting.program.ops)):
            _failing(setting, rules, meaning, clean, index)
            tally.witnesses["I20"] += 1
    except Violation as violation:
        violation.story = [*setting.lines(), *violation.story]
        raise


def _elsewhere(setting: Setting, rules: Rules, meaning: Meaning, clean: Runner) -> None:
    """The same captures on a device with other contents and another state of the generator."""
    runner = setting.runner(meaning.terms, rules)
    memory, machine = runner.machine.memory, runner.machine
    memory.fill(0, machine.at.cells, machine.terms.foreign, FOREIGN)
    machine.drawn = DRAWN_BEFORE
    runner.capture_all(setting.order, setting.modes)
    for key, capture in clean.captures.items():
        if runner.captures.get(key) != capture:
            bucket = said_bucket(setting.ladder, key)
            what = f"the captures of {bucket} differ on devices that hold different values"
            op = _parting(setting.program, capture, runner.captures.get(key))
            raise Violation("I16", what, op, ["captured on two devices"])


def _parting(program: Program, one: Capture, other: Capture | None) -> str:
    """The first operator whose launches differ between two captures; "" for none."""
    both = zip(calls(one), calls(other), strict=False) if other else ()
    return next((operator(program, a.op) for (a, _), (b, _) in both if a != b), "")


def _left(before: tuple[Iterable[int], ...], after: tuple[Iterable[int], ...]) -> str:
    """What a failed capture has left of pool and outside memory, or of the captures."""
    taken = [len({*late} - {*early}) for early, late in zip(before, after, strict=True)]
    where = ("of the pool", "outside the pool")
    said = [f"{counted(n, 'block')} {at}" for n, at in zip(taken, where, strict=True) if n]
    told = f"the failed capture still has {' and '.join(said)}"
    return told if said else "the failed capture has changed what others hold"


def _failing(
    setting: Setting, rules: Rules, meaning: Meaning, clean: Runner, fails_at: int
) -> None:
    """The last capture breaks off at an operator and is made again."""
    runner = setting.runner(meaning.terms, rules)
    machine, (first, end) = runner.machine, runner.machine.at.worlds
    *others, last = [(index, mode) for index in setting.order for mode in setting.modes]
    for index, mode in others:
        runner.capture_one(index, mode)
    world = machine.world(meaning.before)
    machine.memory.put(first, world, OLD)
    machine.drawn = DRAWN_BEFORE
    before = (set(machine.pool.live), dict(machine.outside.live), dict(runner.captures))
    op, bucket = setting.program.words(fails_at), said_bucket(setting.ladder, last[:1])
    story = [f"the last capture, of {bucket}, fails at ({op})"]
    try:
        runner.capture_one(*last, fails_at=fails_at)
    except CaptureFailed:
        pass
    else:
        return  # the key was captured before: the program bakes no scalar, or there is one bucket
    found = machine.memory.value[first:end]
    for sink in machine.at.sinks:
        found[sink - first] = machine.terms.poison
    if found != world:
        violation = blame_world(machine, world, found, OLD)
        raise Violation("I20", violation.what, violation.op, story)
    constants = set(machine.constants.values())  # the warm-up made them: caches stay
    after = (set(machine.pool.live) - constants, dict(machine.outside.live), dict(runner.captures))
    if after != (before[0] - constants, *before[1:]):
        raise Violation("I20", _left(before[:2], after[:2]), op, story)
    if machine.drawn != DRAWN_BEFORE:
        raise Violation("I20", "the generator has moved", drawing(setting.program), story)
    runner.capture_one(*last)
    if runner.captures != clean.captures:
        what = "the capture made afterwards is not the one that is made without a failure"
        raise Violation("I20", what, op, story)
