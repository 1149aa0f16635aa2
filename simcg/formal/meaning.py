"""What a step must leave behind when it starts from arbitrary caches, states and generator."""

from __future__ import annotations

from dataclasses import dataclass, field

from simcg.formal import reference
from simcg.formal.machine import Machine
from simcg.formal.program import Program
from simcg.formal.reference import World
from simcg.formal.step import Step
from simcg.formal.terms import Terms

DRAWN_BEFORE = 1000
"""Where the generator stands before a checked step: any number will do."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The n output rows; the cells of all caches, sinks left out, and of all states; draws."""

    output: list[int]
    caches: list[int]
    states: list[int]
    drawn: int


@dataclass(slots=True)
class Meaning:
    """Reference results of a program, by step; every old cell has a value of its own.

    No operator looks into a value, so what holds for these holds for any values in their place.
    """

    terms: Terms
    program: Program
    before: World
    known: dict[Step, Expected] = field(default_factory=dict)

    @staticmethod
    def of(terms: Terms, machine: Machine) -> Meaning:
        """The meaning of a machine's program in rooms like the machine's."""
        layout = machine.layout
        places = [(r, p) for r in range(layout.rows) for p in range(layout.length)]
        caches = {
            (index, row, position): terms.make("old cache", index, row, position)
            for index in layout.caches
            for row, position in places
        }
        states = {
            (index, row): terms.make("old state", index, row)
            for index in layout.states
            for row in range(layout.rows)
        }
        return Meaning(terms, machine.program, World(caches, states, DRAWN_BEFORE))

    def after(self, step: Step, machine: Machine) -> Expected:
        """What the step must give."""
        found = self.known.get(step)
        if found is None:
            output, world = reference.run(self.terms, self.program, step, self.before)
            found = self.known[step] = Expected(output, *machine.world(world), world.drawn)
        return found
