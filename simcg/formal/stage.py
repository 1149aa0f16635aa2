"""A stage of the exploration: what is checked for which programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import process_time_ns
from typing import Literal

from simcg.formal.captures import check_captures
from simcg.formal.enumerate import Scope, single_steps
from simcg.formal.explore import Explorer, settings
from simcg.formal.meaning import Meaning
from simcg.formal.program import Program
from simcg.formal.ranks import check_ranks, goes_in_lockstep
from simcg.formal.rules import Rules
from simcg.formal.tally import Tally
from simcg.formal.traces import walk
from simcg.formal.violation import Violation

Checks = Literal["steps", "traces", "captures", "ranks"]


@dataclass(frozen=True, slots=True)
class Stage:
    """``checks``: single steps from arbitrary memory, true traces, captures that fail or are
    repeated, or two ranks. ``every``: of the programs, one in so many is taken.
    """

    name: str
    checks: Checks
    scope: Scope
    every: int = 1


def explore(stage: Stage, programs: Iterable[Program], rules: Rules | None = None) -> Tally:
    """Check the programs until one fails; ``failed`` then tells how."""
    started = process_time_ns()
    explorer = Explorer.of(stage.scope, rules)
    check = _CHECKS[stage.checks]
    try:
        for program in programs:
            check(explorer, program)
    except Violation as violation:
        explorer.tally.failed = violation
    explorer.tally.cpu_ns = process_time_ns() - started
    return explorer.tally


def _steps(explorer: Explorer, program: Program) -> None:
    explorer.program(program)


def _traces(explorer: Explorer, program: Program) -> None:
    explorer.tally.counts["programs"] += 1
    walk(explorer.scope, list(settings(explorer.scope, program)), explorer.rules, explorer.tally)


def _captures(explorer: Explorer, program: Program) -> None:
    explorer.tally.counts["programs"] += 1
    meaning = Meaning.of(explorer.ground.terms.copy(), program, explorer.scope.room)
    for setting in settings(explorer.scope, program):
        explorer.tally.counts["settings"] += 1
        check_captures(setting, explorer.rules, meaning, explorer.tally)


def _ranks(explorer: Explorer, program: Program) -> None:
    if not goes_in_lockstep(program):
        return
    explorer.tally.counts["programs"] += 1
    meaning = Meaning.of(explorer.ground.terms.copy(), program, explorer.scope.room)
    every = single_steps(explorer.scope, program)
    for setting in settings(explorer.scope, program):
        explorer.tally.counts["settings"] += 1
        shared = explorer.ground, every
        check_ranks(setting, explorer.rules, meaning, shared, explorer.tally)


_CHECKS: dict[Checks, Callable[[Explorer, Program], None]] = {
    "steps": _steps, "traces": _traces, "captures": _captures, "ranks": _ranks,
}  # fmt: skip
