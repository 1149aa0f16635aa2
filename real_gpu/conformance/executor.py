"""A runner for programs: real static inputs, planner, admission and backends around a forward.

It is to the formal model's programs what ``real_gpu.runners.Runner`` is to a decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch

from real_gpu.attention.cache import SINK, KvCache
from real_gpu.attention.metadata import LaunchBounds
from real_gpu.attention.plan import Planner
from real_gpu.backends.backend import Backend
from real_gpu.backends.breakable import breakable
from real_gpu.backends.eager import Eager
from real_gpu.backends.full import full
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.conformance.arithmetic import WIDTH, token
from real_gpu.conformance.case import Case
from real_gpu.conformance.extras import Extras
from real_gpu.conformance.forward import BrokenOffError, Forward, Live, items_of, using
from real_gpu.conformance.kernels import NAN, Launch, Model, Views
from real_gpu.graphs.device import CaptureError, GraphDevice
from real_gpu.runners.admission import Admission
from real_gpu.runners.inputs import StaticInput
from simcg.batch import Batch
from simcg.formal.step import Step
from simcg.ladder import Bucket

Make = Callable[[GraphDevice], Backend]
BACKENDS: dict[str, Make] = {
    "eager": lambda _: Eager(),
    "full": full,
    "breakable": breakable,
    "tc_piecewise": TcPiecewise,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a step ran, why it ran eager, and its output [n, ``WIDTH``]."""

    bucket: Bucket | None
    reason: str | None
    rows: torch.Tensor


@dataclass(slots=True)
class Statics:
    """The static inputs beside the planner's metadata, each with what its padding holds."""

    ids: StaticInput
    index: StaticInput
    fresh: StaticInput
    count: StaticInput

    @staticmethod
    def on(device: torch.device, tokens: int, slots: int, state_sink: int) -> Statics:
        """Buffers for so many rows and requests."""

        def ints(name: str, cells: int, pad: int) -> StaticInput:
            return StaticInput(name, torch.zeros(cells, dtype=torch.int64, device=device), pad)

        rows = torch.zeros(tokens, WIDTH, dtype=torch.float64, device=device)
        return Statics(
            StaticInput("ids", rows, 0),
            ints("index", slots, state_sink),
            ints("fresh", slots, 0),
            ints("count", 1, 0),
        )


class Executor:
    """One case on one device.

    ``backends``: one for each value of the host scalar that graphs of the program bake, as one
    backend files captures by bucket alone. ``captured_at``: where each bucket's static inputs lay.
    """

    def __init__(self, case: Case, device: GraphDevice) -> None:
        setting, self.case, self.device = case.setting, case, device
        self.layout = layout = setting.layout()
        where, program = device.device, setting.program
        cells = 1 + layout.rows * layout.length
        caches = {k: torch.full((cells, WIDTH), NAN, dtype=torch.float64, device=where)
                  for k in (layout.caches or (-1,))}  # fmt: skip
        states = {k: torch.full((layout.rows + 1, WIDTH), NAN, dtype=torch.float64, device=where)
                  for k in layout.states}  # fmt: skip
        most = 2 + max(layout.length, layout.tokens)
        self.model = Model(len(program.ops), most, caches, states)
        cache = KvCache(tuple(caches.values()), tuple(caches.values()), layout.length)
        self.planner = Planner(cache, layout.tokens, layout.slots)
        self.statics = Statics.on(where, layout.tokens, layout.slots, layout.rows)
        self.out = torch.full((layout.tokens, WIDTH), NAN, dtype=torch.float64, device=where)
        side = second_stream(where) if self._has_streams else None
        self.forward = Forward(self.model, program, device, side, returns=self._returns,
                               in_pool=case.in_pool)  # fmt: skip
        self.live = Live(self.model, items_of(program))
        self.extras = Extras(program, setting.backend, self.model, device)
        self.own_draws: torch.Generator | None = torch.Generator(where)
        self.admission = Admission(setting.ladder, setting.rule)
        make = BACKENDS[setting.backend.name]
        self.backends = {mode: make(device) for mode in self._modes}
        self.captured_at: dict[tuple[Bucket, int], tuple[int, ...]] = {}

    @property
    def _has_streams(self) -> bool:
        """Compiled code has one stream."""
        return not self.case.setting.backend.compiles

    @property
    def _returns(self) -> bool:
        """A compiled break writes into an argument."""
        return self.case.returns and not self.case.setting.backend.compiles

    @property
    def _modes(self) -> tuple[int, ...]:
        baked = any(op.kind == "launch" for op in self.case.setting.program.ops)
        return self.case.setting.modes if baked else (0,)

    def mode_of(self, step: Step) -> int:
        """Which of the backends the step replays on."""
        return step.mode if len(self.backends) > 1 else 0

    def capture(self) -> None:
        """Capture every bucket in the case's order; ``CaptureError`` for the first that fails.

        One that is to break off is left out, in every mode.
        """
        fails = self.case.fails
        for mode, backend in self.backends.items():
            self.extras.prepare(backend)
            for place, index in enumerate(self.case.setting.order):
                bucket = self.admission.ladder.buckets[index]
                if fails is not None and fails[0] == place:
                    self._break_off(backend, bucket, mode, fails[1])
                else:
                    self._capture_one(backend, bucket, mode)
        self.extras.captured()

    def _break_off(self, backend: Backend, bucket: Bucket, mode: int, op: int) -> None:
        """A capture that fails in the middle, after its warm-ups; raises what else is wrong."""
        self.forward.fails_at = op
        try:
            self._capture_one(backend, bucket, mode)
        except CaptureError as error:
            if BrokenOffError.__name__ not in str(error):
                raise
        finally:
            self.forward.fails_at = -1

    def _capture_one(self, backend: Backend, bucket: Bucket, mode: int) -> None:
        rows, slots = self.shape(bucket)
        bounds = self.planner.write_idle(rows, slots)
        self.statics.ids.buffer.fill_(1)
        self.statics.index.buffer.fill_(self.layout.rows)
        self.statics.fresh.buffer.fill_(0)
        self.statics.count.buffer.fill_(rows)
        views = self.views(rows, slots)
        self.live.use(views, rows, 1, Launch(bounds.longest_key, mode))
        with using(self.live):
            backend.capture_one(bucket, self.captured_forward(views, mode))
        self.captured_at[bucket, mode] = addresses(views)

    def captured_forward(self, views: Views, mode: int) -> Callable[[], torch.Tensor]:
        """What a bucket's graph is made of: bounds that hold for every step are baked."""
        forward, live = self.forward, self.live
        rows, slots = int(views.ids.shape[0]), int(views.index.shape[0])
        longest = self.planner.baked_bounds(rows, slots).longest_key
        launch, extra = Launch(longest, mode, self.own_draws), self.extras.of_capture()
        if self.case.setting.backend.breaks or not self.case.setting.backend.captures:
            return lambda: forward.run(views, launch, extra)

        def whole() -> torch.Tensor:
            live.use(views, rows, slots, launch)
            return forward.run(views, launch, extra)

        return whole

    def shape(self, bucket: Bucket) -> tuple[int, int]:
        """Rows and request slots of a bucket."""
        return bucket.num_tokens, bucket.slots or self.planner.requests

    def views(self, rows: int, slots: int) -> Views:
        """Static inputs and output at that shape, at the same addresses each time."""
        statics = self.statics
        return Views(
            statics.ids.first(rows), self.out[:rows], self.planner.metadata(rows, slots),
            statics.index.first(slots), statics.fresh.first(slots), statics.count.first(1),
        )  # fmt: skip

    def step(self, step: Step, poison: Callable[[Views, int, Backend | None], None]) -> Outcome:
        """Admit, pad, rewrite, replay or run eagerly; ``poison`` is called before it runs."""
        n, m = step.tokens, len(step.requests)
        bucket, reason = self.admission.admit(n, m)
        backend = self.backends[self.mode_of(step)]
        if bucket is not None and not backend.can_run(bucket):
            reason = self.admission.uncaptured(bucket)
            bucket = None
        rows, slots = self.shape(bucket) if bucket else (n, m)
        bounds = self.write(step, rows, slots)
        views = self.views(rows, slots)
        poison(views, n, backend if bucket else None)
        launch = Launch(bounds.longest_key, step.mode)
        self.live.use(views, n, m, launch)
        with using(self.live):
            if bucket is not None:
                result = backend.replay(bucket)
            else:
                with torch.inference_mode():
                    result = self.forward.run(views, launch, self.extras.of_step())
        return Outcome(bucket, reason, result[:n])

    def write(self, step: Step, rows: int, slots: int) -> LaunchBounds:
        """Rewrite the static inputs for a step, padded to that shape."""
        requests, length = step.requests, self.layout.length
        batch = Batch(tuple(r.query for r in requests), tuple(r.context for r in requests))
        starts = [SINK + 1 + r.row * length for r in requests]
        bounds = self.planner.write(batch, starts, rows, slots)
        statics = self.statics
        tokens = [token(r.name, p) for r in requests for p in range(r.context, r.length)]
        statics.ids.write(torch.tensor(tokens, dtype=torch.float64), rows)
        statics.index.write(torch.tensor([r.row for r in requests]), slots)
        statics.fresh.write(torch.tensor([int(r.context == 0) for r in requests]), slots)
        statics.count.write(torch.tensor([step.tokens]), 1)
        return bounds

    def close(self) -> None:
        """Release every graph."""
        for backend in self.backends.values():
            backend.cleanup()


@cache
def second_stream(device: torch.device) -> torch.cuda.Stream | None:
    """One for all cases, as PyTorch gives out the same few streams in turn; None on the CPU."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None


def addresses(views: Views) -> tuple[int, ...]:
    """Where the static inputs and the output lie."""
    return tuple(tensor.data_ptr() for tensor in views.tensors())
