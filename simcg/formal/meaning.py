"""What a step must leave behind when it starts from arbitrary caches, states and generator."""

from __future__ import annotations

from dataclasses import dataclass, field

from simcg.formal import reference
from simcg.formal.machine import Machine
from simcg.formal.program import Program
from simcg.formal.reference import World
from simcg.formal.setting import Room
from simcg.formal.statics import Known
from simcg.formal.step import Step
from simcg.formal.terms import Terms

DRAWN_BEFORE = 1000
"""Where the generator stands before a checked step: any number will do."""


@dataclass(slots=True)
class Ground:
    """What all programs in one room share: the terms of tokens, and steps as static inputs."""

    terms: Terms
    images: Known = field(default_factory=dict)

    @staticmethod
    def of(room: Room, names: int) -> Ground:
        """Tokens of so many sequences, as long as the room lets them be."""
        terms = Terms()
        for name in range(names):
            for position in range(room.length):
                terms.make("token", name, position)
        return Ground(terms)


@dataclass(frozen=True, slots=True)
class Expected:
    """The output's n rows; all caches and states, poison in their sinks; draws so far."""

    output: list[int]
    world: list[int]
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
    def of(terms: Terms, program: Program, room: Room) -> Meaning:
        """The meaning of a program in a room."""
        caches, states = {}, {}
        for index, op in enumerate(program.ops):
            for row in range(room.rows):
                if op.kind == "state":
                    states[index, row] = terms.make("old state", index, row)
                for position in range(room.length if op.kind == "scatter" else 0):
                    old = terms.make("old cache", index, row, position)
                    caches[index, row, position] = old
        return Meaning(terms, program, World(caches, states, DRAWN_BEFORE))

    def after(self, step: Step, machine: Machine) -> Expected:
        """What the step must give on a machine of this room."""
        found = self.known.get(step)
        if found is None:
            output, world = reference.run(self.terms, self.program, step, self.before)
            found = self.known[step] = Expected(output, machine.world(world), world.drawn)
        return found
