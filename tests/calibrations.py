"""Measurements made up by hand, as ``python -m real_gpu.calibrate`` would write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from real_gpu.calibrate.plan import Shapes, curve_name, shapes_of
from real_gpu.calibrate.profile import VERSION
from simcg.model.architecture import Architecture

ROWS = [1, 64, 1024, 8192]
KINDS = ("embedding", "elementwise", "norm", "gemm", "rotary", "kv_write", "attention",
         "activation", "router", "moe_sort", "grouped_gemm", "moe_combine")  # fmt: skip


def _timed(key: dict[str, object], x: Sequence[object], ns: Sequence[float]) -> dict[str, Any]:
    return {
        "key": key, "x": list(x), "ns": list(ns), "spread_ns": [max(1, v // 100) for v in ns],
        "beside_rows": [64] * len(x), "beside_ns": [2_000_000] * len(x),
    }  # fmt: skip


def curve_sections(shapes: Shapes) -> dict[str, Any]:
    """A curve for each kernel that a calibration plans: 5 us and something that grows."""
    out: dict[str, Any] = {}
    for gemm in (*shapes.gemms, *shapes.spread_gemms, *shapes.logits):
        key = {"op": "gemm", "k": gemm.k, "n": gemm.n}
        ns = [5000 + gemm.k * gemm.n // 2000 + r * gemm.k * gemm.n // 300_000 for r in ROWS]
        out[f"gemm {gemm.k}x{gemm.n}"] = _timed(key, ROWS, ns)
    for one in (*shapes.grouped, *shapes.spread_grouped):
        key = {"op": "grouped_gemm", "experts": one.experts, "top_k": one.top_k, "k": one.k,
               "n": one.n}  # fmt: skip
        ns = [9000 + r * one.top_k * one.k * one.n // 250_000 for r in ROWS]
        out[f"grouped {one.top_k}/{one.experts} {one.k}x{one.n}"] = _timed(key, ROWS, ns)
    for heads in (*shapes.attentions, *shapes.spread_attentions):
        key = {"op": "attention", "heads": heads.heads, "kv_heads": heads.kv_heads,
               "head_dim": heads.head_dim, "window": heads.window or 0}  # fmt: skip
        points = [(n, n * keys) for n in (16, 256, 4096) for keys in (16, 256, 4096)]
        ns = [6000 + pairs * heads.heads // 1000 for _, pairs in points]
        out[f"attention {heads}"] = _timed(key, points, ns)
        grid = [(m, keys) for m in (1, 16, 128) for keys in (16, 256, 4096)]
        ns = [5000 + m * keys * heads.kv_heads // 20 for m, keys in grid]
        out[f"decode attention {heads}"] = _timed({**key, "op": "decode_attention"}, grid, ns)
    for _, op in shapes.elementwise:
        key = {"op": "elementwise", "kind": curve_name(op)}
        out[f"elementwise {curve_name(op)}"] = _timed(key, [1000, 10**8], [1500, 40_000])
    out["elementwise"] = _timed({"op": "elementwise", "kind": ""}, [1000, 10**8], [1200, 35_000])
    return out


def _rows(backend: str, host: int, capture: int, **more: Any) -> list[dict[str, Any]]:
    """Depths 2 and 8: 50 us and ``host`` us a layer, 1 ms and ``capture`` us a layer."""
    return [
        {
            "backend": backend, "layers": depth, "host_ns": [50_000 + 1000 * host * depth, 99],
            "capture_ns": 1_000_000 + 1000 * capture * depth,
            "compile_ns": more.get("compile_ms", 0) * 10**6,
            "nodes": 3 + more.get("nodes", 0) * depth, "segments": 1 + depth,
        }
        for depth in (2, 8)
    ]  # fmt: skip


def _compiled(once_ms: int, per_layer_ms: int, host: int) -> list[dict[str, Any]]:
    return [
        {
            "backend": "tc_piecewise", "layers": depth, "host_ns": [1e5, 9], "capture_ns": 10**6,
            "compile_ns": 10**6 * (per_layer_ms * depth + (once_ms if first else 5)),
            "nodes": 3 + 11 * depth, "segments": 1, "compiled_ns": [7000 + 1000 * host * depth, 5],
        }
        for depth, first in ((2, True), (8, False), (2, False))
    ]  # fmt: skip


def made_raw(models: Sequence[Architecture]) -> dict[str, Any]:
    """What is expected of it is worked out in the tests."""
    chains = [
        {"nodes": n, "capture_ns": 5000 * n, "instantiate_ns": ns * n, "bytes": 2048 * n}
        for n, ns in ((1024, 6000), (4096, 5000), (16384, 5500))
    ]
    kinds = {kind: [10_000.0 + 1000 * i, 50.0] for i, kind in enumerate(KINDS)}
    again = {kind: [ns + 400.0, 50.0] for kind, (ns, _) in kinds.items()}
    sections = {
        "chains": {
            "first_graph_bytes": 70 << 20, "chains": chains,
            "small": {"graphs": 100, "nodes": 10, "bytes": 100 * (10 * 2048 + 5000)},
        },
        "allocator": {"small_segment_bytes": 2 << 20, "large_segment_bytes": 20 << 20},
        "dispatch": {"model": kinds},
        "dispatch again": {"model": again},
        "launch_latency": [11_000.0, 400.0],
        "replay": [[1, [3000.0, 10.0]], [21, [5000.0, 10.0]], [1024, [9000.0, 20.0]]],
        "backends": [
            *_rows("eager", host=200, capture=0),
            *_rows("full", host=1, capture=340, nodes=12),
            *_rows("breakable", host=40, capture=390, nodes=11),
            *_rows("tc_piecewise", host=47, capture=400, nodes=11, compile_ms=1280),
        ],
        "gaps": [
            {"rows": 16, "node": 600.0, "stream": 900.0, "graph_start": -50.0},
            {"rows": 64, "node": 700.0, "stream": 1100.0, "graph_start": -20.0},
            {"rows": 128, "node": 650.0, "stream": 1000.0, "graph_start": 90.0},
        ],
        "breaks": [
            {"rows": rows, "layers": depth, "break_kernels": 2, "full_ns": 130_000.0 * depth,
             "breakable_ns": 500.0 + (130_000.0 + more) * depth}
            for depth in (2, 10)
            for rows, more in ((64, 3000.0), (128, 2050.0), (256, 1000.0))
        ],
        "compiled eager": _compiled(once_ms=900, per_layer_ms=40, host=90),
        "compiled inductor": _compiled(once_ms=9000, per_layer_ms=200, host=93),
        **curve_sections(shapes_of(models)),
    }  # fmt: skip
    return {
        "version": VERSION, "quick": False, "models": [arch.name for arch in models],
        "environment": {"gpu": "NVIDIA H200", "sms": 132, "memory_bytes": 150_000_000_000,
                        "torch": "2.11.0", "host": "a host"},
        "seconds": {}, "sections": sections,
    }  # fmt: skip
