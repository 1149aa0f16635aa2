"""One checked step: arbitrary memory before it, the reference's results after it, else a story.

By the havoc lemma this stands for every trace: before the step, whatever a step may rely on
(caches, states, generator, capture-once tensors, what captures hold) has arbitrary values that
the reference has too, and everything else is poison. If the step then gives the reference's
results and writes nothing else, so does every step of every trace, by induction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simcg.formal.blame import difference
from simcg.formal.launch import Capture, Segment
from simcg.formal.meaning import DRAWN_BEFORE, Expected, Meaning
from simcg.formal.memory import STATICS, UNWRITTEN, Memory, Range, Tag
from simcg.formal.rules import Rules
from simcg.formal.runner import Runner, View
from simcg.formal.setting import Setting, said_bucket
from simcg.formal.step import Step
from simcg.formal.terms import Terms
from simcg.formal.violation import Violation
from simcg.ladder import AdmissionRule, Ladder

OLD: Tag = ("an earlier step",)
FOREIGN: Tag = ("a new owner",)


@dataclass(slots=True)
class Checker:
    """Checks single steps of one setting after its captures."""

    setting: Setting
    runner: Runner
    meaning: Meaning
    calm: Memory
    kept: dict[tuple[int, ...], list[Range]] = field(default_factory=dict)
    both: dict[tuple[int, ...], bool] = field(default_factory=dict)

    @staticmethod
    def of(
        setting: Setting,
        rules: Rules | None = None,
        terms: Terms | None = None,
        meaning: Meaning | None = None,
    ) -> Checker:
        """A checker; ``meaning`` may be shared by settings of one program and room.

        Raises ``Violation`` when a capture itself breaks an invariant.
        """
        terms = terms or (meaning.terms if meaning else Terms())
        runner = setting.captured(terms, rules or Rules())
        meaning = meaning or Meaning.of(terms, runner.machine)
        return Checker(setting, runner, meaning, calm_memory(runner, meaning))

    def step(self, step: Step) -> None:
        """Run one step under both schedules; raises ``Violation`` with its story."""
        expected = self.meaning.after(step, self.runner.machine)
        try:
            self._once(step, expected, late=False)
            if self._differs(step):
                try:
                    self._once(step, expected, late=True)
                except Violation as violation:
                    if violation.key != "I14":
                        violation.key = "I21"
                    raise
        except Violation as violation:
            violation.story = [*self.setting.lines(), *self._told(step), *violation.story]
            raise

    def _differs(self, step: Step) -> bool:
        """Whether the step's second stream may run at different times."""
        found = self.runner.choose(step)
        if found is None:
            return any(op.side for op in self.setting.program.ops)
        known = self.both.get(found.key)
        if known is None:
            known = self.both[found.key] = any(
                isinstance(item, Segment) and item.early != item.late for item in found.items
            )
        return known

    def _once(self, step: Step, expected: Expected, *, late: bool) -> None:
        runner, machine = self.runner, self.runner.machine
        memory = machine.memory
        memory.value[:], memory.tag[:] = self.calm.value, self.calm.tag
        machine.drawn, runner.late = DRAWN_BEFORE, late
        machine.collectives.clear()
        check_choice(runner, step)
        view = runner.step(step)
        found = runner.captures.get(view.key)
        self._frame(found)
        self._output(view, expected)
        self._kept(expected)

    def _output(self, view: View, expected: Expected) -> None:
        got = self.runner.read(view)
        if got != expected.output:
            if len(got) != len(expected.output):
                what = f"the view has {len(got)} rows, expected {len(expected.output)}"
                raise Violation("I14", what)
            row = next(i for i, a in enumerate(expected.output) if a != got[i])
            key, said = difference(self.meaning.terms, expected.output[row], got[row])
            raise Violation(key, f"row {row} of the output: {said}", "the output")

    def _kept(self, expected: Expected) -> None:
        """Caches, states and the generator are the reference's."""
        machine, layout = self.runner.machine, self.runner.machine.layout
        value, done = machine.memory.value, 0
        for index, base in machine.at.caches.items():
            want = expected.caches[done : done + layout.sink]
            done += layout.sink
            if value[base : base + layout.sink] != want:
                self._blame_cache(index, base, want)
        done = 0
        for index, base in machine.at.states.items():
            want = expected.states[done : done + layout.rows]
            done += layout.rows
            found = value[base : base + layout.rows]
            if found != want:
                row = next(i for i, a in enumerate(want) if a != found[i])
                _, said = difference(self.meaning.terms, want[row], found[row])
                key = "I15" if self._of_this_step(base + row) else "I4"
                raise Violation(key, f"state of row {row}: {said}",
                                machine.program.words(index))  # fmt: skip
        if machine.drawn != expected.drawn:
            what = f"the generator gave {machine.drawn - DRAWN_BEFORE} numbers, "
            raise Violation("I15", what + f"expected {expected.drawn - DRAWN_BEFORE}")

    def _blame_cache(self, index: int, base: int, want: list[int]) -> None:
        machine = self.runner.machine
        found = machine.memory.value[base : base + len(want)]
        cell = next(i for i, a in enumerate(want) if a != found[i])
        row, position = divmod(cell, machine.layout.length)
        tag = machine.memory.tag[base + cell]
        key, said = difference(self.meaning.terms, want[cell], found[cell])
        if tag[0] == "padding":
            key = "I8"
        elif self.meaning.terms.parts(want[cell])[:1] == ("old cache",):
            key = "I6"
        what = f"cache of row {row}, position {position}: {said}"
        raise Violation(key, what, machine.program.words(index))

    def _of_this_step(self, cell: int) -> bool:
        return self.runner.machine.memory.tag[cell] is not OLD

    def _frame(self, capture: Capture | None) -> None:
        """Nothing else was written: by ghost tags, as the same value may be written again."""
        memory, key = self.runner.machine.memory, capture.key if capture else ()
        ranges = self.kept.get(key)
        if ranges is None:
            ranges = self.kept[key] = frame(self.runner, capture)
        for start, end in ranges:
            if memory.tag[start:end] != self.calm.tag[start:end]:
                cell = next(i for i in range(start, end) if memory.tag[i] != self.calm.tag[i])
                what = f"cell {cell} ({self.calm.tag[cell]}) was written by {memory.tag[cell]}"
                raise Violation("I6", what)

    def _told(self, step: Step) -> list[str]:
        found = self.runner.choose(step)
        if found is None:
            return [f"the step {step} runs eager"]
        bucket = said_bucket(self.setting.ladder, found.key)
        return [f"the step {step} replays the capture of {bucket}"]


def calm_memory(runner: Runner, meaning: Meaning) -> Memory:
    """Memory before a checked step: arbitrary old values where they count, elsewhere poison."""
    machine, terms, layout = runner.machine, runner.machine.terms, runner.machine.layout
    calm = Memory(list(machine.memory.value), list(machine.memory.tag))
    first = machine.at.statics[STATICS[0]]
    calm.fill(first, machine.at.pool - first, terms.poison, UNWRITTEN)
    caches, states = machine.world(meaning.before)
    for number, base in enumerate(machine.at.caches.values()):
        calm.put(base, caches[number * layout.sink : (number + 1) * layout.sink], OLD)
    for number, base in enumerate(machine.at.states.values()):
        calm.put(base, states[number * layout.rows : (number + 1) * layout.rows], OLD)
    for base, cells in machine.pool.free_ranges():
        calm.fill(base, cells, terms.poison, UNWRITTEN)
    for base, cells in machine.outside.free_ranges():
        calm.fill(base, cells, terms.foreign, FOREIGN)
    return calm


def frame(runner: Runner, capture: Capture | None) -> list[Range]:
    """The ranges of pool and outside that a step in this capture, or eager, must not write."""
    machine = runner.machine
    writable = [] if capture is None else sorted(capture.footprint)
    ranges = _between(machine.at.pool, machine.at.outside, writable)
    return ranges + sorted((a, a + cells) for a, cells in machine.outside.live.items())


def _between(start: int, end: int, holes: list[Range]) -> list[Range]:
    """What is left of [start, end) without the (address, cells) of ``holes``."""
    found, at = [], start
    for address, cells in holes:
        if address > at:
            found.append((at, address))
        at = max(at, address + cells)
    return [*found, (at, end)] if at < end else found


def check_choice(runner: Runner, step: Step) -> None:
    """The bucket is the smallest that holds the batch and that the rule admits, by brute force."""
    index = runner.rules.choose(runner.ladder, runner.rule, step.tokens, len(step.requests))
    want = smallest(runner.ladder, runner.rule, step.tokens, len(step.requests))
    if index != want:
        said = [said_bucket(runner.ladder, (i,)) if i >= 0 else "eager" for i in (index, want)]
        raise Violation("I10", f"the batch gets {said[0]}, expected {said[1]}")


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
