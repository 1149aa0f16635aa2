"""Runs a case on the formal model and on a real backend, and compares all that a step leaves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import torch

from real_gpu.conformance.arithmetic import Numbers
from real_gpu.conformance.case import Case
from real_gpu.conformance.draws import Draws, generator_of
from real_gpu.conformance.executor import Executor, Outcome, addresses
from real_gpu.conformance.kernels import NAN
from real_gpu.conformance.poison import Poison
from real_gpu.conformance.report import Report
from real_gpu.graphs.device import CaptureError, GraphDevice
from simcg.formal.capture import CaptureFailed
from simcg.formal.launch import Key
from simcg.formal.program import ONLY_AS_BREAK
from simcg.formal.reference import EMPTY, World, run
from simcg.formal.rules import Rules, breaks_at
from simcg.formal.statics import Images
from simcg.formal.step import Step
from simcg.formal.terms import Terms
from simcg.formal.violation import Refused
from simcg.ladder import fallback_reason


class Disagreement(AssertionError):  # noqa: N818  # an outcome of a check, not an error of it
    """The model and the real backend differ."""

    def __init__(self, step: int, what: str) -> None:
        super().__init__(f"step {step}: {what}" if step >= 0 else f"captures: {what}")


def check(case: Case, device: GraphDevice) -> Report:
    """Run the case on both sides; raises ``Disagreement`` at the first difference.

    The device's own generator is seeded anew.
    """
    return _Comparison(case, device).run()


class _Comparison:
    """One case under way on both sides. ``_number``: the step, -1 for the captures."""

    def __init__(self, case: Case, device: GraphDevice) -> None:
        self._case, self._report = case, Report(cases=1)
        self._draws = Draws(device.device, case.seed)
        self._generator = generator_of(device.device)
        self._generator.manual_seed(case.seed)
        self._terms = Terms()
        self._numbers = Numbers(self._terms, self._draws.number)
        self._model = case.setting.runner(self._terms, Rules())
        self._images = Images(self._terms, case.setting.layout(), Rules())
        self._real = Executor(case, device)
        self._poison = Poison(self._real, case.seed)
        self._world: World = EMPTY
        self._number = -1

    def run(self) -> Report:
        try:
            self._captures()
            for step in self._case.steps:
                self._number += 1
                self._step(step)
        finally:
            self._real.close()
        self._report.poison = self._poison.counts
        return self._report

    def _captures(self) -> None:
        """Both capture, or both refuse; caches, states and generator are as before."""
        refusal, error = self._model_refusal(), ""
        try:
            self._real.capture()
        except CaptureError as failed:
            error = str(failed)
        if error and not refusal:
            self._differs(f"the model captures, the backend does not: {error}")
        if refusal and not error:
            if not self._only_mixes_unmasked():
                self._differs(f"the backend captures what the model refuses: {refusal}")
            self._report.unseen = 1
        if refusal:
            self._report.refused = 1
            self._real.close()
        self._compare_world()

    def _model_refusal(self) -> str:
        setting = self._case.setting
        if not setting.backend.captures:
            return ""
        broken, op = self._case.fails or (-1, -1)
        try:
            for place, index in enumerate(setting.order):
                for mode in setting.modes:
                    with suppress(CaptureFailed):
                        self._model.capture_one(index, mode, op if place == broken else -1)
        except Refused as refused:
            self._model.captures.clear()
            return str(refused)
        return ""

    def _only_mixes_unmasked(self) -> bool:
        """A recording does not tell which rows of an operator are padding: the model knows."""
        setting = self._case.setting
        return all(
            op.kind == "mix_all"
            for op in setting.program.ops
            if op.kind in ONLY_AS_BREAK and not breaks_at(op, setting.backend)
        )

    def _step(self, step: Step) -> None:
        expected, self._world = run(self._terms, self._case.setting.program, step, self._world)
        view = self._model.step(step)
        if self._model.read(view) != expected:
            self._differs("the model's own replay differs from its reference")
        try:
            outcome = self._real.step(step, self._poison)
        except (RuntimeError, ValueError, IndexError) as error:
            self._differs(f"{type(error).__name__}: {error}")
        self._compare_dispatch(step, outcome, view.key)
        self._compare_rows("output", outcome.rows, expected)
        self._compare_world()
        self._compare_statics(step, outcome)
        self._count(step, outcome)

    def _compare_dispatch(self, step: Step, outcome: Outcome, key: Key) -> None:
        """The same bucket or the same reason; nothing has moved since the capture."""
        setting, bucket = self._case.setting, outcome.bucket
        theirs = setting.ladder.buckets[key[0]] if key else None
        if setting.backend.captures and bucket != theirs:
            self._differs(f"runs in {bucket}, the model in {theirs}")
        if bucket is None:
            n, m = step.tokens, len(step.requests)
            why = fallback_reason(setting.ladder, setting.rule, n, m) or "not captured"
            if outcome.reason != why:
                self._differs(f"eager as {outcome.reason}, the model says {why}")
            return
        views = self._real.views(*self._real.shape(bucket))
        if addresses(views) != self._real.captured_at[bucket, self._real.mode_of(step)]:
            self._differs(f"a static input of {bucket} has moved")
        if not self._case.in_pool and outcome.rows.data_ptr() != self._real.out.data_ptr():
            self._differs(f"the output of {bucket} has moved")

    def _compare_statics(self, step: Step, outcome: Outcome) -> None:
        """The static inputs hold what the model's do, padding included; the sink comes first."""
        shape = step.tokens, len(step.requests)
        rows, slots = self._real.shape(outcome.bucket) if outcome.bucket else shape
        views, sink = self._real.views(rows, slots), self._real.layout.sink
        found = {"slots": views.metadata.slots, "positions": views.metadata.positions,
                 "offsets": views.metadata.query_ends, "lengths": views.metadata.key_lengths,
                 "rows": views.index, "fresh": views.fresh, "count": views.count}  # fmt: skip
        for name, cells in self._images.of(step, rows, slots):
            if name in found:
                got, want = found[name].tolist(), list(cells)
                if name == "slots":
                    want = [0 if cell == sink else cell + 1 for cell in cells]
                if got != want:
                    self._differs(f"static input {name}: {got}, the model says {want}")

    def _compare_world(self) -> None:
        """Caches, states and the generator; what the reference never wrote holds what it did."""
        layout, world, model = self._real.layout, self._world, self._real.model
        for index in layout.caches:
            cells = [
                world.caches.get((index, row, position))
                for row in range(layout.rows)
                for position in range(layout.length)
            ]
            self._compare_rows(f"cache of operator {index}", model.caches[index][1:], cells)
        for index in layout.states:
            ends = [world.states.get((index, row)) for row in range(layout.rows)]
            self._compare_rows(f"state of operator {index}", model.states[index][:-1], ends)
        if not torch.equal(self._generator.get_state(), self._draws.state(world.drawn)):
            self._differs(f"the generator is not where {world.drawn} draws leave it")
        if not self._real.extras.foreign_is_whole():
            self._differs("a block of another owner was written")

    def _compare_rows(self, what: str, found: torch.Tensor, terms: Sequence[int | None]) -> None:
        got = found.cpu()
        nothing = (NAN,) * int(got.shape[1])
        numbers = [nothing if term is None else self._numbers.of(term) for term in terms]
        want = torch.tensor(numbers, dtype=torch.float64)
        same = (got == want) | (got.isnan() & want.isnan())
        if not bool(same.all()):
            row = int((~same).any(1).nonzero()[0])
            first, second = got[row].tolist(), want[row].tolist()
            self._differs(f"{what}, row {row}: {first}, the model says {second}")

    def _differs(self, what: str) -> NoReturn:
        raise Disagreement(self._number, what)

    def _count(self, step: Step, outcome: Outcome) -> None:
        bucket, setting, report = outcome.bucket, self._case.setting, self._report
        where = "fallback"
        if bucket is not None:
            full = bucket.num_tokens == step.tokens and bucket.slots in {None, len(step.requests)}
            where = "exact" if full else "padded"
        for kind in {op.kind for op in setting.program.ops}:
            report.covered[kind, setting.backend.name, where] += 1
        if outcome.reason:
            report.reasons[outcome.reason] += 1
        report.steps += 1
