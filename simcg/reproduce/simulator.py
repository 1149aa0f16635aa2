"""The simulator under fitted parameters: steps, start-up and memory of the published set-ups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import msgspec
import numpy as np

from simcg.arrays import Ints
from simcg.backend import EAGER, FULL, CaptureBackend
from simcg.cost.kernels import Work
from simcg.cost.memory import graph_bytes
from simcg.cost.startup import WARM_UPS, bucket_startup, compile_startup
from simcg.cost.step import OpTimes, StepCost, StepTimes
from simcg.cost.table import ReplayModel
from simcg.des.memory.ladder import CaptureResult, StepLimits, ladder_capture
from simcg.engines.sizes import sglang_prefill_sizes
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import HardwareProfile
from simcg.model.architecture import Architecture
from simcg.model.catalog import load_architecture
from simcg.model.forward import forward_pass
from simcg.model.ops import Dtype, ForwardPass
from simcg.model.parts import Phase
from simcg.model.weights import WeightDtypes
from simcg.reproduce.parameters import Parameters, with_parameters
from simcg.reproduce.sparse_host import sparse_dispatch, with_sparse_kernel
from simcg.reproduce.tensorrt_llm import fused

TTFT_LENGTHS = (64, 128, 256, 512, 1024, 2048)
"""Prompt tokens of the published TTFTs: a 32 times range, each a bucket of the default ladder."""
CHUNK_OF_42_SHAPES = 2048
"""The chunk whose default ladder has the 42 shapes that start-up and memory are stated for."""
TC_WARM_UPS = 1
"""tc_piecewise runs each shape once before the run that captures it, where breakable and full run
it twice (SGLang's public source, the capture loops of its graph back ends)."""
DECODE_KEYS = 1024
"""Keys a decoding request attends to where a source does not say; they hardly weigh on K8."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A model on so many ranks of a machine, and which of its forwards.

    ``dtype`` None: weights as its checkpoint has them; nvfp4: attention stays 16 bit, as in
    NVIDIA's 4-bit checkpoints of expert models. ``fusions``: TensorRT-LLM's, without or with those
    of the experts' sums; "" are SGLang's.
    """

    model: str
    tp: int
    hardware: str = "gb300"
    dtype: Dtype | None = None
    phase: Phase = "prefill"
    fusions: Literal["", "norms", "norms and sums"] = ""

    @property
    def architecture(self) -> Architecture:
        """The model with its weights as deployed."""
        architecture = load_architecture(self.model)
        if self.dtype is None:
            return architecture
        if self.dtype == "nvfp4":
            return replace(architecture, weights=WeightDtypes("bf16", "nvfp4", "nvfp4"))
        return architecture.with_weights(self.dtype)

    @property
    def outside_graphs(self) -> Deployment:
        """Where nothing is captured, sparse attention runs short prompts densely."""
        return replace(self, phase="dense_prefill") if self.phase == "short_prefill" else self


@dataclass(frozen=True, slots=True)
class Capture:
    """Seconds of start-up: compiler, and capture of every shape."""

    compile_s: float
    capture_s: float

    @property
    def compile_share(self) -> float:
        """Share of the preparation that is compilation."""
        return self.compile_s / (self.compile_s + self.capture_s)


@cache
def forward_of(deployment: Deployment) -> ForwardPass:
    """The forward of one rank."""
    forward = forward_pass(deployment.architecture, tp=deployment.tp, phase=deployment.phase)
    if not deployment.fusions:
        return forward
    return fused(forward, sums=deployment.fusions == "norms and sums")


@cache
def prefill_times(deployment: Deployment, sizes: tuple[int, ...]) -> OpTimes:
    """Kernel times of one-request prefills of these sizes: no fitted parameter touches them."""
    profile = load_profile(deployment.hardware)
    if deployment.phase == "short_prefill":
        profile = with_sparse_kernel(profile)
    return OpTimes(profile, one_request(sizes))


@cache
def decode_times(deployment: Deployment, requests: int, rows: int) -> OpTimes:
    """Kernel times of a step that decodes so many requests, padded to these rows."""
    ones: Ints = np.ones(1, dtype=np.int64)
    work = Work(
        rows=rows * ones,
        tokens=0 * ones,
        requests=rows * ones,
        pairs=0 * ones,
        decodes=requests * ones,
        decode_keys=requests * DECODE_KEYS * ones,
    )
    return OpTimes(load_profile(deployment.hardware), work)


def one_request(sizes: tuple[int, ...]) -> Work:
    """One prompt of each size, without context, at its own size."""
    n: Ints = np.array(sizes, dtype=np.int64)
    return Work(rows=n, tokens=n, requests=np.ones_like(n), pairs=n * (n + 1) // 2)


@cache
def played(
    deployment: Deployment, backend: CaptureBackend, sizes: tuple[int, ...], chunk: int
) -> CaptureResult:
    """A ladder's allocations, played; its exec bytes are those of the unfitted profile."""
    model = ReplayModel(forward_of(deployment), load_profile(deployment.hardware), backend, EAGER)
    return ladder_capture(model, sizes, StepLimits(chunk))


@dataclass(frozen=True, slots=True)
class Simulator:
    """All that the reproduction asks of simcg, as a function of the fitted parameters alone."""

    parameters: Parameters

    def profile(self, deployment: Deployment) -> HardwareProfile:
        """The deployment's profile with the parameters in place."""
        forward = forward_of(deployment)
        base = load_profile(deployment.hardware)
        ops = sum(op.kernels for op in forward.ops)
        fitted = with_parameters(base, self.parameters, ops / len(forward.layers))
        if deployment.phase not in ("short_prefill", "dense_prefill"):
            return fitted
        dispatch = fitted.host.dispatch | sparse_dispatch(forward)
        host = msgspec.structs.replace(fitted.host, dispatch=dispatch)
        return msgspec.structs.replace(fitted, host=host)

    def model(self, deployment: Deployment, backend: CaptureBackend) -> ReplayModel:
        """That forward on that profile."""
        return ReplayModel(forward_of(deployment), self.profile(deployment), backend, EAGER)

    def steps(
        self, deployment: Deployment, backend: CaptureBackend, sizes: tuple[int, ...]
    ) -> StepTimes:
        """Prefill steps of one request at these sizes, from an idle machine."""
        if not backend.captures:
            deployment = deployment.outside_graphs
        cost = StepCost(forward_of(deployment), self.profile(deployment), backend)
        return cost.times_from(prefill_times(deployment, sizes))

    def ttft_ms(
        self, deployment: Deployment, backend: CaptureBackend, sizes: tuple[int, ...] = TTFT_LENGTHS
    ) -> list[float]:
        """Times to first token: what lies outside the forward, and the step."""
        outside = self.parameters.outside_ns
        return [(outside + int(ns)) / 1e6 for ns in self.steps(deployment, backend, sizes).ns]

    def speedup(
        self, deployment: Deployment, faster: CaptureBackend, slower: CaptureBackend
    ) -> float:
        """Ratio of the mean TTFTs over the published lengths."""
        slow, fast = self.ttft_ms(deployment, slower), self.ttft_ms(deployment, faster)
        return sum(slow) / sum(fast)

    def capture(
        self, deployment: Deployment, backend: CaptureBackend, sizes: tuple[int, ...]
    ) -> Capture:
        """Start-up of a ladder under SGLang's loops.

        tc_piecewise compiles once and then runs every shape once more, which its authors count as
        compilation.
        """
        model = self.model(deployment, backend)
        bucket = bucket_startup(sizes, model, op_times=prefill_times(deployment, sizes))
        once_each = int(bucket.warm_up_ns.sum())
        recorded = (bucket.record_ns + bucket.instantiate_ns) * len(sizes)
        if not backend.compiles:
            return Capture(0.0, (WARM_UPS * once_each + recorded) / 1e9)
        compiled = compile_startup(sizes, model) + once_each
        return Capture(compiled / 1e9, (TC_WARM_UPS * once_each + recorded) / 1e9)

    def decode_ns(self, deployment: Deployment, requests: int, rows: int) -> int:
        """One replayed decode step of so many requests, each of DECODE_KEYS keys, at these rows."""
        cost = StepCost(forward_of(deployment), self.profile(deployment), FULL)
        return int(cost.times_from(decode_times(deployment, requests, rows)).ns[0])

    def graph_bytes(self, deployment: Deployment, graphs: int) -> float:
        """Device bytes of so many full graphs beside their pool."""
        model = self.model(deployment, FULL)
        return graph_bytes(graphs, model) - model.profile.memory.first_graph_bytes.value

    def ladder_bytes(
        self, deployment: Deployment, backend: CaptureBackend, sizes: tuple[int, ...]
    ) -> float:
        """Device bytes of a captured ladder: pool, ordinary memory and instantiated graphs."""
        result = played(deployment, backend, sizes, max(sizes))
        execs = graph_bytes(len(sizes), self.model(deployment, backend))
        return result.pool_reserved + result.ordinary_reserved + execs


def shapes(chunk: int = CHUNK_OF_42_SHAPES) -> tuple[int, ...]:
    """SGLang's default prefill ladder of that chunk."""
    return sglang_prefill_sizes(chunk)
