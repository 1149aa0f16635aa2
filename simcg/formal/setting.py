"""A setting: a program under a backend, a ladder and an order of captures, ready to take steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from simcg.backend import CaptureBackend
from simcg.formal.machine import Machine, layout_of
from simcg.formal.memory import Layout
from simcg.formal.program import Program
from simcg.formal.rules import Rules
from simcg.formal.runner import Runner
from simcg.formal.terms import Terms
from simcg.formal.violation import Refused
from simcg.formal.words import said_bucket
from simcg.ladder import AdmissionRule, Ladder


@dataclass(frozen=True, slots=True)
class Room:
    """The largest steps there may be, and the cache: ``rows`` of ``length`` positions."""

    tokens: int
    slots: int
    rows: int
    length: int


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for all steps of one exploration.

    ``order``: the buckets' indices as they are captured; ``modes``: the values of the host scalar
    that captures are made for.
    """

    program: Program
    backend: CaptureBackend
    ladder: Ladder
    order: tuple[int, ...]
    room: Room
    rule: AdmissionRule = field(default_factory=AdmissionRule)
    modes: tuple[int, ...] = (0,)

    def layout(self) -> Layout:
        """Memory for the steps and for the largest bucket."""
        room = self.room
        return layout_of(
            self.program,
            tokens=max(room.tokens, self.ladder.ceiling),
            slots=max([room.slots, *(b.slots or 0 for b in self.ladder.buckets)]),
            rows=room.rows,
            length=room.length,
        )

    def runner(self, terms: Terms, rules: Rules) -> Runner:
        """A runner that has captured nothing yet."""
        machine = Machine(terms, self.program, self.layout(), rules.kernels)
        return Runner(machine, self.backend, self.ladder, self.rule, rules)

    def captured(self, terms: Terms, rules: Rules) -> Runner:
        """A runner after its captures; without any where the backend refuses the program."""
        runner = self.runner(terms, rules)
        self.capture(runner, self.order)
        return runner

    def capture(self, runner: Runner, order: tuple[int, ...]) -> None:
        """Capture these buckets; there are none where the backend refuses the program."""
        try:
            runner.capture_all(order, self.modes)
        except Refused:
            runner.captures.clear()

    def lines(self) -> list[str]:
        """The setting as a person reads it."""
        buckets = [said_bucket(self.ladder, (index,)) for index in self.order]
        rule = self.rule
        scalars = " and ".join(map(str, self.modes))
        each = f", each for host scalars {scalars}" if len(self.modes) > 1 else ""
        ratio = f"; eager where the bucket is above {rule.max_ratio} of the tokens"
        guard = ratio if rule.max_ratio is not None else ""
        eager = "".join(f"; {low} to {high} tokens eager" for low, high in rule.eager_ranges)
        marked = any(op.breaks for op in self.program.ops)
        whole = " (one graph, breaks included)" if marked and not self.backend.breaks else ""
        return [
            f"program: {self.program}",
            f"backend {self.backend.name}{whole}, captured in this order: "
            f"{' then '.join(buckets)}{each}{guard}{eager}",
        ]
