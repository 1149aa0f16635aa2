"""All measurements in order, each with the seconds that it may take on an H200."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch

from real_gpu.backends.piecewise.compilers import CompilerName
from real_gpu.calibrate import curves, gaps, host, startup
from real_gpu.calibrate.burst import CAREFUL_BURSTS, QUICK_BURSTS, bursts
from real_gpu.calibrate.clock import Clock
from real_gpu.calibrate.company import Company
from real_gpu.calibrate.issue import Bench
from real_gpu.calibrate.plan import (
    Shapes,
    both_kinds,
    curve_name,
    few,
    fine_rows,
    middle_rows,
    shapes_of,
)
from real_gpu.calibrate.timing import CAREFUL, QUICK, Pace
from real_gpu.graphs.device import GraphDevice
from simcg.model.architecture import Architecture

LOGIT_ROWS = [1, 2, 4, 8, 16, 32, 64, 128]
BYTE_ROWS = [1, 4, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
             6144, 8192]  # fmt: skip
FEW_ROWS = [1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
POWERS = list(range(10, 31))  # of two: bytes that a multiplication moves
GAP_ROWS = [16, 64, 128, 256, 512, 1024]
BREAK_ROWS = [64, 128, 192, 256]
FEW_DECODES, FEW_DECODE_KEYS = [1, 4, 16, 64, 128], [64, 512, 2048, 8192]
LONG_DECODES = [2, 4, 8, 16, 24, 32, 48, 64, 128]
FEW_TOKENS, FEW_KEYS = [1, 64, 256, 1024, 4096], [32, 128, 512, 2048, 8192]
CHAINS = [1024, 4096, 16384]
REPLAYED = [1, 4, 16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384]


@dataclass(frozen=True, slots=True)
class Section:
    """One measurement: its name in the raw file, what it may take, and the call."""

    name: str
    budget_s: float
    measure: Callable[[], object]


@dataclass(frozen=True)
class Job:
    """What every section needs."""

    models: Sequence[Architecture]
    device: GraphDevice
    quick: bool

    @property
    def pace(self) -> Pace:
        """How long a point may take."""
        return QUICK if self.quick else CAREFUL

    @property
    def bench(self) -> Bench:
        """Buffers in bf16 on the GPU."""
        return Bench(self.device.device, torch.bfloat16)

    @cached_property
    def clock(self) -> Clock:
        """Times ops beside layers of the first dense model."""
        dense = both_kinds(self.models)[0]
        return Clock(Company(self.bench, dense), self.pace)

    def rows(self, grid: list[int]) -> list[int]:
        """The grid, or three of its points."""
        return few(grid) if self.quick else grid


def sections(job: Job) -> list[Section]:
    """The first must see the first graph of the process; dispatch is measured twice, as hosts
    are noisy.
    """
    shapes = shapes_of(job.models)
    first = job.models[0]
    samples = 5 if job.quick else 25
    dispatch = partial(_dispatch, both_kinds(job.models), job.device.device, samples)
    dense = both_kinds(job.models)[0]
    plan = QUICK_BURSTS if job.quick else CAREFUL_BURSTS
    depths = (1, 2, 1) if job.quick else (2, 6, 2)
    thin, wide = ((1, 2), (1, 2)) if job.quick else ((2, 10), (2, 10))
    compilers: tuple[tuple[CompilerName, float], ...] = (("eager", 10), ("inductor", 50))
    return [
        Section("chains", 6, partial(startup.chains, job.rows(CHAINS))),
        Section("allocator", 1, startup.allocator),
        Section("dispatch", 6, dispatch),
        Section("launch_latency", 1, partial(host.launch_latency, 20 if job.quick else 200)),
        Section("replay", 6, partial(host.replay, job.rows(REPLAYED))),
        Section("backends", 6, partial(startup.backends, first, job.device, thin)),
        Section("breaks", 5, partial(gaps.breaks, dense, job.device, job.rows(BREAK_ROWS), wide,
                                     job.pace.samples)),
        Section("gaps", 6, partial(gaps.gaps, job.bench, dense, job.rows(GAP_ROWS), job.clock)),
        *_curve_sections(job, shapes),
        Section("burst", 15, lambda: bursts(job.clock.company, plan)),
        Section("dispatch again", 3, dispatch),
        *(
            Section(f"compiled {name}", seconds,
                    partial(startup.compiled, first, job.device, name, depths))
            for name, seconds in compilers
        ),
    ]  # fmt: skip


def _dispatch(
    models: list[Architecture], device: torch.device, samples: int
) -> dict[str, dict[str, host.Figure]]:
    return {arch.name: host.dispatch(arch, device, samples) for arch in models}


def _curve_sections(job: Job, shapes: Shapes) -> list[Section]:
    bench, clock, out = job.bench, job.clock, []
    for products, grid, seconds in (
        (shapes.gemms, fine_rows(), 7.0),
        (shapes.spread_gemms[: 2 if job.quick else None], middle_rows(), 2.5),
        (shapes.logits, LOGIT_ROWS, 0.8),
    ):
        for one in products:
            call = partial(curves.gemm, bench, one, job.rows(grid), clock)
            out.append(Section(f"gemm {one.k}x{one.n}", seconds, call))
    for experts, grid, seconds in (
        (shapes.grouped, middle_rows(), 6.0),
        (shapes.spread_grouped[: 1 if job.quick else None], FEW_ROWS, 1.5),
    ):
        for grouped in experts:
            name = f"grouped {grouped.top_k}/{grouped.experts} {grouped.k}x{grouped.n}"
            call = partial(curves.grouped, bench, grouped, job.rows(grid), clock)
            out.append(Section(name, seconds, call))
    out += _attention_sections(job, shapes)
    powers = job.rows(POWERS)
    out.append(Section("elementwise", 1, partial(curves.multiply, bench, powers, clock)))
    for arch, op in shapes.elementwise:
        call = partial(curves.elementwise, bench, arch, op, job.rows(BYTE_ROWS), clock)
        out.append(Section(f"elementwise {curve_name(op)}", 1, call))
    return out


def _attention_sections(job: Job, shapes: Shapes) -> list[Section]:
    """Of prompts and of decodes, finely for the models' own heads."""
    known, spread = shapes.attentions, shapes.spread_attentions
    grids = (
        ("attention", curves.attention, known, curves.TOKENS, curves.KEYS, 6.0),
        ("attention", curves.attention, spread, FEW_TOKENS, FEW_KEYS, 1.5),
        ("decode attention", curves.decode_attention, known, curves.DECODES, curves.DECODE_KEYS,
         6.0),
        ("decode attention", curves.decode_attention, spread, FEW_DECODES, FEW_DECODE_KEYS, 1.0),
        # behind a window all requests are alike
        ("long decode", curves.long_decode, [s for s in (*known, *spread) if s.window is None],
         LONG_DECODES, curves.LONG_KEYS, 1.2),
    )  # fmt: skip
    return [
        Section(f"{name} {shape.heads}/{shape.kv_heads}/{shape.head_dim}/{shape.window}", seconds,
                partial(measure, job.bench, shape, job.rows(x), job.rows(y), job.clock))
        for name, measure, every, x, y, seconds in grids
        for shape in every
    ]  # fmt: skip
