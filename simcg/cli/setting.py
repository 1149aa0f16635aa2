"""From the values of shared options to a scenario."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simcg.backend import CaptureBackend, backend_named
from simcg.cost.table import ReplayModel
from simcg.engines import Deployment, Engine, engine_named
from simcg.errors import InputError, require
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import HardwareProfile
from simcg.model.architecture import Architecture
from simcg.model.catalog import load_architecture
from simcg.model.forward import forward_pass
from simcg.model.ops import Dtype, activation_dtype
from simcg.optimize.scenario import LARGEST_CHUNK, Limits, Scenario
from simcg.workload.builtin import builtin_workload, workload_names
from simcg.workload.read import read_traffic
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps

DEFAULT_WORKLOAD = "azure-conv"
DRAWN_REQUESTS = 5_000
"""Requests drawn from a built-in workload unless told otherwise: enough that another seed moves
the mean step time by about one percent."""


@dataclass(frozen=True, slots=True)
class TrafficSource:
    """Where the traffic comes from, as the user said it."""

    traffic: str | None
    workload: str | None
    requests: int | None
    columns: Mapping[str, str] | None
    cache_tokens: int | None
    file_format: str | None = None

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> TrafficSource:
        """The values of ``traffic_options``, which are taken out of ``options``."""
        return cls(**{name: options.pop(name) for name in cls.__dataclass_fields__})

    def read(self, max_context: int | None = None) -> Requests | Steps:
        """The requests or steps; prompts at most ``max_context`` tokens long."""
        if self.traffic is None:
            about_file = {
                "--format": self.file_format,
                "--columns": self.columns,
                "--cache-tokens": self.cache_tokens,
            }
            for flag, value in about_file.items():
                if value is not None:
                    raise InputError(flag, "", "no traffic file", "a file that it describes")
            name = self.workload or DEFAULT_WORKLOAD
            return _drawn(name, self.requests, max_context)
        for flag, value in (("--workload", self.workload), ("--requests", self.requests)):
            if value is not None:
                raise InputError(flag, "", value, "no traffic file beside it")
        return read_traffic(
            self.traffic,
            format=self.file_format,
            columns=self.columns,
            cache_tokens=self.cache_tokens,
            max_context=max_context,
        )


def _drawn(name: str, count: int | None, max_context: int | None) -> Requests:
    """A built-in workload; its longest prompts must fit the model as a file's must."""
    if name not in workload_names():
        raise InputError("--workload", "", name, one_of(name, workload_names()))
    drawn = builtin_workload(name, count if count is not None else DRAWN_REQUESTS)
    longest = int(drawn.prompt_tokens.max())
    if max_context is not None and longest > max_context:
        raise InputError(f"workload {name}", "prompt tokens", longest,
                         f"at most {max_context}, the model's context")  # fmt: skip
    return drawn


def scenario_from(
    source: TrafficSource,
    server: Mapping[str, Any],
    limits: Limits,
    *,
    any_length: bool = False,
) -> Scenario:
    """The scenario that the options in ``server`` (see ``server_options``) describe.

    ``any_length``: prompts may be longer than the model's context.
    """
    arch = load_architecture(server["model"])
    engine = engine_named(server["engine"])
    backend = _backend(engine, server["backend"])
    for flag, count in (("--slots", server["slots"]), ("--max-num-seqs", server["max_num_seqs"])):
        few = count is None or 1 <= count <= LARGEST_CHUNK  # a request has a token at least
        require(few, flag, "", count, f"an integer from 1 to {LARGEST_CHUNK}")
    slots = server["slots"]
    if slots is not None and not backend.uses_slots:
        raise InputError("--slots", "", slots, f"backend full: {backend.name} has no slots")
    chunk = server["max_chunk"]
    if backend.uses_slots and slots is None and chunk >= 1:
        slots = engine.default_slots(chunk)
    profile = load_profile(server["hardware"])
    _check_fit(arch, server["tp"], server["dtype"], profile)
    model = ReplayModel(
        forward=forward_pass(arch, tp=server["tp"], dtype=server["dtype"]),
        profile=profile,
        backend=backend,
        fallback=engine.fallback_backend,
        slots=slots,
    )
    blackwell = model.profile.name in ("b200", "gb200", "b300", "gb300")
    deployment = Deployment(max_num_seqs=server["max_num_seqs"], is_datacenter_blackwell=blackwell)
    return Scenario(
        engine=engine,
        model=model,
        traffic=source.read(None if any_length else arch.max_position),
        max_chunk=chunk,
        rate=server["rate"],
        max_requests=server["max_requests"],
        limits=limits,
        deployment=deployment,
    )


def _check_fit(arch: Architecture, tp: int, dtype: Dtype | None, profile: HardwareProfile) -> None:
    """The GPU computes in that type and holds the weights; ``InputError`` says which does not."""
    needs = None if dtype is None else {"fp8": "fp8", "nvfp4": "fp4"}.get(activation_dtype(dtype))
    units = {str(name) for name in profile.gpu.peak_flops}
    if needs is not None and needs not in units:
        raise InputError("--dtype", "", dtype, f"a type that {profile.name} computes in: "
                         + ", ".join(sorted(units)))  # fmt: skip
    stored = (arch if dtype is None else arch.with_weights(dtype)).weight_bytes(tp)
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


def one_of(name: str, known: Sequence[str]) -> str:
    """What was expected instead of ``name``, with the closest of the known names."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"one of {', '.join(known)}" + (f"; did you mean {close[0]}?" if close else "")
