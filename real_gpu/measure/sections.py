"""The parts of a measuring run, each on benches of its own."""

from __future__ import annotations

import gc
import time
from functools import partial

import numpy as np
import torch

from real_gpu.graphs.device import GraphDevice
from real_gpu.measure.bench import Bench, Room
from real_gpu.measure.correctness import (
    cases,
    measure_equality,
    measure_invariance,
    poisoned_embedding,
)
from real_gpu.measure.decide import measure_decisions, ways_of
from real_gpu.measure.matrix import captures, matrix
from real_gpu.measure.memory import memory_cell
from real_gpu.measure.peers import measure_peers
from real_gpu.measure.plain import Plain
from real_gpu.measure.runner import Emit, Way, slots_of, stretches
from real_gpu.measure.setting import Setting
from real_gpu.measure.traffic import sampled_steps
from simcg.errors import InputError
from simcg.model.architecture import Architecture
from simcg.model.lean import lean_pass
from simcg.model.ops import Gemm
from simcg.workload.batches import even_batch

SEED = 0
WIDEST_OUTPUT = 1 << 16
"""Products with more columns are heads of a vocabulary, which no bucket contains."""


def dtype_on(device: GraphDevice) -> torch.dtype:
    """16 bit on a GPU; on the CPU what its reference attention computes in."""
    return torch.bfloat16 if device.device.type == "cuda" else torch.float64


def run_matrix(setting: Setting, device: GraphDevice, emit: Emit) -> None:
    """Captures, memory and latency of every model, one model after the other."""
    print(f"matrix: samples for about {setting.scale.matrix_seconds:.0f} s", flush=True)
    for name, arch in setting.models.items():
        _matrix_of(name, arch, setting, device, emit)
        _give_back(device)  # the next model needs the room


def _matrix_of(
    name: str, arch: Architecture, setting: Setting, device: GraphDevice, emit: Emit
) -> None:
    top, requests = max(setting.tokens), max(setting.requests)
    room = Room(top, requests, top + 1)
    bench = Bench(arch, device, dtype_on(device), room)
    sizes = [(n, m) for n in setting.tokens for m in setting.requests]
    ways = []
    peak = _peak(bench, setting, room)
    for backend, compiler in setting.ways.values():
        way = bench.way(
            backend, compiler, setting.tokens if backend != "eager" else (),
            requests if backend == "full" else None,
        )  # fmt: skip
        _captured(name, way, device, peak, emit)
        ways.append(way)
    plain = Plain(bench.decoder, bench.cache, room)
    seconds = setting.scale.matrix_seconds / len(setting.models)
    for cell in matrix(
        name, ways, plain, sizes, arch.vocab, device.synchronize, device.device, seconds, SEED
    ):
        emit(cell)
    bench.close()


def _peak(bench: Bench, setting: Setting, room: Room) -> int:
    """Activations of one eager step of the largest size; every size has run once afterwards.

    Libraries load kernels at their first use, which no ladder's memory should contain.
    """
    runner = bench.way("eager", "", ()).runner
    for tokens in sorted(setting.tokens):
        ids = torch.ones(tokens, dtype=torch.int64, device=bench.device.device)
        batch = even_batch(tokens, min(room.requests, tokens), 0)
        planned = runner.plan(batch, ids, stretches(batch), None)
        runner.run(planned)  # workspaces of libraries are not activations
        peak = bench.device.peak_bytes(partial(runner.run, planned))
    return peak


def _captured(name: str, way: Way, device: GraphDevice, peak: int, emit: Emit) -> None:
    """Capture all buckets; say what it took."""
    _give_back(device)
    before, begin = device.memory(), time.perf_counter()
    way.runner.capture()
    took = time.perf_counter() - begin
    _give_back(device)
    if way.runner.figures:
        for line in captures(name, way):
            emit(line)
        emit(memory_cell(name, way, before, device.memory(), peak))
        print(f"{took:7.1f} s    {name}: captured {way.name}", flush=True)


def run_correctness(setting: Setting, device: GraphDevice, emit: Emit) -> None:
    """Equality of every way that captures, and of the products of all models alone."""
    rng = np.random.default_rng(SEED)
    for name, arch in setting.models.items():
        _correctness_of(name, arch, setting, device, rng, emit)
        _give_back(device)
    shapes = dict.fromkeys(s for arch in setting.models.values() for s in _products(arch))
    measure_invariance(list(shapes), device.device, dtype_on(device), emit)


def _correctness_of(
    name: str, arch: Architecture, setting: Setting, device: GraphDevice,
    rng: np.random.Generator, emit: Emit,
) -> None:  # fmt: skip
    scale, requests = setting.scale, max(setting.requests)
    top = max(scale.correct_sizes)
    room = Room(top, requests, 1 + 2 * top + requests * scale.most_context)
    bench = Bench(arch, device, dtype_on(device), room, min(scale.correct_layers, arch.layers))
    ways = []
    for backend, compiler in setting.ways.values():
        if backend != "eager":
            way = bench.way(
                backend, compiler, scale.correct_sizes, requests if backend == "full" else None
            )
            ways.append(way)
    if setting.debug_graph:
        ways.append(bench.debug_graph(scale.correct_sizes))
    for way in ways:
        way.runner.capture()
    tried = cases(
        scale.correct_sizes, requests, scale.correct_cases, scale.most_context, arch.vocab,
        device.device, rng,
    )  # fmt: skip
    plain = Plain(bench.decoder, bench.cache, room)
    with poisoned_embedding(bench.decoder):
        measure_equality(name, ways, bench, plain, tried, emit)
    bench.close()


def _products(arch: Architecture) -> list[tuple[int, int]]:
    shapes = [op.shape for op in lean_pass(arch).numbered[0]]
    return [(s.k, s.n) for s in shapes if isinstance(s, Gemm) and s.n < WIDEST_OUTPUT]


def run_peers(setting: Setting, device: GraphDevice, emit: Emit) -> None:
    """The breakable backend beside its peers."""
    measure_peers(device, setting.scale.peer_replays, emit)


def run_decisions(setting: Setting, device: GraphDevice, emit: Emit) -> None:
    """Sampled steps of the trace under the named ladders, with the first of the models."""
    name, arch = next(iter(setting.models.items()))
    scale = setting.scale
    print(f"decisions: samples for about {scale.decision_seconds:.0f} s", flush=True)
    if setting.traffic is None:
        raise InputError("--sections", "", "decisions", "--trace beside it")
    sampled = sampled_steps(
        setting.traffic, arch, setting.profile, setting.ladders, scale.max_chunk, scale.steps, SEED
    )
    for line in sampled.ladders:
        emit(line)
    batches = [batch for _, batch in sampled.batches]
    ways = ways_of(batches, sampled.ladders)
    buckets = sorted({bucket for way in ways for bucket in way if bucket})
    room = Room(
        max(*(batch.num_tokens for batch in batches), *buckets),
        max(batch.num_requests for batch in batches),
        max(map(slots_of, batches)),
    )
    bench = Bench(arch, device, dtype_on(device), room)
    way = bench.way("breakable", "", buckets)
    way.runner.capture()
    measure_decisions(
        name, way, sampled.batches, ways, arch.vocab, device.device, device.synchronize,
        scale.decision_seconds, SEED, emit,
    )  # fmt: skip
    bench.close()


def _give_back(device: GraphDevice) -> None:
    """Cached blocks go back to the GPU, so that what it has in use says something."""
    gc.collect()
    device.synchronize()
    if device.device.type == "cuda":
        torch.cuda.empty_cache()
