"""The indexer of DeepSeek Sparse Attention as engines issue it: all of it eager, at the break.

Counted from reading SGLang's DSA indexer. Scores are a tensor of tokens x keys in fp32: what an
eager step, and a captured one at its breaks, allocates most of. DeepGEMM lengthens each row of
scores by one block of keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simcg.model.linear import VALUE_BYTES, frame, linear
from simcg.model.ops import Elementwise, Gemm, IndexLogits, Op, SelectKeys, Tensor

if TYPE_CHECKING:
    from simcg.model.architecture import Architecture
    from simcg.model.parts import Phase

SCORE_BYTES = 4
"""Scores, weights of the heads, scales and chosen positions are 32 bit."""
KEY_BLOCK = 256
"""Keys that the kernel of the scores takes at once, and by which a row of them is longer."""


def index_ops(arch: Architecture, phase: Phase) -> list[Op]:
    """From the layer's input and its compressed queries to ``top_keys``.

    The buffer of the result is part of the graph before the break: layers after it read it at a
    fixed address. Steps of short prompts choose all keys, and dense attention needs no choice.
    """
    row = arch.need_indexer().top_k * SCORE_BYTES
    buffer = Op(
        "index_buffer", "indexer", Elementwise(0, row), 1, ("q_latent",),
        (Tensor("top_keys", row),),
    )  # fmt: skip
    if phase == "dense_prefill":
        return frame(_keys_only(arch))
    if phase == "short_prefill":
        eager = frame([*_keys_only(arch), *_all_chosen(arch)])
    elif arch.need_indexer().interleaved:
        eager = [*frame(_fused(arch)), *_choice(arch, phase == "decode")]
    else:
        choice = _choice(arch, phase == "decode")
        own = {tensor.name for op in choice for tensor in op.writes}
        dead = own | {"index_query", "index_key", "normed_key", "index_gates"}
        eager = frame([*_unfused(arch), *choice], dead=dead)
    return [buffer, *(replace(op, is_break=True) for op in eager)]


def _keys_only(arch: Architecture) -> list[Op]:
    """The key alone, cached: what ``_fused`` and ``_unfused`` run for it."""
    if arch.need_indexer().interleaved:
        return _fused(arch)[:2]
    key = arch.need_indexer().head_dim * VALUE_BYTES
    made = {"index_key", "index_key_quantize", "index_norm"}
    shape = Elementwise(key, key)
    rotated = (Tensor("rotated_key", key),)
    return [
        *(op for op in _unfused(arch) if op.name in made),
        Op("index_rotary", "indexer", shape, 1, ("normed_key",), ()),
        Op("index_hadamard", "indexer", shape, 1, ("normed_key",), rotated),
        Op("index_write", "indexer", shape, 1, ("rotated_key",), ()),
    ]


def _all_chosen(arch: Architecture) -> list[Op]:
    """Scores of zero, as many as keys are chosen; all positions for them, copied to the buffer."""
    row = arch.need_indexer().top_k * SCORE_BYTES
    return [
        Op(
            "index_zeros", "indexer", Elementwise(0, row), 1, ("q_latent",),
            (Tensor("index_scores", row),),
        ),
        Op(
            "index_select", "indexer", Elementwise(0, row), 1, ("index_scores",),
            (Tensor("chosen", row),),
        ),
        Op("index_copy", "indexer", Elementwise(row, row), 1, ("chosen", "top_keys"), ()),
    ]  # fmt: skip


def _fused(arch: Architecture) -> list[Op]:
    """Key and head weights in one 16-bit product, key normed, rotated and cached by one kernel;
    queries, rotated and quantised by one kernel that scales the head weights too."""
    sizes = arch.need_indexer()
    wide, key = sizes.heads * sizes.head_dim, sizes.head_dim * VALUE_BYTES
    written = _queries_row(arch)
    return [
        Op(
            "index_key", "gemm", Gemm(arch.hidden, sizes.head_dim + sizes.heads), 1, ("hidden",),
            (Tensor("index_key", key + sizes.heads * VALUE_BYTES),),
        ),
        Op("index_write", "indexer", Elementwise(key, key), 1, ("index_key",), ()),
        *linear(
            "index_query", (arch.need_latent().q_rank, wide), arch.weights.attention,
            "q_latent", "index_query",
        ),
        Op(
            "index_quantize", "indexer", Elementwise(wide * VALUE_BYTES, written), 1,
            ("index_query", "index_key"), (Tensor("index_queries", written),),
        ),
    ]  # fmt: skip


def _unfused(arch: Architecture) -> list[Op]:
    """Products of queries and key, norm, rotary, a Hadamard rotation of each, quantised queries,
    head weights and their scaling, the key quantised and cached."""
    sizes, stored = arch.need_indexer(), arch.weights.attention
    wide, key = sizes.heads * sizes.head_dim * VALUE_BYTES, sizes.head_dim * VALUE_BYTES
    gates, written = sizes.heads * SCORE_BYTES, _queries_row(arch)
    q_size = (arch.need_latent().q_rank, sizes.heads * sizes.head_dim)
    rotated = (Tensor("rotated_query", wide), Tensor("rotated_key", key))
    return [
        *linear("index_query", q_size, stored, "q_latent", "index_query"),
        *linear("index_key", (arch.hidden, sizes.head_dim), stored, "hidden", "index_key"),
        Op(
            "index_norm", "indexer", Elementwise(key, key), 1, ("index_key",),
            (Tensor("normed_key", key),),
        ),
        Op(
            "index_rotary", "indexer", Elementwise(wide + key, wide + key), 1,
            ("index_query", "normed_key"), (),
        ),
        Op(
            "index_hadamard", "indexer", Elementwise(wide + key, wide + key), 2,
            ("index_query", "normed_key"), rotated,
        ),
        Op(
            "index_gates", "gemm", Gemm(arch.hidden, sizes.heads), 1, ("hidden",),
            (Tensor("index_gates", gates),),
        ),
        Op(
            "index_quantize", "indexer", Elementwise(wide + 2 * gates, written), 2,
            ("rotated_query", "index_gates"), (Tensor("index_queries", written),),
        ),
        Op("index_write", "indexer", Elementwise(key, key), 1, ("rotated_key",), ()),
    ]  # fmt: skip


def _queries_row(arch: Architecture) -> int:
    """fp8 queries of all heads, and an fp32 weight for each."""
    sizes = arch.need_indexer()
    return sizes.heads * (sizes.head_dim + SCORE_BYTES)


def _choice(arch: Architecture, decodes: bool) -> list[Op]:
    """The cached keys side by side (prefill), scores, the best of them, a copy to the buffer."""
    sizes = arch.need_indexer()
    key, chosen = sizes.head_dim + SCORE_BYTES, sizes.top_k * SCORE_BYTES
    gathered = Op(
        "index_gather", "indexer", Elementwise(key, key), 1, ("index_queries",),
        (Tensor("index_keys", key),),
    )  # fmt: skip
    scores = (
        Tensor("index_scores", SCORE_BYTES, "pairs"),
        Tensor("index_score_ends", KEY_BLOCK * SCORE_BYTES),
    )
    reads = ("index_queries",) if decodes else ("index_queries", "index_keys")
    ops = [
        *([] if decodes else [gathered]),
        Op(
            "index_scores", "indexer", IndexLogits(sizes.heads, sizes.head_dim), 1, reads, scores,
        ),
        Op(
            "index_select", "indexer", SelectKeys(sizes.top_k), 1,
            ("index_scores", "index_score_ends"), (Tensor("chosen", chosen),),
        ),
        Op("index_copy", "indexer", Elementwise(chosen, chosen), 1, ("chosen", "top_keys"), ()),
    ]  # fmt: skip
    return frame(ops, argument="index_queries")
