"""The weights of one rank, part by part: how many, how stored, and how many a token uses."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from simcg.model.ops import Dtype

if TYPE_CHECKING:
    from simcg.model.architecture import Architecture
    from simcg.model.parts import LayerKind


@dataclass(frozen=True, slots=True)
class WeightDtypes:
    """How the matrices of each part are stored; norms and biases are always 16 bit.

    ``mlp`` is the dense feed-forward part, ``shared`` the shared expert (None: as the experts).
    """

    attention: Dtype = "bf16"
    mlp: Dtype = "bf16"
    experts: Dtype = "bf16"
    shared: Dtype | None = None


BF16 = WeightDtypes()


@dataclass(frozen=True, slots=True)
class WeightPart:
    """``elements`` weights on one rank; ``active`` of them are used for a token."""

    elements: int
    dtype: Dtype = "bf16"
    active: Fraction = Fraction(1)


def weight_parts(arch: Architecture, tp: int) -> list[WeightPart]:
    """Weights of one rank: column- and row-parallel matrices, the rest replicated."""
    table = WeightPart(arch.rank_vocab(tp) * arch.hidden)
    parts = [table, WeightPart(arch.hidden)]
    if not arch.tied_embeddings:
        parts.append(table)
    for kind, count in Counter(arch.layer_kinds).items():
        layer = [WeightPart(2 * arch.hidden), *_mixer(arch, kind, tp), *_fed(arch, kind, tp)]
        parts += [replace(part, elements=part.elements * count) for part in layer]
    return parts


def _mixer(arch: Architecture, kind: LayerKind, tp: int) -> list[WeightPart]:
    if kind.mixer == "heads":
        return _heads(arch, tp)
    if kind.mixer == "linear":
        return _delta(arch, tp)
    return _latent(arch, tp) + (_indexer(arch) if kind.mixer == "sparse" else [])


def _heads(arch: Architecture, tp: int) -> list[WeightPart]:
    q, kv = arch.heads // tp * arch.head_dim, arch.rank_kv_heads(tp) * arch.head_dim
    gated = q * (1 + arch.attention_gate)
    normed = q + kv if arch.wide_qk_norm else 2 * arch.head_dim
    small = (
        normed * arch.qk_norm
        + (gated + 2 * kv) * arch.qkv_bias
        + arch.hidden * arch.o_bias
        + arch.heads // tp * arch.sinks
    )
    matrices = arch.hidden * (gated + 2 * kv + q)
    return [WeightPart(matrices, arch.weights.attention), WeightPart(small)]


def _latent(arch: Architecture, tp: int) -> list[WeightPart]:
    """Both compressions are replicated, what expands them is split by heads."""
    sizes, heads = arch.need_latent(), arch.heads // tp
    down = arch.hidden * (sizes.q_rank + sizes.row)
    up = heads * (sizes.q_rank * sizes.key_dim + sizes.kv_rank * (sizes.nope_dim + sizes.v_dim))
    out = heads * sizes.v_dim * arch.hidden
    norms = sizes.q_rank + sizes.kv_rank
    return [WeightPart(down + up + out, arch.weights.attention), WeightPart(norms)]


def _indexer(arch: Architecture) -> list[WeightPart]:
    """On every rank in full: queries from the compressed ones, one key, a weight a head, a norm.

    Where engines fuse the projections of key and weights, both are 16 bit.
    """
    sizes, q_rank = arch.need_indexer(), arch.need_latent().q_rank
    queries = q_rank * sizes.heads * sizes.head_dim
    key = WeightPart(
        arch.hidden * sizes.head_dim,
        "bf16" if sizes.interleaved else arch.weights.attention,
    )
    small = arch.hidden * sizes.heads + 2 * sizes.head_dim
    return [WeightPart(queries, arch.weights.attention), key, WeightPart(small)]


def _delta(arch: Architecture, tp: int) -> list[WeightPart]:
    """Queries, keys, values and gate in one matrix; two scalars a value head in another."""
    sizes = arch.need_delta()
    values = sizes.value_heads * sizes.value_dim // tp
    channels = sizes.channels // tp
    scalars = 2 * sizes.value_heads // tp
    small = arch.hidden * scalars + channels * sizes.conv_width + scalars + sizes.value_dim
    matrices = arch.hidden * (channels + 2 * values)
    return [WeightPart(matrices, arch.weights.attention), WeightPart(small)]


def _fed(arch: Architecture, kind: LayerKind, tp: int) -> list[WeightPart]:
    return _moe(arch, tp) if kind.moe else _mlp(arch, tp)


def _mlp(arch: Architecture, tp: int) -> list[WeightPart]:
    width = arch.intermediate // tp
    bias = (2 * width + arch.hidden) * arch.mlp_bias
    return [WeightPart(3 * arch.hidden * width, arch.weights.mlp), WeightPart(bias)]


def _moe(arch: Architecture, tp: int) -> list[WeightPart]:
    width = arch.moe_intermediate // tp
    bias = arch.experts * (2 * width + arch.hidden) * arch.expert_bias
    used = Fraction(arch.top_k, arch.experts)
    shared = 3 * arch.hidden * (arch.shared_intermediate // tp)
    return [
        WeightPart(arch.experts * (arch.hidden + arch.router_bias)),
        WeightPart(arch.experts * 3 * arch.hidden * width, arch.weights.experts, used),
        WeightPart(bias, active=used),
        WeightPart(shared, arch.shared_dtype),
        WeightPart(arch.hidden * arch.shared_gate),
    ]
