"""Two ranks with batches of their own: the same items, and collectives of one size in one order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from simcg.formal.check import FIRST_STEP, Checker, told_step
from simcg.formal.launch import Key
from simcg.formal.meaning import Ground, Meaning
from simcg.formal.program import ONLY_AS_BREAK, Program
from simcg.formal.rules import Rules, Shape
from simcg.formal.setting import Setting
from simcg.formal.step import Step
from simcg.formal.tally import Tally
from simcg.formal.violation import Violation
from simcg.formal.words import DISPATCH, counted, said_bucket

RANKS = 2
Did = tuple[Key, tuple[tuple[int, int], ...]]
"""What a rank replayed (nothing: eager), and its collectives: operator and rows."""


def goes_in_lockstep(program: Program) -> bool:
    """Whether ranks may have batches of their own: there is a collective, and eager runs, which
    are padded to the largest batch, have no operator that padding would reach.
    """
    kinds = {op.kind for op in program.ops}
    return "reduce" in kinds and not kinds & ONLY_AS_BREAK


@dataclass(slots=True)
class Ranks:
    """One checker a rank. ``rules`` say what each dispatches on."""

    checkers: list[Checker]
    rules: Rules
    tally: Tally

    @staticmethod
    def of(setting: Setting, rules: Rules, meaning: Meaning, ground: Ground, tally: Tally) -> Ranks:
        """Ranks that have captured all buckets."""
        checkers = [Checker.of(setting, rules, meaning, ground) for _ in range(RANKS)]
        return Ranks(checkers, rules, tally)

    def fails(self, rank: int, key: Key) -> None:
        """The capture of a bucket failed on one rank."""
        for number, checker in enumerate(self.checkers):
            if number == rank or self.rules.drops_everywhere:
                checker.runner.forget(key)
                checker.sides.clear()

    def step(self, batches: tuple[Step, ...]) -> None:
        """One step of each rank; raises ``Violation`` (I19) where they part."""
        shapes = tuple((step.tokens, len(step.requests)) for step in batches)
        agreed = [self.rules.agreed(shapes, rank) for rank in range(RANKS)]
        did = list(self._did(batches, agreed))
        self.tally.counts["lockstep steps"] += 1
        if any(one != did[0] for one in did):
            raise self._parted(did, self._told(batches, agreed))
        self.tally.witnesses["I19"] += shapes[0] != shapes[1]

    def _parted(self, did: list[Did], told: list[str]) -> Violation:
        """Ranks whose collectives differ, or that run different things."""
        setting = self.checkers[0].setting
        items = [" and ".join(f"({self._said(op)}) of {counted(rows, 'row')}"
                              for op, rows in one[1]) or "none" for one in did]  # fmt: skip
        what = f"collectives of rank 0: {items[0]}; of rank 1: {items[1]}"
        op = next(self._said(op) for one in did for op, _ in one[1])
        if did[0][1] == did[1][1]:
            keys = [said_bucket(setting.ladder, one[0]) for one in did]
            what, op = f"rank 0 runs {keys[0]}, rank 1 {keys[1]}", DISPATCH
        return Violation("I19", what, op, [*setting.lines(), *told])

    def _told(self, batches: tuple[Step, ...], agreed: list[Shape]) -> list[str]:
        """What each rank does, one line each."""
        every = enumerate(zip(self.checkers, batches, agreed, strict=True))
        return [f"rank {r}: {told_step(c.runner, s, FIRST_STEP, a)}" for r, (c, s, a) in every]

    def _did(self, batches: tuple[Step, ...], agreed: list[Shape]) -> Iterator[Did]:
        """What each rank did, in turn."""
        for checker, step, shape in zip(self.checkers, batches, agreed, strict=True):
            try:
                checker.step(step, shape)
            except Violation as violation:
                violation.story += self._told(batches, agreed)
                raise
            found = checker.runner.choose(step, shape)
            yield found.key if found else (), tuple(checker.runner.machine.collectives)

    def _said(self, op: int) -> str:
        return self.checkers[0].setting.program.words(op)


def check_ranks(
    setting: Setting, rules: Rules, meaning: Meaning, shared: tuple[Ground, list[Step]],
    tally: Tally,
) -> None:  # fmt: skip
    """Every pair of steps, and again after each capture failed on the second rank."""
    ground, every = shared
    ranks = Ranks.of(setting, rules, meaning, ground, tally)
    keys: list[Key] = list(ranks.checkers[0].runner.captures)
    for failed in [None, *keys]:
        if failed is not None:
            ranks = Ranks.of(setting, rules, meaning, ground, tally)
            ranks.fails(1, failed)
        for batches in product(every, repeat=RANKS):
            if batches[0].mode == batches[1].mode:
                ranks.step(batches)
