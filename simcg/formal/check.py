"""One checked step: arbitrary memory before it, the reference's results after it, else a story.

By the havoc lemma this stands for every trace: before the step, whatever a step may rely on
(caches, states, generator, capture-once tensors, what captures hold) has arbitrary values that
the reference has too, and everything else is poison. If the step then gives the reference's
results and writes nothing else, so does every step of every trace, by induction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simcg.formal.blame import blame_output, blame_world
from simcg.formal.launch import Capture, Key, Segment
from simcg.formal.meaning import DRAWN_BEFORE, Expected, Ground, Meaning
from simcg.formal.memory import STATICS, UNWRITTEN, Handed, Memory, Range, Tag
from simcg.formal.places import place
from simcg.formal.program import Program
from simcg.formal.recorded import check_recorded
from simcg.formal.rules import Rules, Shape
from simcg.formal.runner import CAPTURE_EPOCH, Runner
from simcg.formal.setting import Setting
from simcg.formal.step import Step
from simcg.formal.violation import Violation
from simcg.formal.words import DISPATCH, counted, said, said_bucket, writer
from simcg.ladder import AdmissionRule, Ladder

OLD: Tag = ("an earlier step",)
FOREIGN: Tag = ("a new owner",)
FIRST_STEP = 1


@dataclass(slots=True)
class Checker:
    """Checks single steps of one setting after its captures.

    ``calm``: memory before each step. ``frames``, ``sides``: by capture, the ranges that a step
    must not write, and whether a second stream may run at different times.
    """

    setting: Setting
    runner: Runner
    meaning: Meaning
    calm: Memory
    frames: dict[Key, list[Range]] = field(default_factory=dict)
    sides: dict[Key, bool] = field(default_factory=dict)
    shapes: set[tuple[int, int]] = field(default_factory=set)
    handed_out: tuple[Handed, Handed] = field(init=False)

    @staticmethod
    def of(
        setting: Setting,
        rules: Rules | None = None,
        meaning: Meaning | None = None,
        ground: Ground | None = None,
    ) -> Checker:
        """A checker. ``meaning`` may be shared by settings of one program and room, ``ground`` by
        those of one room under the same rules.

        Raises ``Violation`` when a capture itself breaks an invariant.
        """
        ground = ground or Ground.of(setting.room, setting.room.rows)
        meaning = meaning or Meaning.of(ground.terms.copy(), setting.program, setting.room)
        runner = setting.runner(meaning.terms, rules or Rules())
        runner.images.known = ground.images
        try:
            captured_quietly(setting, runner, meaning)
        except Violation as violation:
            violation.story = [*setting.lines(), "the captures are made", *violation.story]
            raise
        return Checker(setting, runner, meaning, calm_memory(runner, meaning))

    def __post_init__(self) -> None:
        machine = self.runner.machine
        self.handed_out = machine.pool.snapshot(), machine.outside.snapshot()

    def step(self, step: Step, agreed: Shape | None = None) -> None:
        """Run one step under both schedules; raises ``Violation`` with its story.

        ``agreed``: the shape that ranks in lockstep dispatch on.
        """
        expected = self.meaning.after(step, self.runner.machine)
        try:
            if self._has_side(step, agreed):
                self._both(step, agreed, expected)
            else:
                self._once(step, agreed, expected, late=False)
        except Violation as violation:
            told = told_step(self.runner, step, FIRST_STEP, agreed)
            violation.story = [*self.setting.lines(), told, *violation.story]
            raise

    def _has_side(self, step: Step, agreed: Shape | None) -> bool:
        """Whether the step's second stream may run at different times."""
        found = self.runner.choose(step, agreed)
        key = found.key if found else ()
        if key not in self.sides:
            segments = [item for item in found.items if isinstance(item, Segment)] if found else []
            ops = self.setting.program.ops
            self.sides[key] = (
                any(segment.early != segment.late for segment in segments)
                if found
                else any(op.side for op in ops)
            )
        return self.sides[key]

    def _both(self, step: Step, agreed: Shape | None, expected: Expected) -> None:
        """What is wrong only when the second stream is early, or late, is its order."""
        found: list[Violation] = []
        for late in (False, True):
            try:
                self._once(step, agreed, expected, late=late)
            except Violation as violation:
                when = f"the second stream runs as {'late' if late else 'early'} as it may"
                violation.story.insert(0, when)
                found.append(violation)
        if len(found) == 1:
            found[0].key = "I21"
        if found:
            raise found[0]

    def _once(self, step: Step, agreed: Shape | None, expected: Expected, *, late: bool) -> None:
        runner, machine = self.runner, self.runner.machine
        memory, at = machine.memory, machine.at
        memory.value[:], memory.tag[:] = self.calm.value, self.calm.tag
        machine.drawn, runner.late, runner.epoch = DRAWN_BEFORE, late, CAPTURE_EPOCH + 1
        machine.collectives.clear()
        machine.pool.restore(self.handed_out[0])
        machine.outside.restore(self.handed_out[1])
        shape = agreed or (step.tokens, len(step.requests))
        if shape not in self.shapes:
            check_choice(runner, shape)
            self.shapes.add(shape)
        view = runner.step(step, agreed)
        runner.finish()
        self._frame(runner.captures.get(view.key))
        got = runner.read(view)
        if got != expected.output:
            raise blame_output(machine, expected.output, got)
        first, end = at.worlds
        world = memory.value[first:end]
        for sink in at.sinks:
            world[sink - first] = machine.terms.poison
        if world != expected.world:
            raise blame_world(machine, expected.world, world, OLD)
        if machine.drawn != expected.drawn:
            gave = counted(machine.drawn - DRAWN_BEFORE, "number")
            what = f"the generator gave {gave}, expected {expected.drawn - DRAWN_BEFORE}"
            raise Violation("I15", what, drawing(machine.program))

    def _frame(self, capture: Capture | None) -> None:
        """Nothing else was written: by ghost tags, as the same value may be written again."""
        memory, key = self.runner.machine.memory, capture.key if capture else ()
        ranges = self.frames.get(key)
        if ranges is None:
            held = self.handed_out[1][0]
            ranges = self.frames[key] = frame(self.runner, capture, held)
        for start, end in ranges:
            if memory.tag[start:end] != self.calm.tag[start:end]:
                cell = next(i for i in range(start, end) if memory.tag[i] != self.calm.tag[i])
                raise self._stray(cell)

    def _stray(self, cell: int) -> Violation:
        """A write to a cell that is none of the step's."""
        runner, machine = self.runner, self.runner.machine
        program, now = machine.program, machine.memory.tag[cell]
        where = place(machine, runner.ladder, runner.captures.values(), cell)
        held = said(program, self.calm.tag[cell])
        what = f"{where}, which held {held}, now holds {said(program, now)}"
        return Violation("I6", what, writer(program, now))


def told_step(runner: Runner, step: Step, number: int, agreed: Shape | None = None) -> str:
    """What a runner does with a step, as a line."""
    found = runner.choose(step, agreed)
    told = f"step {number} of {counted(step.tokens, 'token')}, {step}, "
    if found is None:
        return told + "runs eager"
    padded = found.rows - step.tokens
    rows = f" with {counted(padded, 'row')} of padding" if padded > 0 else ""
    return f"{told}replays the capture of {said_bucket(runner.ladder, found.key)}{rows}"


def drawing(program: Program) -> str:
    """The operators that take numbers from the generator."""
    return "; ".join(program.words(i) for i, op in enumerate(program.ops) if op.kind == "draw")


def captured_quietly(setting: Setting, runner: Runner, meaning: Meaning) -> None:
    """Make the captures; they must leave caches, states and generator as they were."""
    machine, (first, end) = runner.machine, runner.machine.at.worlds
    before = machine.world(meaning.before)
    machine.memory.put(first, before, OLD)
    machine.drawn = DRAWN_BEFORE
    setting.capture(runner, setting.order)
    for capture in runner.captures.values():
        check_recorded(setting.program, setting.backend, capture)
    world = machine.memory.value[first:end]
    for sink in machine.at.sinks:
        world[sink - first] = machine.terms.poison
    if world != before:
        violation = blame_world(machine, before, world, OLD)
        violation.key = "I20"
        raise violation
    if machine.drawn != DRAWN_BEFORE:
        what = f"the captures took {counted(machine.drawn - DRAWN_BEFORE, 'number')}"
        what += " from the generator and did not give them back"
        raise Violation("I20", what, drawing(machine.program))


def calm_memory(runner: Runner, meaning: Meaning) -> Memory:
    """Memory before a checked step: arbitrary old values where they count, elsewhere poison."""
    machine, terms = runner.machine, runner.machine.terms
    calm = Memory(list(machine.memory.value), list(machine.memory.tag))
    first = machine.at.statics[STATICS[0]]
    calm.fill(first, machine.at.pool - first, terms.poison, UNWRITTEN)
    calm.put(machine.at.worlds[0], machine.world(meaning.before), OLD)
    for base, cells in machine.pool.free_ranges():
        calm.fill(base, cells, terms.poison, UNWRITTEN)
    for base, cells in machine.outside.free_ranges():
        calm.fill(base, cells, terms.foreign, FOREIGN)
    return calm


def frame(runner: Runner, capture: Capture | None, held: dict[int, int]) -> list[Range]:
    """The ranges of pool and outside that a step in this capture, or eager, must not write.

    ``held``: the blocks outside that are in use between steps.
    """
    machine = runner.machine
    writable = [] if capture is None else sorted(capture.footprint)
    ranges = _between(machine.at.pool, machine.at.outside, writable)
    return ranges + sorted((a, a + cells) for a, cells in held.items())


def _between(start: int, end: int, holes: list[Range]) -> list[Range]:
    """What is left of [start, end) without the (address, cells) of ``holes``."""
    found, at = [], start
    for address, cells in holes:
        if address > at:
            found.append((at, address))
        at = max(at, address + cells)
    return [*found, (at, end)] if at < end else found


def check_choice(runner: Runner, shape: Shape) -> None:
    """The bucket is the smallest that holds the batch and that the rule admits, by brute force."""
    index = runner.rules.choose(runner.ladder, runner.rule, *shape)
    want = smallest(runner.ladder, runner.rule, *shape)
    if index != want:
        names = [said_bucket(runner.ladder, (i,)) if i >= 0 else "eager" for i in (index, want)]
        raise Violation("I10", f"the batch gets {names[0]}, expected {names[1]}", DISPATCH)


def smallest(ladder: Ladder, rule: AdmissionRule, tokens: int, requests: int) -> int:
    """The bucket by the words of the rule, sharing no code with the dispatch; -1 is eager."""
    fitting = [
        (bucket.num_tokens, bucket.slots or 0, index)
        for index, bucket in enumerate(ladder.buckets)
        if bucket.num_tokens >= tokens and (bucket.slots is None or bucket.slots >= requests)
    ]
    if not fitting or any(low <= tokens <= high for low, high in rule.eager_ranges):
        return -1
    size, _, index = min(fitting)
    return index if rule.max_ratio is None or size <= rule.max_ratio * tokens else -1
