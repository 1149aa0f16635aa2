"""The hunt for a mutant: every check of its small scope, and which invariants caught it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import groupby

from simcg.formal.captures import check_captures
from simcg.formal.check import Checker
from simcg.formal.enumerate import Scope, programs, single_steps
from simcg.formal.explore import settings
from simcg.formal.meaning import Ground, Meaning
from simcg.formal.mutants.mutant import Mutant
from simcg.formal.program import Program
from simcg.formal.ranks import check_ranks, goes_in_lockstep
from simcg.formal.rules import Rules
from simcg.formal.setting import Setting
from simcg.formal.stage import Checks
from simcg.formal.step import Step
from simcg.formal.tally import Tally
from simcg.formal.traces import walk
from simcg.formal.violation import Violation
from simcg.ladder import AdmissionRule

GUARDED = (AdmissionRule(), AdmissionRule(max_ratio=Fraction(5, 4)))
"""The second sends two tokens, for which the bucket of three is too large, to eager."""


@dataclass(slots=True)
class Hunt:
    """What became of a mutant. ``checks``: how many there were; ``until``: the first that caught
    it, counted from 1; 0 for none. ``caught``: by invariant, how many checks it failed.
    """

    checks: int = 0
    until: int = 0
    first: Violation | None = None
    caught: Counter[str] = field(default_factory=Counter)

    def see(self, violation: Violation | None) -> None:
        """Count one check, and what it raised."""
        self.checks += 1
        if violation is None:
            return
        self.caught[violation.key] += 1
        if self.first is None:
            self.first, self.until = violation, self.checks


@dataclass(frozen=True, slots=True)
class Field:
    """Where one program is hunted. ``meaning`` is shared by its settings, ``every``: its steps."""

    scope: Scope
    rules: Rules
    program: Program
    ground: Ground
    meaning: Meaning
    every: list[Step]

    def settings(self) -> Iterator[Setting]:
        """Every setting of the program."""
        return settings(self.scope, self.program)


def scope_of(mutant: Mutant) -> Scope:
    """The small scope in which a mutant shows."""
    return Scope(
        ops=mutant.ops,
        breaks=mutant.breaks,
        tokens=4,
        sequences=2,
        trace=2,
        ladders=(mutant.ladder,),
        kinds=mutant.kinds,
        rules=GUARDED if mutant.guarded else GUARDED[:1],
        nested=mutant.nested,
        ends=True,
    )


def programs_of(mutant: Mutant) -> Iterable[Program]:
    """The programs on which a mutant is tried, shortest first."""
    return mutant.programs or programs(scope_of(mutant))


def hunt(mutant: Mutant, rules: Rules | None = None) -> Hunt:
    """Every check of the mutant's scope; with other ``rules`` than its own where they are given."""
    result = Hunt()
    for violation in violations(mutant, rules or mutant.rules):
        result.see(violation)
    return result


def violations(mutant: Mutant, rules: Rules) -> Iterator[Violation | None]:
    """What each check of the mutant's scope raises; None where it passes."""
    scope = scope_of(mutant)
    ground = Ground.of(scope.room, scope.sequences)
    for program in programs_of(mutant):
        meaning = Meaning.of(ground.terms.copy(), program, scope.room)
        place = Field(scope, rules, program, ground, meaning, single_steps(scope, program))
        for checks in mutant.checks:
            yield from _CHECKS[checks](place)


def _steps(place: Field) -> Iterator[Violation | None]:
    """Single steps after the captures; and whether the order of captures made a difference."""

    def but_order(setting: Setting) -> tuple[object, ...]:
        return setting.backend.name, setting.ladder, setting.rule

    for _, alike in groupby(place.settings(), but_order):
        outcomes: list[tuple[Setting, list[Violation | None]]] = []
        for setting in alike:
            outcomes.append((setting, list(_single(place, setting))))
            yield from outcomes[-1][1]
        yield _any_order(outcomes)


def _single(place: Field, setting: Setting) -> Iterator[Violation | None]:
    try:
        checker = Checker.of(setting, place.rules, place.meaning)
    except Violation as violation:
        yield violation
        return
    for step in place.every:
        yield _raised(checker.step, step)


def _any_order(outcomes: list[tuple[Setting, list[Violation | None]]]) -> Violation | None:
    """A step that is right after one order of captures and wrong after another (I18)."""
    for found in zip(*(violations for _, violations in outcomes), strict=False):
        wrong = next((v for v in found if v is not None), None)
        if wrong is not None and None in found:
            right = outcomes[found.index(None)][0].lines()[-1]
            what = f"{wrong.what}; it is right under {right}"
            return Violation("I18", what, wrong.op, wrong.story)
    return None


def _traces(place: Field) -> Iterator[Violation | None]:
    """One check for each setting: all its traces, up to the first that fails."""
    small = replace(place.scope, tokens=3)  # traces are many
    for setting in settings(small, place.program):
        yield _raised(walk, small, [setting], place.rules, Tally())


def _captures(place: Field) -> Iterator[Violation | None]:
    for setting in place.settings():
        yield _raised(check_captures, setting, place.rules, place.meaning, Tally())


def _ranks(place: Field) -> Iterator[Violation | None]:
    if not goes_in_lockstep(place.program):
        return
    shared = place.ground, place.every
    for setting in place.settings():
        yield _raised(check_ranks, setting, place.rules, place.meaning, shared, Tally())


def _raised(check: Callable[..., None], *arguments: object) -> Violation | None:
    try:
        check(*arguments)
    except Violation as violation:
        return violation
    return None


_CHECKS: dict[Checks, Callable[[Field], Iterator[Violation | None]]] = {
    "steps": _steps, "traces": _traces, "captures": _captures, "ranks": _ranks,
}  # fmt: skip
