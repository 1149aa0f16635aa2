"""Latent attention (MLA), over all keys or over those that an indexer chose, as engines issue it.

Counted from reading how SGLang structures these layers (forward_mha, forward_mla and the DSA
indexer). A dense prefill expands keys and values for each head and attends as multi-head
attention does; decode, and sparse attention always, brings the queries into the latent space and
attends to the cache itself. A prompt is one without cached context. Of fp8_block weights engines
keep 16-bit copies for the absorbed products.

Where no prompt has more keys than the indexer would choose, SGLang attends densely and its indexer
only caches keys; but not in graphs, which cannot branch on the lengths of a step: there attention
stays sparse, and all keys are chosen (its public source, set_dsa_prefill_impl and the indexer's
path for keys only).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simcg.model.indexer import index_ops
from simcg.model.linear import VALUE_BYTES, frame, linear
from simcg.model.ops import (
    BatchedGemm,
    Dtype,
    Elementwise,
    LatentAttention,
    Op,
    Tensor,
    activation_dtype,
)

if TYPE_CHECKING:
    from simcg.model.architecture import Architecture
    from simcg.model.parts import Latent, Mixer, Phase

CHOSEN = "top_keys"
"""The chosen keys of each row; layers that share a choice read what an earlier layer wrote."""


def latent_attention(arch: Architecture, mixer: Mixer, tp: int, phase: Phase) -> list[Op]:
    """The ops of one layer's attention on one of ``tp`` ranks."""
    sizes, heads = arch.need_latent(), arch.heads // tp
    stored = arch.weights.attention
    ops = _queries(arch, sizes, heads)
    inside: list[Op] = []
    if mixer == "sparse":
        inside = index_ops(arch, phase)
        ops += inside
    if phase == "dense_prefill" or (mixer == "latent" and phase != "decode"):
        ops += _expanded(arch, sizes, heads)
    else:
        ops += _absorbed(arch, sizes, heads, mixer)
    ops += linear("o", (heads * sizes.v_dim, arch.hidden), stored, "attended", "hidden")
    dead = {tensor.name for op in inside for tensor in op.writes} - {CHOSEN}
    return frame(ops, dead=dead)


def _queries(arch: Architecture, sizes: Latent, heads: int) -> list[Op]:
    """Both compressions in one product, a norm of each (2 kernels), the queries of each head."""
    stored = arch.weights.attention
    q_row, kv_row = sizes.q_rank * VALUE_BYTES, sizes.kv_rank * VALUE_BYTES
    return [
        *linear("qkv_a", (arch.hidden, sizes.q_rank + sizes.row), stored, "hidden", "latent"),
        Op(
            "q_norm", "norm", Elementwise(q_row, q_row), 1,
            ("latent",), (Tensor("q_latent", q_row),),
        ),
        Op(
            "kv_norm", "norm", Elementwise(kv_row, kv_row), 1,
            ("latent",), (Tensor("kv_latent", kv_row),),
        ),
        *linear("q_b", (sizes.q_rank, heads * sizes.key_dim), stored, "q_latent", "q"),
    ]  # fmt: skip


def _expanded(arch: Architecture, sizes: Latent, heads: int) -> list[Op]:
    """Rotary with its result copied back (2 kernels), cache write, expansion, keys side by side."""
    stored = arch.weights.attention
    keys = heads * sizes.key_dim * VALUE_BYTES
    nope = heads * sizes.nope_dim * VALUE_BYTES
    shape = LatentAttention(heads, sizes.kv_rank, sizes.nope_dim, sizes.rope_dim, sizes.v_dim)
    return [
        replace(_rotary(sizes, heads), kernels=2),
        _cache_write(sizes),
        *linear(
            "kv_b", (sizes.kv_rank, heads * (sizes.nope_dim + sizes.v_dim)), stored,
            "kv_latent", "kv",
        ),
        Op(
            "key_concat", "elementwise",
            Elementwise(nope + sizes.rope_dim * VALUE_BYTES, keys), 1,
            ("kv", "latent"), (Tensor("keys", keys),),
        ),
        Op(
            "attention", "attention", shape, 1, ("q", "keys", "kv"),
            (Tensor("attended", heads * sizes.v_dim * VALUE_BYTES),), is_break=True,
        ),
    ]  # fmt: skip


def _absorbed(arch: Architecture, sizes: Latent, heads: int, mixer: Mixer) -> list[Op]:
    """The queries' absorbed product, rotary, cache write, both parts side by side, attention.

    Sparse attention runs all of this eager at its break, with its indexer; then, in the next
    segment, the product that brings the result back to each head's values.
    """
    top_k = None if mixer == "latent" else arch.need_indexer().top_k
    shape = LatentAttention(
        heads, sizes.kv_rank, sizes.nope_dim, sizes.rope_dim, sizes.v_dim,
        absorbed=True, top_k=top_k,
    )  # fmt: skip
    latent, queries = heads * sizes.kv_rank * VALUE_BYTES, heads * sizes.row * VALUE_BYTES
    stored = _absorbed_dtype(arch.weights.attention)
    used = activation_dtype(stored)
    reads = ("queries",) if top_k is None else ("queries", CHOSEN)
    before = [
        Op(
            "q_absorb", "batched_gemm",
            BatchedGemm(heads, sizes.nope_dim, sizes.kv_rank, stored, used), 1,
            ("q",), (Tensor("absorbed", latent),),
        ),
        _rotary(sizes, heads),
        _cache_write(sizes),
        Op(
            "query_concat", "elementwise", Elementwise(queries, queries), 1,
            ("absorbed", "q"), (Tensor("queries", queries),),
        ),
    ]  # fmt: skip
    if top_k is not None:
        before = [replace(op, is_break=True) for op in before]
    return [
        *before,
        Op(
            "attention", "attention", shape, 1, reads, (Tensor("latent_out", latent),),
            is_break=True,
        ),
        Op(
            "v_absorb", "batched_gemm",
            BatchedGemm(heads, sizes.kv_rank, sizes.v_dim, stored, used), 1,
            ("latent_out",), (Tensor("attended", heads * sizes.v_dim * VALUE_BYTES),),
        ),
    ]  # fmt: skip


def _absorbed_dtype(stored: Dtype) -> Dtype:
    """Absorbed products run in fp8 where a matrix has one scale, else in 16 bit."""
    return "fp8" if stored == "fp8" else "bf16"


def _rotary(sizes: Latent, heads: int) -> Op:
    """The positional part of the queries, and of the one key that all heads share, in place."""
    row = (heads + 1) * sizes.rope_dim * VALUE_BYTES
    angles = sizes.rope_dim * 4  # one fp32 row of cosines and sines
    return Op("rotary", "rotary", Elementwise(row + angles, row), 1, ("q", "latent"), ())


def _cache_write(sizes: Latent) -> Op:
    row = sizes.row * VALUE_BYTES
    return Op("kv_write", "kv_write", Elementwise(row, row), 1, ("kv_latent", "latent"), ())
