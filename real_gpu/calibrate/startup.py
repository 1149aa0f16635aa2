"""What capturing and compiling cost: time per node, per graph and per layer; device memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from real_gpu.attention.attention import using
from real_gpu.backends.backend import Backend
from real_gpu.backends.breakable import breakable
from real_gpu.backends.eager import Eager
from real_gpu.backends.full import full
from real_gpu.backends.piecewise.compilers import CompilerName
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.calibrate.small import SmallDecoder, thin
from real_gpu.calibrate.timing import capture, host_ns, warm
from real_gpu.graphs.device import GraphDevice
from simcg.ladder import Bucket
from simcg.model.architecture import Architecture

Row = dict[str, Any]

TOKENS = 16
CAPTURES = 6
"""Buckets that a backend captures; the first pays for the pool and for code that never ran."""
SMALL_GRAPHS, SMALL_NODES = 512, 12


def chains(nodes: list[int]) -> dict[str, object]:
    """Capture and instantiation of chains of tiny nodes, and the device bytes of their graphs.

    Must be the first graphs of the process: the very first one makes a context. Bytes come in
    steps of 2 MiB, so many small graphs are taken together.
    """
    x = torch.zeros(64, device="cuda")

    def call() -> object:
        return x.add_(1)

    warm([call])
    free = _free()
    first = capture([call])
    first.replay()
    context = free - _free()
    rows = []
    for count in nodes:
        free, begin = _free(), time.perf_counter_ns()
        graph = capture([call] * count, keep=True)
        captured = time.perf_counter_ns()
        graph.instantiate()
        made = time.perf_counter_ns()
        graph.replay()
        rows.append(
            {
                "nodes": count, "capture_ns": captured - begin, "instantiate_ns": made - captured,
                "bytes": free - _free(),
            }
        )  # fmt: skip
        graph.reset()
    pool = first.pool()
    free = _free()
    small = [capture([call] * SMALL_NODES, pool=pool) for _ in range(SMALL_GRAPHS)]
    for graph in small:
        graph.replay()
    held = free - _free()
    for graph in (*small, first):
        graph.reset()
    return {
        "first_graph_bytes": context, "chains": rows,
        "small": {"graphs": SMALL_GRAPHS, "nodes": SMALL_NODES, "bytes": held},
    }  # fmt: skip


def _free() -> int:
    torch.cuda.synchronize()
    return int(torch.cuda.mem_get_info()[0])


def allocator() -> dict[str, int]:
    """Bytes that the caching allocator reserves for one small and one large tensor."""
    out = {}
    for name, size in (("small_segment_bytes", 4096), ("large_segment_bytes", 2 << 20)):
        torch.cuda.empty_cache()
        pool = torch.cuda.MemPool()
        before = torch.cuda.memory_reserved()
        with torch.cuda.use_mem_pool(pool):
            kept = torch.empty(size, dtype=torch.uint8, device="cuda")
        out[name] = torch.cuda.memory_reserved() - before
        del kept, pool
    return out


def backends(arch: Architecture, device: GraphDevice, depths: Sequence[int]) -> list[Row]:
    """Thin decoders of two depths under each backend: capture, nodes, and a replay's host time."""
    rows = []
    for layers in depths:
        small = SmallDecoder.of(thin(arch, layers), device.device, TOKENS)
        makers: list[Backend] = [
            Eager(), full(device), breakable(device), TcPiecewise(device, "eager"),
        ]  # fmt: skip
        for backend in makers:
            rows.append({"layers": layers, **_captured(small, backend, device)})
            backend.cleanup()
    return rows


def compiled(
    arch: Architecture, device: GraphDevice, compiler: CompilerName, depths: Sequence[int]
) -> list[Row]:
    """tc_piecewise of several depths: the first run pays for imports, later ones do not.

    Inductor starts from an empty cache each time. ``compiled_ns``: host time of the compiled
    pieces and the breaks, without graphs.
    """
    rows = []
    for layers in depths:
        with _empty_cache(compiler):
            small = SmallDecoder.of(thin(arch, layers), device.device, TOKENS)
            backend = TcPiecewise(device, compiler)
            row = {"layers": layers, **_captured(small, backend, device)}
            step = small.forward()
            with using(small.attention):
                bare = partial(backend.run, step, TOKENS)
                row["compiled_ns"] = host_ns(bare, device.synchronize)
            backend.cleanup()
        rows.append(row)
    return rows


def _captured(small: SmallDecoder, backend: Backend, device: GraphDevice) -> Row:
    """Figures of one bucket of several, as a ladder has them; compilation is the first one's."""
    keys = [Bucket(TOKENS, slots) for slots in range(1, CAPTURES + 1)]
    with using(small.attention):
        figures = [backend.capture_one(key, small.forward()) for key in keys]
        host = host_ns(partial(backend.replay, keys[-1]), device.synchronize)
    return {
        "backend": backend.kind.name, "host_ns": host,
        "capture_ns": statistics.median(one.capture_ns for one in figures[1:]),
        "compile_ns": figures[0].compile_ns,
        "nodes": figures[0].nodes, "segments": figures[0].segments,
    }  # fmt: skip


@contextmanager
def _empty_cache(compiler: CompilerName) -> Iterator[None]:
    """Nothing compiled before is found again."""
    torch.compiler.reset()
    if compiler == "eager":
        yield
        return
    from torch._inductor.utils import fresh_cache  # noqa: PLC0415  # takes a second

    with fresh_cache():
        yield
