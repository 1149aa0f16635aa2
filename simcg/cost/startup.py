"""How long capturing a ladder takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from simcg.backend import COMPILED, EAGER
from simcg.cost.kernels import Work
from simcg.cost.step import StepCost
from simcg.cost.table import ReplayModel
from simcg.hardware.profile import HardwareProfile

Compiler = Literal["eager", "inductor"]
WARM_UPS = 2
"""Runs of each shape before its capture, as engines do."""


@dataclass(frozen=True, slots=True)
class Startup:
    """Nanoseconds of start-up: capture of every bucket (warm-ups included), compiler."""

    capture_ns: int
    compile_ns: int

    @property
    def ns(self) -> int:
        """All of it."""
        return self.capture_ns + self.compile_ns


def startup(
    sizes: tuple[int, ...],
    model: ReplayModel,
    compiler: Compiler = "inductor",
    warm_ups: int = WARM_UPS,
) -> Startup:
    """Start-up of a ladder with these sizes: weights and kernel compilation excluded.

    A bucket costs its ``warm_ups``, the issue of every op once more under capture, and the
    instantiation of every node and segment. A compiling backend compiles every layer once, and
    issues the compiler's code, which is slower than eager where it is interpreted.
    """
    compiles = (model.backend.compiles and bool(sizes)) or model.fallback.compiles
    compile_ns = _compile_ns(model, compiler) if compiles else 0
    if not sizes:
        return Startup(0, compile_ns)
    rows = np.array(sizes, dtype=np.int64)
    ones = np.ones_like(rows)
    issued = COMPILED if model.backend.compiles else EAGER
    cost = StepCost(model.forward, _with_code_of(compiler, model.profile), issued)
    warm = cost.times(Work(rows, rows, ones, rows * (rows + 1) // 2))
    costs = model.profile.startup
    per_node = costs.capture_per_node.value + costs.instantiate_per_node.value
    per_segment = costs.capture_per_segment.value if costs.capture_per_segment else 0.0
    recorded = model.replay.nodes * per_node + model.replay.segments * per_segment
    per_bucket = warm.host_ns + round(recorded)
    return Startup(warm_ups * int(warm.ns.sum()) + per_bucket * len(sizes), compile_ns)


def _with_code_of(compiler: Compiler, profile: HardwareProfile) -> HardwareProfile:
    """The profile whose compiled code is that compiler's."""
    known = profile.startup.compilers.get(compiler)
    if known is None or known.dispatch is None:
        return profile
    host = msgspec.structs.replace(profile.host, compiled_dispatch=known.dispatch)
    return msgspec.structs.replace(profile, host=host)


def _compile_ns(model: ReplayModel, compiler: Compiler) -> int:
    costs, layers = model.profile.startup, len(model.forward.layers)
    known = costs.compilers.get(compiler)
    if known is None:
        return round(costs.compile_per_layer.value * layers)
    return round(known.once.value + known.per_layer.value * layers)
