"""Stages over processes: the same counts and the same first violation for any number of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from simcg.errors import SimcgError
from simcg.formal.enumerate import programs
from simcg.formal.mutants import MUTANTS
from simcg.formal.mutants.hunt import Hunt, hunt
from simcg.formal.program import Program
from simcg.formal.stage import Stage, explore
from simcg.formal.tally import Tally
from simcg.sweep.workers import over_processes

PROGRAMS_AT_ONCE = {"steps": 40, "traces": 2, "captures": 60, "ranks": 2}
Item = TypeVar("Item")
Result = TypeVar("Result")
Task = tuple[Stage, tuple[Program, ...]]


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage has seen."""

    stage: Stage
    tally: Tally = field(default_factory=Tally)


def tasks(stages: Sequence[Stage]) -> list[Task]:
    """The stages cut into pieces, in order."""
    return [(stage, piece) for stage in stages for piece in _pieces(stage)]


def _pieces(stage: Stage) -> Iterator[tuple[Program, ...]]:
    every = islice(programs(stage.scope), 0, None, stage.every)
    while piece := tuple(islice(every, PROGRAMS_AT_ONCE[stage.checks])):
        yield piece


def _explored(task: Task) -> Tally:
    return explore(*task)


Progress = Callable[[int, int], None]


def verify(
    stages: Sequence[Stage], jobs: int, progress: Progress | None = None
) -> list[StageResult]:
    """Explore the stages by ``jobs`` processes, up to the first piece in order that fails.

    ``progress`` is told how many pieces are done, of how many.
    """
    results = {stage.name: StageResult(stage) for stage in stages}
    pieces = tasks(stages)
    for done, tally in enumerate(_over(_explored, pieces, jobs)):
        results[pieces[done][0].name].tally.add(tally)
        if progress:
            progress(done + 1, len(pieces))
        if tally.failed:
            break
    return list(results.values())


def hunted(jobs: int, progress: Progress | None = None) -> dict[str, Hunt]:
    """Every mutant in its small scope."""
    found: dict[str, Hunt] = {}
    for name, result in zip(MUTANTS, _over(_hunted, list(MUTANTS), jobs), strict=True):
        found[name] = result
        if progress:
            progress(len(found), len(MUTANTS))
    return found


def _hunted(name: str) -> Hunt:
    return hunt(MUTANTS[name])


def _over(work: Callable[[Item], Result], items: Sequence[Item], jobs: int) -> Iterator[Result]:
    """``SimcgError`` when a process is killed; what the work finds is in its results."""
    try:
        yield from over_processes(work, items, jobs)
    except SimcgError:
        killed = "a process of the exploration was killed (memory?): fewer --jobs"
        raise SimcgError(killed) from None
