"""How long capturing a ladder takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from simcg.arrays import Ints
from simcg.backend import COMPILED, EAGER
from simcg.cost.kernels import Work
from simcg.cost.step import OpTimes, StepCost
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


@dataclass(frozen=True, slots=True)
class BucketStartup:
    """Nanoseconds of what start-up does for each bucket.

    ``warm_up_ns``: one run, by size.  ``record_ns``: issuing every op once more under capture.
    ``instantiate_ns``: making its graphs ready for launch.  The last two are the same for all.
    """

    warm_up_ns: Ints
    record_ns: int
    instantiate_ns: int


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
    compile_ns = compile_startup(sizes, model, compiler)
    if not sizes:
        return Startup(0, compile_ns)
    bucket = bucket_startup(sizes, model, compiler)
    captures = (bucket.record_ns + bucket.instantiate_ns) * len(sizes)
    return Startup(warm_ups * int(bucket.warm_up_ns.sum()) + captures, compile_ns)


def bucket_startup(
    sizes: tuple[int, ...],
    model: ReplayModel,
    compiler: Compiler = "inductor",
    op_times: OpTimes | None = None,
) -> BucketStartup:
    """The parts of ``startup`` for each of the sizes.

    ``op_times``: kernel times of one prompt of each size, where they are known already.
    """
    issued = COMPILED if model.backend.compiles else EAGER
    cost = StepCost(model.forward, _with_code_of(compiler, model.profile), issued)
    if op_times is None:
        rows = np.array(sizes, dtype=np.int64)
        work = Work(rows, rows, np.ones_like(rows), rows * (rows + 1) // 2)
        op_times = OpTimes(model.profile, work)
    warm = cost.times_from(op_times)
    costs, nodes = model.profile.startup, model.replay.nodes
    per_segment = costs.capture_per_segment.value if costs.capture_per_segment else 0.0
    segments = model.replay.segments * per_segment
    record = round(nodes * costs.capture_per_node.value + segments)
    both = costs.capture_per_node.value + costs.instantiate_per_node.value
    return BucketStartup(warm.ns, warm.host_ns + record, round(nodes * both + segments) - record)


def compile_startup(
    sizes: tuple[int, ...], model: ReplayModel, compiler: Compiler = "inductor"
) -> int:
    """Nanoseconds of the compiler, once however many buckets there are; 0 where none is used."""
    if not ((model.backend.compiles and bool(sizes)) or model.fallback.compiles):
        return 0
    costs, layers = model.profile.startup, len(model.forward.layers)
    known = costs.compilers.get(compiler)
    if known is None:
        return round(costs.compile_per_layer.value * layers)
    return round(known.once.value + known.per_layer.value * layers)


def _with_code_of(compiler: Compiler, profile: HardwareProfile) -> HardwareProfile:
    """The profile whose compiled code is that compiler's."""
    known = profile.startup.compilers.get(compiler)
    if known is None or known.dispatch is None:
        return profile
    host = msgspec.structs.replace(profile.host, compiled_dispatch=known.dispatch)
    return msgspec.structs.replace(profile, host=host)
