"""One op of the lean decoder as a call over buffers of its own, at any number of rows.

Products and attention give several calls, over different weights or keys, so that what a call
reads was not read by the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import torch

from real_gpu.attention.device import attention_kernel
from real_gpu.attention.metadata import AttentionMetadata, LaunchBounds
from real_gpu.models.kernels import kernels_for
from real_gpu.models.weights import angles
from simcg.model.architecture import Architecture
from simcg.model.ops import Attention, Gemm, GroupedGemm, Op

Call = Callable[[], object]
COLD_BYTES = 512 << 20
"""Ten times an H200's L2: weights that are read again after so many bytes come from memory.

Twice would do if a cache forgot what is oldest first; it does not quite.
"""
MOST_SETS = 256


@dataclass(frozen=True, slots=True)
class Bench:
    """Makes calls on one device in one type."""

    device: torch.device
    dtype: torch.dtype

    def rows(self, rows: int, width: int) -> torch.Tensor:
        """Random values [rows, width]."""
        return torch.randn(rows, width, device=self.device, dtype=self.dtype)

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A buffer for a result."""
        return torch.empty(shape, device=self.device, dtype=dtype or self.dtype)

    def matrices(self, shape: Gemm, most: int = MOST_SETS) -> list[torch.Tensor]:
        """Weights [k, n], as many as make them cold."""
        size = shape.k * shape.n * self.dtype.itemsize
        sets = min(most, math.ceil(COLD_BYTES / size) + 1)
        draw = partial(torch.empty, shape.n, shape.k, device=self.device, dtype=self.dtype)
        return [draw().normal_(0.0, shape.k**-0.5).t() for _ in range(sets)]

    def gemm(self, matrices: list[torch.Tensor], rows: int) -> list[Call]:
        """``rows`` rows times each of the matrices."""
        k, n = matrices[0].shape
        x, out = self.rows(rows, k), self.empty(rows, n)
        return [partial(torch.mm, x, matrix, out=out) for matrix in matrices]

    def experts(self, shape: GroupedGemm) -> torch.Tensor:
        """Weights [experts, k, n] of a grouped product, contiguous along k."""
        empty = self.empty(shape.experts, shape.n, shape.k)
        return empty.normal_(0.0, shape.k**-0.5).transpose(1, 2)

    def grouped(
        self, shape: GroupedGemm, weight: torch.Tensor, rows: int, draws: int
    ) -> list[Call]:
        """Each row goes to ``top_k`` experts drawn uniformly, anew in each call."""
        x = self.rows(rows * shape.top_k, shape.k)
        grouped_mm = kernels_for(self.device).grouped_mm
        calls: list[Call] = []
        for _ in range(draws):
            drawn = torch.rand(rows, shape.experts, device=self.device)
            chosen = drawn.topk(shape.top_k, dim=1).indices
            counts = torch.bincount(chosen.flatten(), minlength=shape.experts)
            calls.append(partial(grouped_mm, x, weight, counts.cumsum(0).to(torch.int32)))
        return calls

    def attention(
        self, shape: Attention, requests: int, query: int, context: int, longest: int = 0,
        most: int = 4,
    ) -> list[Call]:  # fmt: skip
        """Equal requests of ``query`` new tokens behind ``context`` cached ones.

        ``longest``: keys that the launch allows for, as a graph bakes them in; at least the
        requests' own. ``most``: calls over keys of their own, as many as make them cold.
        """
        return self.ragged(shape, [query + context] * requests, query, longest, most)

    def ragged(
        self, shape: Attention, lengths: Sequence[int], query: int, longest: int, most: int
    ) -> list[Call]:
        """The same of requests with so many keys each, their ``query`` new ones among them."""
        requests, keys_read = len(lengths), sum(lengths)
        rows = requests * query
        heads, kv, dim = shape.heads, shape.kv_heads, shape.head_dim
        q = self.rows(rows, (heads + 2 * kv) * dim).view(rows, heads + 2 * kv, dim)
        queries = q.narrow(1, 0, heads)
        whole = partial(torch.tensor, device=self.device, dtype=torch.int32)
        metadata = AttentionMetadata(
            query_ends=whole([query * i for i in range(requests + 1)]),
            key_starts=whole([0, *accumulate(lengths)]),
            key_lengths=whole(lengths),
            slots=self.empty(0, dtype=torch.int64),
            positions=self.empty(0, dtype=torch.int64),
        )
        bounds = LaunchBounds(rows, requests, query, max(*lengths, longest))
        size = 2 * keys_read * kv * dim * self.dtype.itemsize
        sets = min(most, math.ceil(COLD_BYTES / size) + 1)
        kernel = attention_kernel(self.device)
        calls: list[Call] = []
        for _ in range(sets):
            keys, values = (self.rows(keys_read, kv * dim).view(-1, kv, dim) for _ in range(2))
            calls.append(partial(kernel, queries, keys, values, metadata, bounds, shape.window))
        return calls

    def small(self, arch: Architecture, op: Op, rows: int) -> Call:
        """An element-wise op of the architecture; ``KeyError`` names one that is not known."""
        return _SMALL[op.name if op.name in _SMALL else op.kind](self, arch, rows)

    def one(self, arch: Architecture, op: Op, rows: int) -> list[Call]:
        """Any op of the architecture's lean pass, for one request without context."""
        match op.shape:
            case Gemm():
                return self.gemm(self.matrices(op.shape), rows)
            case GroupedGemm():
                return self.grouped(op.shape, self.experts(op.shape), rows, draws=4)
            case Attention():
                return self.attention(op.shape, 1, rows, 0)
        return [self.small(arch, op, rows)]


def _norm(bench: Bench, arch: Architecture, rows: int) -> Call:
    x, residual = bench.rows(rows, arch.hidden), bench.rows(rows, arch.hidden)
    gain = bench.rows(1, arch.hidden)[0]
    return partial(kernels_for(bench.device).add_norm, x, residual, gain, torch.empty_like(x))


def _qkv(bench: Bench, arch: Architecture, rows: int) -> torch.Tensor:
    return bench.rows(rows, (arch.heads + 2 * arch.kv_heads) * arch.head_dim)


def _qk_norm(bench: Bench, arch: Architecture, rows: int) -> Call:
    q, k = bench.rows(2, arch.head_dim)
    kernels = kernels_for(bench.device)
    return partial(kernels.qk_norm, _qkv(bench, arch, rows), q, k, arch.heads, arch.kv_heads)


def _places(bench: Bench, rows: int, most: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randperm(most, device=bench.device)[:rows].to(dtype)


def _rotary(bench: Bench, arch: Architecture, rows: int) -> Call:
    table = angles(arch, bench.device, torch.promote_types(bench.dtype, torch.float32))
    positions = torch.arange(rows, device=bench.device) % table.shape[0]
    heads = arch.heads + arch.kv_heads
    kernels = kernels_for(bench.device)
    return partial(kernels.rotary, _qkv(bench, arch, rows), table, positions, heads)


def _kv_write(bench: Bench, arch: Architecture, rows: int) -> Call:
    keys, values = (bench.empty(rows + 1, arch.kv_heads, arch.head_dim) for _ in range(2))
    slots = torch.arange(1, rows + 1, device=bench.device)
    kernels = kernels_for(bench.device)
    return partial(kernels.kv_write, _qkv(bench, arch, rows), slots, keys, values)


def _activation(bench: Bench, arch: Architecture, rows: int) -> Call:
    moe = arch.layer_kinds[0].moe
    width = arch.moe_intermediate if moe else arch.intermediate
    rows *= arch.top_k if moe else 1
    kernels = kernels_for(bench.device)
    function = kernels.swiglu if arch.model_type == "gpt_oss" else kernels.silu_mul
    return partial(function, bench.rows(rows, 2 * width), bench.empty(rows, width))


def _copy(bench: Bench, arch: Architecture, rows: int) -> Call:
    row = arch.heads * arch.head_dim
    return partial(bench.empty(rows, row).copy_, bench.rows(rows, row))


def _fill(bench: Bench, arch: Architecture, rows: int) -> Call:
    return partial(torch.Tensor.zero_, bench.empty(rows, arch.hidden))


def _embedding(bench: Bench, arch: Architecture, rows: int) -> Call:
    table = bench.rows(arch.vocab, arch.hidden)
    ids = torch.randint(0, arch.vocab, (rows,), device=bench.device)
    return partial(torch.index_select, table, 0, ids)


def _choices(bench: Bench, arch: Architecture, rows: int) -> torch.Tensor:
    drawn = torch.rand(rows, arch.experts, device=bench.device)
    return drawn.topk(arch.top_k, dim=1).indices.to(torch.int32)


def _topk(bench: Bench, arch: Architecture, rows: int) -> Call:
    logits, experts = bench.rows(rows, arch.experts), _choices(bench, arch, rows)
    shares = torch.rand(rows, arch.top_k, device=bench.device)
    return partial(kernels_for(bench.device).route, logits, experts, shares)


def _sort(bench: Bench, arch: Architecture, rows: int) -> Call:
    experts = _choices(bench, arch, rows)
    sizes = ((arch.experts,), (rows * arch.top_k,), (rows, arch.top_k))
    results = [bench.empty(*size, dtype=torch.int32) for size in sizes]
    return partial(kernels_for(bench.device).sort_by_expert, experts, *results)


def _gather(bench: Bench, arch: Architecture, rows: int) -> Call:
    source = _places(bench, rows * arch.top_k, rows * arch.top_k, torch.int32) // arch.top_k
    return partial(torch.index_select, bench.rows(rows, arch.hidden), 0, source)


def _combine(bench: Bench, arch: Architecture, rows: int) -> Call:
    places = _places(bench, rows * arch.top_k, rows * arch.top_k, torch.int32)
    shares = torch.rand(rows, arch.top_k, device=bench.device)
    x, out = bench.rows(rows * arch.top_k, arch.hidden), bench.empty(rows, arch.hidden)
    kernels = kernels_for(bench.device)
    return partial(kernels.combine, x, places.view(rows, arch.top_k), shares, out)


_SMALL: dict[str, Callable[[Bench, Architecture, int], Call]] = {
    "norm": _norm, "qk_norm": _qk_norm, "rotary": _rotary, "kv_write": _kv_write,
    "activation": _activation, "copy": _copy, "fill": _fill, "embedding": _embedding,
    "router": _topk, "moe_sort": _sort, "moe_gather": _gather, "moe_combine": _combine,
}  # fmt: skip
