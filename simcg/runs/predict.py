"""What a profile says about measured cells, without a look at any measured time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simcg.arrays import Ints
from simcg.backend import EAGER, backend_named
from simcg.cost.kernels import Kernels, Work
from simcg.cost.memory import graph_bytes
from simcg.cost.startup import Startup, startup
from simcg.cost.step import OpTimes
from simcg.cost.table import ReplayModel
from simcg.des.memory.pool import seeded_pool_bytes
from simcg.hardware.profile import HardwareProfile
from simcg.model.activations import peak_activation_bytes
from simcg.model.architecture import Architecture
from simcg.model.lean import lean_pass
from simcg.model.ops import ForwardPass, Gemm, GroupedGemm, Op, Shape
from simcg.runs.schema import Compiler


@dataclass(frozen=True, slots=True)
class StepSizes:
    """Batches as int64 columns; ``bucket`` is 0 where the step ran eager."""

    tokens: Ints
    requests: Ints
    pairs: Ints
    bucket: Ints

    @property
    def work(self) -> Work:
        """The dense ops at the bucket, or at the batch's own size."""
        rows = np.where(self.bucket > 0, self.bucket, self.tokens)
        return Work(rows, self.tokens, self.requests, self.pairs)


@dataclass(frozen=True)
class Predictor:
    """One architecture on one profile, as the lean decoder of the measurements runs it."""

    architecture: Architecture
    profile: HardwareProfile

    @cached_property
    def forward(self) -> ForwardPass:
        """The ops that the decoder issues."""
        return lean_pass(self.architecture)

    def model(self, backend: str) -> ReplayModel:
        """Replay by that backend; where nothing replays, eager."""
        return ReplayModel(self.forward, self.profile, backend_named(backend), EAGER)

    def step_ns(self, backend: str, sizes: StepSizes) -> Ints:
        """Step times in ns; steps without a bucket run eager under every backend."""
        times = OpTimes(self.profile, sizes.work)
        model = self.model(backend)
        eager = model.eager.times_from(times).ns
        return np.where(sizes.bucket > 0, model.replay.times_from(times).ns, eager)

    def largest_part(self, backend: str, sizes: StepSizes) -> list[str]:
        """For each step what takes most of its time: the host, or the ops of one name."""
        times = OpTimes(self.profile, sizes.work)
        cost = self.model(backend).replay
        step = cost.times_from(times)
        distinct, order = self.forward.numbered
        counts = np.bincount(order, minlength=len(distinct))
        spent = np.array([times.of(op).ns * n for op, n in zip(distinct, counts, strict=True)])
        host_bound = step.host_ns > step.device_ns
        return [
            "host" if bound else f"{distinct[i].name} {100 * share:.0f}%"
            for bound, i, share in zip(
                host_bound.tolist(),
                spent.argmax(0).tolist(),
                (spent.max(0) / step.ns).tolist(),
                strict=True,
            )
        ]

    def startup(self, backend: str, compiler: Compiler, bucket: int) -> Startup:
        """Capture of one bucket with its warm-ups, and the compiler's time of a whole ladder."""
        model = self.model(backend)
        return startup((bucket,), model, compiler) if compiler else startup((bucket,), model)

    def compile_once_ns(self, compiler: Compiler) -> int:
        """The share of the compiler's time that a process pays once."""
        known = {str(name): c for name, c in self.profile.startup.compilers.items()}.get(compiler)
        return 0 if known is None else round(known.once.value)

    def eager_peak_bytes(self, tokens: int) -> int:
        """The most activations alive at once in one eager step."""
        return peak_activation_bytes(self.forward, tokens)

    def pool_bytes(self, backend: str, buckets: tuple[int, ...], requests: int = 1) -> int:
        """The graphs' pool as the measurements capture: it starts as one block."""
        return seeded_pool_bytes(self.forward, backend_named(backend), buckets, requests)

    def device_bytes(self, backend: str, buckets: tuple[int, ...], requests: int = 1) -> int:
        """Graph memory of a ladder beside the first graph's context: the pool and the graphs."""
        context = round(self.profile.memory.first_graph_bytes.value)
        graphs = graph_bytes(len(buckets), self.model(backend)) - context
        return self.pool_bytes(backend, buckets, requests) + graphs

    def unmeasured(self) -> tuple[str, ...]:
        """The dense ops of this model whose size the profile has no curve for."""
        kernels = Kernels(self.profile)
        return tuple(_described(op) for op in self._dense if not kernels.measured_rows(op))

    def timed_rows(self) -> frozenset[int]:
        """The row counts at which every dense op was timed, if it was timed at all."""
        kernels = Kernels(self.profile)
        curves = [set(map(int, kernels.measured_rows(op))) for op in self._dense]
        return frozenset.intersection(*map(frozenset, curves)) if curves else frozenset()

    @cached_property
    def _dense(self) -> tuple[Op, ...]:
        distinct, _ = self.forward.numbered
        return tuple(
            op
            for op in distinct
            if isinstance(op.shape, Gemm | GroupedGemm) and op.rows == "tokens"
        )


def _described(op: Op) -> str:
    shape: Shape = op.shape
    if isinstance(shape, Gemm):
        return f"{op.name} {shape.k}x{shape.n}"
    if isinstance(shape, GroupedGemm):
        return f"{op.name} {shape.experts}x{shape.k}x{shape.n}"
    return op.name
