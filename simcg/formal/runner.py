"""The runner: pads a step, rewrites static inputs, replays its bucket or runs it eagerly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from simcg.backend import EAGER, CaptureBackend
from simcg.formal.capture import Lowering, capture
from simcg.formal.launch import Break, Capture, Key, Launch, Segment
from simcg.formal.machine import Machine, Run, Tags
from simcg.formal.memory import STATICS, Range
from simcg.formal.rules import Rules, Shape
from simcg.formal.statics import Images
from simcg.formal.step import Request, Step
from simcg.formal.violation import Violation
from simcg.formal.words import VIEW, said
from simcg.ladder import EAGER_INDEX, AdmissionRule, Ladder

CAPTURE_EPOCH = -1
EAGER_KEY: Key = ()


@dataclass(frozen=True, slots=True)
class View:
    """What a step returns: rows of the output buffer, until they are overwritten.

    ``captured``: rows that the buffer was written with, padding included.
    """

    base: int
    rows: int
    captured: int
    key: Key
    epoch: int
    writer: int


@dataclass(frozen=True, slots=True)
class EagerPlan:
    """An eager run's launches under both schedules, where these ranges were free before it."""

    early: tuple[Launch, ...]
    late: tuple[Launch, ...]
    free: list[Range]


@dataclass(slots=True)
class Runner:
    """One rank's runner over a machine; ``late``: the second stream runs as late as it may.

    ``choices``, ``live``, ``plans``, ``tags``: what was worked out before, as steps come
    again.
    """

    machine: Machine
    backend: CaptureBackend
    ladder: Ladder
    rule: AdmissionRule
    rules: Rules = field(default_factory=Rules)
    captures: dict[Key, Capture] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    epoch: int = 0
    late: bool = False
    pending: tuple[Step, Capture, Run] | None = None
    images: Images = field(init=False)
    moving: tuple[str, ...] = field(init=False)
    choices: dict[tuple[int, int, int], Capture | None] = field(default_factory=dict)
    live: dict[tuple[int, Key, Step, int, int], Launch] = field(default_factory=dict)
    plans: dict[tuple[int, int, int], EagerPlan] = field(default_factory=dict)
    tags: dict[Key, Tags] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.images = Images(self.machine.terms, self.machine.layout, self.rules)
        self.moving = tuple(name for name in STATICS if self.rules.moves_static(name))

    def capture_all(self, order: Sequence[int], modes: Sequence[int] = (0,)) -> None:
        """Capture buckets in that order, each for every value of the scalars in its key."""
        for index in order:
            for mode in modes:
                self.capture_one(index, mode)

    def capture_one(self, index: int, mode: int, fails_at: int = -1) -> None:
        """Warm up and capture one bucket. Raises ``Refused`` or ``CaptureFailed``."""
        machine, bucket = self.machine, self.ladder.buckets[index]
        slots = bucket.slots or machine.layout.slots
        drawn = machine.drawn
        run = self._idle(bucket.num_tokens, slots)
        step = _capture_step(bucket.num_tokens, mode)
        scalars = self._scalars(step)
        key = (index, *scalars)
        if key in self.captures:
            return
        if self.rules.one_compile and self.captures:
            scalars = next(iter(self.captures))[1:]
        lowering = Lowering(
            machine, self.backend, self.rules, step, bucket.num_tokens, slots,
            dict(machine.at.statics), machine.pool, scalars, fails_at,
        )  # fmt: skip
        try:
            self._run_eager(run, step, bucket.num_tokens, slots)
            self.captures[key] = capture(lowering, key)
            self._forget()
        finally:
            if self.rules.restores:
                machine.drawn = drawn

    def forget(self, key: Key) -> None:
        """Destroy a capture."""
        del self.captures[key]
        self._forget()

    def _forget(self) -> None:
        """What was worked out for other captures may be wrong."""
        self.choices.clear()
        self.live.clear()

    def _scalars(self, step: Step) -> Key:
        """What the graphs bake; to a backend without breaks marks mean nothing."""
        program = self.machine.program
        return self.rules.scalars(program if self.backend.breaks else program.unmarked, step)

    def choose(self, step: Step, agreed: Shape | None = None) -> Capture | None:
        """The capture that the step replays; None runs it eagerly.

        ``agreed``: what ranks that go in lockstep dispatch on, instead of the step's own shape.
        """
        tokens, requests = agreed or (step.tokens, len(step.requests))
        shape = (tokens, requests, step.mode)
        if shape not in self.choices:
            self.choices[shape] = self._chosen(step, tokens, requests)
        return self.choices[shape]

    def _chosen(self, step: Step, tokens: int, requests: int) -> Capture | None:
        index = self.rules.choose(self.ladder, self.rule, tokens, requests)
        if index == EAGER_INDEX:
            return None
        return self.captures.get((index, *self._scalars(step)))

    def step(self, step: Step, agreed: Shape | None = None) -> View:
        """Run one step; raises ``Violation`` as soon as a launch reads what it should not.

        An eager run in lockstep is padded to the agreed tokens, as its collectives must be.
        """
        self.epoch += 1
        found = self.choose(step, agreed)
        statics = self._addresses()
        if found and self.rules.checks_addresses and found.statics != statics:
            found = None
        tokens = agreed[0] if agreed else step.tokens
        rows, slots = (found.rows, found.slots) if found else (tokens, len(step.requests))
        key = found.key if found else EAGER_KEY
        run = Run(key, self.epoch, step.tokens, len(step.requests), step.longest, statics,
                  tokens, self._tags(key))  # fmt: skip
        self._write_statics(step, rows, slots, run)
        self.finish()
        if found is None:
            self._run_eager(run, step, rows, slots)
        elif self.rules.waits:
            self._replay(found, run, step)
        else:
            self.pending = (step, found, run)
        return View(self.machine.at.out, step.tokens, rows, key, self.epoch,
                    len(self.machine.program.ops) + 1)  # fmt: skip

    def finish(self) -> None:
        """Run what still waits on the device."""
        if self.pending:
            step, capture, run = self.pending
            self.pending = None
            self._replay(capture, run, step)

    def _tags(self, key: Key) -> Tags:
        """The tags that runs of this key in this epoch share."""
        tags = self.tags.get(key)
        if tags is None or tags.epoch != self.epoch:
            tags = self.tags[key] = Tags(key, self.epoch)
        return tags

    def read(self, view: View) -> list[int]:
        """The rows of a view; ``Violation`` when they are no longer those of its step."""
        first, end = self.rules.output_rows(view.rows, view.captured)
        memory, want = self.machine.memory, (view.writer, view.key, view.epoch)
        found = memory.tag[view.base + first : view.base + end]
        if any(tag != want for tag in found):
            row = next(row for row, tag in enumerate(found) if tag != want)
            held = said(self.machine.program, found[row])
            what = f"row {first + row} of the output of step {view.epoch} is read when it holds "
            raise Violation("I14", what + held, VIEW)
        return memory.value[view.base + first : view.base + end]

    def _replay(self, capture: Capture, run: Run, step: Step) -> None:
        graph = run if run.statics == capture.statics else replace(run, statics=capture.statics)
        try:
            for item in capture.items:
                if isinstance(item, Segment):
                    for launch in item.late if self.late else item.early:
                        self.machine.run(launch, graph)
                else:
                    for call in (item, *item.inner):
                        self._break(call, run, step)
        except Violation as violation:
            if graph is not run:
                violation.key = "I1"
                violation.what += "; the static inputs have moved since the capture"
            raise

    def _break(self, item: Break, run: Run, step: Step) -> None:
        """Call the break at the batch's own size; its result is copied to where it is read.

        A collective has the size that the ranks agreed on.
        """
        machine, launch = self.machine, item.launch
        n = run.agreed if launch.kind == "reduce" else run.tokens
        scratch = machine.outside.allocate(max(n, 1)) if item.result >= 0 else launch.out
        key = (launch.op, run.key, step, n, scratch)
        live = self.live.get(key)
        if live is None:
            out = launch.inputs[0] if launch.kind == "accumulate" else scratch
            scalar = {"launch": step.mode, "host": n}.get(launch.kind, 0)
            live = self.live[key] = replace(
                launch, out=out, rows=n, slots=run.requests, baked=scalar
            )
        run.breaking = True
        machine.run(live, run)
        run.breaking = False
        if item.result >= 0:
            if not item.rebinds:
                values = machine.memory.value[scratch : scratch + n]
                machine.memory.put(item.result, values, run.tags[launch.op + 1])
            machine.outside.free(scratch)

    def _run_eager(self, run: Run, step: Step, rows: int, slots: int) -> None:
        plan = self._eager_plan(run, step, rows, slots)
        for launch in plan.late if self.late else plan.early:
            if launch.kind == "borrow":  # made now, where a tensor lay until it died
                self.machine.make_weight(launch.op, launch.extra)
            self.machine.run(launch, run)

    def _eager_plan(self, run: Run, step: Step, rows: int, slots: int) -> EagerPlan:
        """The launches of an eager run; the same as long as memory is handed out the same way."""
        machine = self.machine
        key, moved = (rows, slots, step.mode), run.statics != machine.at.statics
        known = self.plans.get(key)
        if known and not moved and known.free == machine.outside.free_ranges():
            return known
        free = machine.outside.free_ranges()
        lowering = Lowering(
            machine, EAGER, self.rules, step, rows, slots, dict(run.statics), machine.outside, ()
        )
        segments = [item for item in lowering.all() if isinstance(item, Segment)]
        for address in lowering.dropped:
            blocks = machine.pool if address in machine.pool.live else machine.outside
            blocks.free(address)
        plan = EagerPlan(
            tuple(launch for segment in segments for launch in segment.early),
            tuple(launch for segment in segments for launch in segment.late),
            free,
        )
        if not moved:
            self.plans[key] = plan
        return plan

    def _idle(self, rows: int, slots: int) -> Run:
        """Static inputs of a step without tokens, for warm-ups: every row goes to the sink."""
        machine = self.machine
        run = Run(EAGER_KEY, CAPTURE_EPOCH, 0, 0, 0, machine.at.statics, 0,
                  Tags(EAGER_KEY, CAPTURE_EPOCH))  # fmt: skip
        fills = {"slots": machine.layout.sink, "rows": machine.layout.rows}
        if not self.rules.warms_on_sink:
            run.tokens, run.requests, run.longest = rows, 1, rows
            fills = {}
        for name in STATICS:
            cells = machine.layout.static_cells(name)
            machine.memory.fill(run.statics[name], cells, fills.get(name, 0), (name, run.epoch))
        if not self.rules.warms_on_sink:
            offsets = run.statics["offsets"]
            machine.memory.value[offsets + 1 : offsets + slots + 1] = [rows] * slots
            machine.memory.value[run.statics["lengths"]] = min(rows, machine.layout.length)
        return run

    def _addresses(self) -> dict[str, int]:
        """Where this step's static inputs lie: always in place, unless a rule rebuilds them."""
        if not self.moving:
            return self.machine.at.statics
        statics = dict(self.machine.at.statics)
        for name in self.moving:
            cells = self.machine.layout.static_cells(name)
            statics[name] = self.machine.outside.allocate(cells)
        return statics

    def _write_statics(self, step: Step, rows: int, slots: int, run: Run) -> None:
        value, tags = self.machine.memory.value, self.machine.memory.tag
        for name, values in self.images.of(step, rows, slots):
            base, cells = run.statics[name], len(values)
            value[base : base + cells] = values
            tags[base : base + cells] = [run.tags[name]] * cells


def _capture_step(rows: int, mode: int) -> Step:
    """What the host knows of the step that a bucket is captured with."""
    return Step((Request(0, 0, 0, rows),), mode)
