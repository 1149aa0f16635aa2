"""Kernel time curves: products, grouped products, attention, element-wise ops."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch

from real_gpu.calibrate.clock import Clock, Timed
from real_gpu.calibrate.issue import Bench
from real_gpu.calibrate.plan import curve_name
from simcg.model.architecture import Architecture
from simcg.model.ops import Attention, Elementwise, Gemm, GroupedGemm, Op

Section = dict[str, Any]
"""``key``: fields of a CurveKey; ``x``: where it was timed; ``ns`` and ``spread_ns`` there.

``beside_rows``, ``beside_ns``: the layers that ran in turns with it, and how long they took then.
"""

FLOPS, BYTES = 6e8, 4e6  # about what a GPU does in a microsecond: only to size the graphs
ONE_REQUEST = 40.0  # keys of one request
MOST_DECODE_CALLS = 64
BESIDE_ROWS = 64  # of the forward beside what has no rows
TOKENS = [1, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192]
DECODES = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128]
DECODE_KEYS = [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
BAKED_KEYS = 40_960  # of a decode graph: the positions of a common model
SHORT_KEYS = 16  # of the requests beside a long one
LONG_KEYS = [512, 4096]
DRAWN, DRAWN_MEDIAN, DRAWN_SIGMA = [4, 12, 24, 32, 64], 900.0, 1.0
KEYS = [8, 32, 128, 512, 1024, 2048, 4096, 8192, 16384, 65536]


def _section(key: dict[str, object], points: Iterable[tuple[object, Timed]]) -> Section:
    at, timed = zip(*points, strict=True)
    return {
        "key": key,
        "x": list(at),
        "ns": [round(t.ns) for t in timed],
        "spread_ns": [max(1, round(t.spread_ns)) for t in timed],
        "beside_rows": [t.beside_rows for t in timed],
        "beside_ns": [round(t.beside_ns) for t in timed],
    }


def gemm_us(shape: Gemm, rows: int) -> float:
    """About how long a product takes."""
    compute, stream = 2 * rows * shape.k * shape.n / FLOPS, 2 * shape.k * shape.n / BYTES
    return max(3.0, compute, stream)


def gemm(bench: Bench, shape: Gemm, rows: list[int], clock: Clock) -> Section:
    """A product over its rows, weights rotated past L2."""
    matrices = bench.matrices(shape)
    points = []
    for r in rows:
        timed = clock.call_ns(bench.gemm(matrices, r), gemm_us(shape, r), r)
        points.append((r, timed))
    return _section({"op": "gemm", "k": shape.k, "n": shape.n}, points)


def grouped(bench: Bench, shape: GroupedGemm, rows: list[int], clock: Clock) -> Section:
    """A grouped product over the rows before they are routed."""
    weight = bench.experts(shape)
    points = []
    for r in rows:
        routed = r * shape.top_k
        touched = 2 * min(shape.experts, routed) * shape.k * shape.n
        work = max(2 * routed * shape.k * shape.n / FLOPS, touched / BYTES, 8.0)
        calls = bench.grouped(shape, weight, r, draws=8 if work < 200 else 4)
        points.append((r, clock.call_ns(calls, work, r)))
    key = {"experts": shape.experts, "top_k": shape.top_k, "k": shape.k, "n": shape.n}
    return _section({"op": "grouped_gemm", **key}, points)


def attention(
    bench: Bench, shape: Attention, tokens: list[int], keys: list[int], clock: Clock
) -> Section:
    """Attention over a grid of query tokens and mean keys per query without a window.

    Fewer mean keys than half the tokens are several requests without context; more are one with
    context. x is [tokens, pairs] as they came out.
    """
    points: list[tuple[object, Timed]] = []
    for n in tokens:
        for mean in keys:
            requests = max(1, round(n / (2 * mean)))
            query = n // requests
            context = max(0, mean - query // 2)
            pairs = requests * query * (context + (query + 1) / 2)
            guess = max(5.0, 4 * shape.heads * shape.head_dim * pairs / FLOPS)
            calls = bench.attention(shape, requests, query, context)
            timed = clock.call_ns(calls, guess, n)
            points.append(([query * requests, round(pairs)], timed))
    return _section({**_attention_key(shape), "op": "attention"}, points)


def _attention_key(shape: Attention) -> dict[str, object]:
    key: dict[str, object] = {"heads": shape.heads, "kv_heads": shape.kv_heads}
    return key | {"head_dim": shape.head_dim, "window": shape.window or 0}


def decode_attention(
    bench: Bench, shape: Attention, requests: list[int], keys: list[int], clock: Clock
) -> Section:
    """Attention of requests that add one token each, over a grid of requests and their keys.

    As a graph of decode steps launches it, with bounds for a long context. x is [requests, keys].
    """
    points: list[tuple[object, Timed]] = []
    for m in requests:
        for each in keys:
            moved = 4 * m * each * shape.kv_heads * shape.head_dim
            calls = bench.attention(shape, m, 1, each - 1, BAKED_KEYS, most=MOST_DECODE_CALLS)
            points.append(([m, each], clock.call_ns(calls, max(5.0, moved / BYTES), m)))
    return _section({**_attention_key(shape), "op": "decode_attention"}, points)


def long_decode(
    bench: Bench, shape: Attention, requests: list[int], keys: list[int], clock: Clock
) -> Section:
    """As ``decode_attention`` where one request is long and all others are short.

    ``drawn``: batches whose lengths are drawn, to see whether the law of ``simcg.cost.ragged``
    holds; nothing is taken from them.
    """

    def at(lengths: list[int]) -> Timed:
        moved = 4 * sum(lengths) * shape.kv_heads * shape.head_dim
        guess = max(5.0, moved / BYTES, max(lengths) / ONE_REQUEST)
        calls = bench.ragged(shape, lengths, 1, BAKED_KEYS, MOST_DECODE_CALLS)
        return clock.call_ns(calls, guess, len(lengths))

    points: list[tuple[object, Timed]] = []
    for m in requests:
        for longest in keys:
            # the long one is neither the first nor the last to be started
            lengths = [SHORT_KEYS] * (m // 2) + [longest] + [SHORT_KEYS] * (m - m // 2 - 1)
            points.append(([m, longest], at(lengths)))
    draws = random.Random(0)
    drawn: list[tuple[object, Timed]] = []
    for m in (m for m in DRAWN if m <= requests[-1]):
        of_batch = [draws.lognormvariate(math.log(DRAWN_MEDIAN), DRAWN_SIGMA) for _ in range(m)]
        lengths = [min(max(round(length), SHORT_KEYS), 2 * keys[-1]) for length in of_batch]
        drawn.append((lengths, at(lengths)))
    key = {**_attention_key(shape), "op": "decode_attention"}
    return {**_section(key, points), "short_keys": SHORT_KEYS, "drawn": _section(key, drawn)}


def elementwise(bench: Bench, arch: Architecture, op: Op, rows: list[int], clock: Clock) -> Section:
    """An element-wise op over the bytes that one of its kernels moves."""
    if not isinstance(op.shape, Elementwise):
        raise TypeError(f"{op.name} is not element-wise")
    row_bytes = (op.shape.read_bytes + op.shape.write_bytes) / op.kernels
    points = []
    for r in rows:
        call = bench.small(arch, op, r)
        timed = clock.call_ns([call], max(2.0, r * row_bytes / BYTES), r)
        points.append((r * row_bytes, timed.divided(op.kernels)))
    return _section({"op": "elementwise", "kind": curve_name(op)}, points)


def multiply(bench: Bench, powers: Iterable[int], clock: Clock) -> Section:
    """The stand-in for element-wise kernels without a curve: two reads and a write."""
    points = []
    for power in powers:
        elements = max(64, (1 << power) // 6)
        a, b = bench.rows(2, elements)
        out = torch.empty_like(a)
        timed = clock.call_ns([partial(torch.mul, a, b, out=out)], 2.0, BESIDE_ROWS)
        points.append((6 * elements, timed))
    return _section({"op": "elementwise", "kind": ""}, points)
