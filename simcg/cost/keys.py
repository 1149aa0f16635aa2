"""The curve that times a shape, by its key, and the shape that a key stands for."""

from __future__ import annotations

from simcg.hardware.profile import Curve, CurveKey
from simcg.model.ops import Attention, Dtype, Experts, Gemm, GroupedGemm, activation_dtype


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
