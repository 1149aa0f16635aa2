"""One server to ask about: an engine that runs a model on GPUs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from simcg.arguments import check_fields
from simcg.backend import CaptureBackend, backend_named
from simcg.cost.step import StepCost
from simcg.cost.table import ReplayModel
from simcg.engines import Deployment, Engine, engine_named
from simcg.errors import InputError, one_of, require
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import HardwareProfile
from simcg.ladder import Ladder
from simcg.model.architecture import Architecture
from simcg.model.catalog import load_architecture
from simcg.model.forward import forward_pass
from simcg.model.ops import Dtype, activation_dtype
from simcg.optimize.scenario import LARGEST_CHUNK, Limits, Scenario, check_chunk
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps

if TYPE_CHECKING:
    from simcg.des.serving.setup import Wanted

BLACKWELL = ("b200", "gb200", "b300", "gb300")


@dataclass(frozen=True)
class Server:
    """What a server is started with; names are those of ``simcg optimize``'s options.

    ``model``, ``hardware``: built-in names, or a Hugging Face config.json and a profile file.
    ``max_chunk``: most tokens of a prefill step.  ``tp``: tensor-parallel ranks.  ``dtype``: of the
    weights, None for the config's.  ``engine``: sglang or vllm, ``==VERSION`` after it.
    ``backend``, ``slots``: None for the engine's.  ``max_num_seqs``: most requests that decode
    together.  ``max_requests``: most requests of a prefill step.

    Raises ``InputError`` where a value is of another type, a name is unknown, parts do not go
    together, or weights do not fit.
    """

    model: str = "qwen3-8b"
    hardware: str = "h200"
    max_chunk: int = 8192
    tp: int = 1
    dtype: Dtype | None = None
    engine: str = "sglang"
    backend: str | None = None
    slots: int | None = None
    max_num_seqs: int | None = None
    max_requests: int | None = None

    def __post_init__(self) -> None:
        for name in ("model", "hardware"):  # a path is as good as its text
            given = getattr(self, name)
            if isinstance(given, os.PathLike):
                object.__setattr__(self, name, os.fspath(given))
        check_fields(self)
        check_chunk(self.max_chunk)
        _ = self.replay_model  # what does not go together is told where it is written

    @cached_property
    def arch(self) -> Architecture:
        """The model, its weights in ``dtype``."""
        arch = load_architecture(self.model)
        return arch if self.dtype is None else arch.with_weights(self.dtype)

    @cached_property
    def rules(self) -> Engine:
        """The engine's version: what it captures, admits and calls its flags."""
        return engine_named(self.engine)

    @cached_property
    def replay_model(self) -> ReplayModel:
        """What a replay and an eager step cost on this server."""
        engine, backend = self.rules, _backend(self.rules, self.backend)
        for flag, count in (("--slots", self.slots), ("--max-num-seqs", self.max_num_seqs)):
            few = count is None or 1 <= count <= LARGEST_CHUNK  # a request has a token at least
            require(few, flag, "", count, f"an integer from 1 to {LARGEST_CHUNK}")
        slots = self.slots
        if slots is not None and not backend.uses_slots:
            raise InputError("--slots", "", slots, f"backend full: {backend.name} has no slots")
        if backend.uses_slots and slots is None:
            slots = engine.default_slots(self.max_chunk)
        profile = load_profile(self.hardware)
        _check_fit(self.arch, self.tp, self.dtype, profile)
        return ReplayModel(
            forward=forward_pass(self.arch, tp=self.tp),
            profile=profile,
            backend=backend,
            fallback=engine.fallback_backend,
            slots=slots,
        )

    def step_cost(self, backend: str | None = None) -> StepCost:
        """What a step costs under a backend, None for the one that captures on this server."""
        model = self.replay_model
        if backend is None:
            return model.replay
        return StepCost(model.forward, model.profile, backend_named(backend))

    @property
    def deployment(self) -> Deployment:
        """What the engine's defaults depend on beside the chunk."""
        blackwell = self.replay_model.profile.name in BLACKWELL
        return Deployment(max_num_seqs=self.max_num_seqs, is_datacenter_blackwell=blackwell)

    def scenario(
        self, traffic: Requests | Steps, *, rate: float = 1.0, limits: Limits | None = None
    ) -> Scenario:
        """The question which ladder this traffic wants; ``rate``: so many times faster."""
        return Scenario(
            engine=self.rules,
            model=self.replay_model,
            traffic=traffic,
            max_chunk=self.max_chunk,
            rate=rate,
            max_requests=self.max_requests,
            limits=limits or Limits(),
            deployment=self.deployment,
        )

    def wanted(self, ladder: Ladder) -> Wanted:
        """What to serve with under load: this server with ``ladder``, else as the engine does."""
        from simcg.des.serving.setup import Wanted  # noqa: PLC0415 - not needed for ladders alone

        return Wanted(
            arch=self.arch,
            tp=self.tp,
            ladder=ladder,
            max_running=self.max_num_seqs,
            max_requests=self.max_requests,
        )


def _check_fit(arch: Architecture, tp: int, dtype: Dtype | None, profile: HardwareProfile) -> None:
    """The GPU computes in that type and holds the weights; ``InputError`` says which does not."""
    needs = None if dtype is None else {"fp8": "fp8", "nvfp4": "fp4"}.get(activation_dtype(dtype))
    units = {str(name) for name in profile.gpu.peak_flops}
    if needs is not None and needs not in units:
        raise InputError("--dtype", "", dtype, f"a type that {profile.name} computes in: "
                         + ", ".join(sorted(units)))  # fmt: skip
    stored = arch.weight_bytes(tp)
    room = int(profile.gpu.memory_bytes.value)
    if stored > room:
        raise InputError("--tp", "", tp, f"more ranks, or a smaller --dtype: {arch.name} has "
                         f"{stored / 2**30:.0f} GiB of weights a rank, {profile.name} holds "
                         f"{room / 2**30:.0f} GiB")  # fmt: skip


def _backend(engine: Engine, name: str | None) -> CaptureBackend:
    """The backend of that name if the engine's version has it; its default for None."""
    if name is None:
        return engine.default_backend
    known = {backend.name: backend for backend in engine.backends}
    if name not in known:
        where = f"--backend with {engine.name} {engine.version}"
        raise InputError(where, "", name, one_of(name, tuple(known)))
    return backend_named(name)
