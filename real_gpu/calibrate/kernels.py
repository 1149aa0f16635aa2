"""Kernel time curves: GEMMs, grouped GEMMs, attention, element-wise bytes, norms."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch

from real_gpu.calibrate import fused
from real_gpu.calibrate.timing import graph_ns

DEVICE, BF16 = "cuda", torch.bfloat16
L2_BYTES = 64 << 20
Curve = dict[str, object]


def row_grid(quick: bool) -> list[int]:
    """Row counts fine enough for the staircase: every tile edge, and just beyond it."""
    if quick:
        return [1, 64, 1024]
    grid = {1, 2, 4, 8, 24, 40, 56}
    for last, step in ((1024, 16), (2048, 32), (4096, 64), (8192, 128)):
        grid |= set(range(step, last + 1, step))
    grid |= {edge + 1 for edge in range(64, 1025, 64)} | {
        edge + 1 for edge in range(1152, 4097, 128)
    }
    return sorted(grid)


def _curve(shape: dict[str, object], points: Iterable[tuple[object, float, float]]) -> Curve:
    at, median, spread = zip(*points, strict=True)
    return {
        "shape": shape,
        "rows": list(at),
        "ns": [round(v) for v in median],
        "spread_ns": [max(1, round(v)) for v in spread],
    }


def gemm(k: int, n: int, rows: list[int]) -> Curve:
    """bf16 rows x k times k x n, weights rotated past L2."""
    sets = min(64, math.ceil(2 * L2_BYTES / (2 * k * n)) + 1)
    weights = [torch.randn(n, k, device=DEVICE, dtype=BF16) / k**0.5 for _ in range(sets)]
    points = []
    for r in rows:
        x = torch.randn(r, k, device=DEVICE, dtype=BF16)
        out = torch.empty(r, n, device=DEVICE, dtype=BF16)
        guess = max(3.0, 2 * k * n / 4e6, 2 * r * k * n / 7e8)
        calls = [lambda w=w: torch.mm(x, w.t(), out=out) for w in weights]
        points.append((r, *graph_ns(calls, guess)))
    return _curve({"type": "gemm", "k": k, "n": n, "weights": "bf16"}, points)


def grouped_gemm(experts: int, top_k: int, k: int, n: int, rows: list[int]) -> Curve:
    """bf16 grouped GEMM; each row goes to ``top_k`` experts drawn uniformly, eight draws."""
    weight = torch.randn(experts, n, k, device=DEVICE, dtype=BF16) / k**0.5
    points = []
    for r in rows:
        x = torch.randn(r * top_k, k, device=DEVICE, dtype=BF16)
        calls = []
        for _ in range(8):
            chosen = torch.rand(r, experts, device=DEVICE).topk(top_k, dim=1).indices
            counts = torch.bincount(chosen.flatten(), minlength=experts)
            ends = counts.cumsum(0).to(torch.int32)
            calls.append(
                lambda e=ends: torch._grouped_mm(  # torch has no public name for it
                    x, weight.transpose(1, 2), offs=e, out_dtype=BF16
                )
            )
        touched = min(experts, r * top_k) * k * n * 2
        guess = max(8.0, touched / 4e6, 2 * r * top_k * k * n / 6e8)
        points.append((r, *graph_ns(calls, guess)))
    shape = {"type": "grouped_gemm", "experts": experts, "top_k": top_k, "k": k, "n": n}
    return _curve({**shape, "weights": "bf16"}, points)


def flash(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    ends_q: torch.Tensor,
    ends_k: torch.Tensor,
    longest_q: int,
    longest_k: int,
    window: int | None = None,
) -> Any:
    """torch's own varlen attention op: causal, grouped-query, optional left window."""
    left = None if window is None else window - 1
    return torch.ops.aten._flash_attention_forward(  # the op behind varlen_attn
        q, k, v, ends_q, ends_k, longest_q, longest_k, 0.0, True, False,
        window_size_left=left, window_size_right=None if window is None else 0,
    )  # fmt: skip


def attention(heads: int, kv_heads: int, dim: int, window: int | None, quick: bool) -> Curve:
    """Time over a grid of (query tokens n, mean keys per query of full causal attention).

    Fewer mean keys than n/2 are several requests without context; more are one with context.
    """
    tokens = [64, 1024] if quick else [1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
    keys = [64, 1024] if quick else [8, 32, 128, 512, 1024, 2048, 4096, 8192, 16384, 65536]
    points: list[tuple[object, float, float]] = []
    for n in tokens:
        for mean in keys:
            requests = max(1, round(n / (2 * mean)))
            length = n // requests
            context = max(0, mean - length // 2)
            q = torch.randn(length * requests, heads, dim, device=DEVICE, dtype=BF16)
            total = (length + context) * requests
            k = torch.randn(total, kv_heads, dim, device=DEVICE, dtype=BF16)
            v = torch.randn_like(k)
            ends_q = torch.arange(0, requests + 1, device=DEVICE, dtype=torch.int32) * length
            ends_k = torch.arange(0, requests + 1, device=DEVICE, dtype=torch.int32) * (
                length + context
            )

            call = partial(flash, q, k, v, ends_q, ends_k, length, length + context, window=window)
            pairs = length * requests * (context + (length + 1) / 2)
            guess = max(5.0, 4 * heads * dim * pairs / 4e8)
            median, spread = graph_ns([call], guess)
            points.append(([length * requests, round(pairs)], median, spread))
    shape = {"type": "attention", "heads": heads, "kv_heads": kv_heads, "head_dim": dim}
    return _curve({**shape, "window": window}, points)


def elementwise(quick: bool) -> Curve:
    """Time of one element-wise kernel over the bytes it moves (two reads, one write)."""
    points = []
    for power in (12, 20) if quick else range(10, 31):
        elements = max(64, (1 << power) // 6)
        a, b, c = (torch.randn(elements, device=DEVICE).to(BF16) for _ in range(3))
        calls = [lambda a=a, b=b, c=c: torch.mul(a, b, out=c)]
        points.append((6 * elements, *graph_ns(calls, max(2.0, 6 * elements / 4e6))))
    return _curve({"type": "elementwise"}, points)


def by_kind(rows: list[int]) -> list[Curve]:
    """Each fused element-wise op of a Qwen3-8B layer, over the bytes that it moves."""
    hidden, q_k, kv, wide = 4096, 40 * 128, 2 * 8 * 128, 12288
    weight = torch.ones(hidden, device=DEVICE, dtype=BF16)
    table = torch.randn(150_000, hidden, device=DEVICE, dtype=BF16)
    points: dict[str, list[tuple[object, float, float]]] = {}
    for r in rows:
        x, residual, out = (torch.randn(r, hidden, device=DEVICE, dtype=BF16) for _ in range(3))
        qkv = torch.randn(r, q_k + kv // 2, device=DEVICE, dtype=BF16)
        cos = torch.rand(r, 64, device=DEVICE)
        slots = torch.arange(r, device=DEVICE)
        cache = torch.empty(r, kv, device=DEVICE, dtype=BF16)
        gate_up = torch.randn(r, 2 * wide, device=DEVICE, dtype=BF16)
        activated = torch.empty(r, wide, device=DEVICE, dtype=BF16)
        ids = torch.randint(0, 150_000, (r,), device=DEVICE)
        calls = {
            "norm": (lambda: fused.add_norm(x, residual, weight, out), 8 * hidden),
            "head_norm": (lambda: fused.head_norm(qkv, weight[:128], 40), 4 * q_k),
            "rotary": (lambda: fused.rotary(qkv, cos, cos, 40), 4 * q_k + 512),
            "kv_write": (lambda: fused.write_rows(qkv, slots, cache), 4 * kv),
            "activation": (lambda: fused.silu_mul(gate_up, activated), 6 * wide),
            "embedding": (lambda: torch.index_select(table, 0, ids, out=x), 4 * hidden),
            "copy": (lambda: out.copy_(x), 4 * hidden),
        }
        for kind, (call, row_bytes) in calls.items():
            timed = graph_ns([call], max(2.0, r * row_bytes / 3e6))
            points.setdefault(kind, []).append((r * row_bytes, *timed))
    return [_curve({"type": "elementwise", "kind": kind}, p) for kind, p in points.items()]
