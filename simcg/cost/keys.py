"""The curve that times a shape, by its key, and the shape that a key stands for."""

from __future__ import annotations

from simcg.cost.demand import DemandShape
from simcg.hardware.profile import Curve, CurveKey
from simcg.model.ops import (
    Attention,
    BatchedGemm,
    CausalConv,
    Dtype,
    Experts,
    GatedDelta,
    Gemm,
    GroupedGemm,
    IndexLogits,
    LatentAttention,
    SelectKeys,
    activation_dtype,
)

SPARSE_HEADS = 64
"""Heads that sparse attention on the latent cache is padded to (flash_mla_sparse_fwd)."""


def gemm_key(shape: Gemm) -> CurveKey:
    """Of a dense product."""
    return CurveKey("gemm", k=shape.k, n=shape.n, weights=shape.weights)


def grouped_key(shape: GroupedGemm) -> CurveKey:
    """Of one product over experts."""
    return CurveKey(
        "grouped_gemm", k=shape.k, n=shape.n, experts=shape.experts, top_k=shape.top_k,
        weights=shape.weights,
    )  # fmt: skip


def experts_key(layer: Experts) -> CurveKey:
    """Of a whole expert layer."""
    return CurveKey(
        "experts", k=layer.hidden, n=layer.width, experts=layer.experts, top_k=layer.top_k,
        weights=layer.weights,
    )  # fmt: skip


def attention_key(shape: Attention, op: str = "attention") -> CurveKey:
    """Of the prefill kernel, or of the one that ``op`` names."""
    return CurveKey(
        op,  # type: ignore[arg-type]  # one of two literals
        heads=shape.heads, kv_heads=shape.kv_heads, head_dim=shape.head_dim,
        window=shape.window or 0,
    )  # fmt: skip


def special_keys(shape: DemandShape) -> tuple[CurveKey | None, CurveKey | None]:
    """Of what only some families run: for prompts, and for requests that add one token."""
    match shape:
        case BatchedGemm(heads=heads, k=k, n=n, weights=weights):
            key = CurveKey("batched_gemm", heads=heads, k=k, n=n, weights=weights)
            return key, key
        case LatentAttention():
            return _latent_keys(shape)
        case IndexLogits(heads=heads, head_dim=dim):
            key = CurveKey("index_logits", heads=heads, head_dim=dim)
            return key, key
        case SelectKeys(top_k=top_k):
            key = CurveKey("select_keys", top_k=top_k)
            return key, key
        case CausalConv(channels=channels, width=width):
            return (
                CurveKey("causal_conv", n=channels, k=width),
                CurveKey("conv_update", n=channels, k=width),
            )
        case GatedDelta(key_heads=kv, value_heads=heads, key_dim=dim):
            return (
                CurveKey("gated_delta", heads=heads, kv_heads=kv, head_dim=dim),
                CurveKey("delta_update", heads=heads, kv_heads=kv, head_dim=dim),
            )


def _latent_keys(shape: LatentAttention) -> tuple[CurveKey | None, CurveKey | None]:
    """Sparse kernels take blocks of SPARSE_HEADS heads, so fewer cost as much."""
    cached = shape.kv_rank + shape.rope_dim
    if shape.top_k is not None:
        heads = -(-shape.heads // SPARSE_HEADS) * SPARSE_HEADS
        key = CurveKey("sparse_attention", heads=heads, head_dim=cached, top_k=shape.top_k)
        return key, key
    decode = CurveKey("latent_decode", heads=shape.heads, head_dim=cached)
    if shape.absorbed:
        return None, decode
    return CurveKey("latent_attention", heads=shape.heads, head_dim=shape.key_dim), decode


def gemm_of(key: CurveKey) -> Gemm:
    """The product that such a curve times."""
    return Gemm(key.k, key.n, *_types(key))


def grouped_of(key: CurveKey) -> GroupedGemm:
    """The product over experts that such a curve times."""
    return GroupedGemm(key.experts, key.top_k, key.k, key.n, *_types(key))


def attention_of(key: CurveKey) -> Attention:
    """The attention that such a curve times."""
    return Attention(key.heads, key.kv_heads, key.head_dim, key.window or None)


def _types(key: CurveKey) -> tuple[Dtype, Dtype]:
    """Of the weights, and of the activations that products with such weights take."""
    weights: Dtype = key.weights  # type: ignore[assignment]  # a file may hold any word
    return weights, activation_dtype(weights)


def curve_name(curve: Curve) -> str:
    """The key in words."""
    sizes = {name: getattr(curve.key, name) for name in curve.key.__struct_fields__}
    return "curve of " + ", ".join(f"{name} {value}" for name, value in sizes.items() if value)
