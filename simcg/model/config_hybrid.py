"""Reads the config.json of decoders that mix linear and full attention: Qwen3.5."""

from __future__ import annotations

from simcg.model.architecture import Architecture
from simcg.model.config_fields import Fields
from simcg.model.config_weights import weight_dtypes
from simcg.model.parts import Delta, LayerKind

TYPES = ("linear_attention", "full_attention")


def hybrid_architecture(fields: Fields, name: str, family: str, layers: int) -> Architecture:
    """A decoder whose ``layer_types`` are linear or full; every layer has experts, or none."""
    types = fields.items("layer_types", str, "strings") or []
    if len(types) != layers or not set(types) <= set(TYPES):
        raise fields.fail("layer_types", f"{layers} of " + " or ".join(TYPES))
    moe = family == "qwen3_5_moe_text"
    kinds = tuple(
        LayerKind(moe=moe, mixer="linear" if one == "linear_attention" else "heads")
        for one in types
    )
    if moe and fields.items("mlp_only_layers", int, "layer numbers"):
        raise fields.fail("mlp_only_layers", "none: experts in every layer")
    heads, kv_heads = fields.integer("num_attention_heads"), fields.integer("num_key_value_heads")
    if heads % kv_heads:
        raise fields.fail("num_key_value_heads", f"a divisor of the {heads} attention heads")
    experts, top_k, width, shared = _experts(fields) if moe else (0, 0, 0, 0)
    return Architecture(
        name=name,
        model_type=family,
        layer_kinds=kinds,
        hidden=fields.integer("hidden_size"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=fields.integer("head_dim"),
        vocab=fields.integer("vocab_size"),
        max_position=fields.integer("max_position_embeddings"),
        intermediate=0 if moe else fields.integer("intermediate_size"),
        experts=experts,
        top_k=top_k,
        moe_intermediate=width,
        shared_intermediate=shared,
        shared_gate=shared > 0,
        qk_norm=True,
        qkv_bias=fields.flag("attention_bias"),
        o_bias=fields.flag("attention_bias"),
        attention_gate=fields.flag("attn_output_gate"),
        tied_embeddings=fields.flag("tie_word_embeddings"),
        delta=_delta(fields) if "linear_attention" in types else None,
        weights=weight_dtypes(fields, kinds, has_shared=shared > 0),
    )


def _experts(fields: Fields) -> tuple[int, int, int, int]:
    """Experts, choices a token, width of an expert, width of the shared one."""
    experts, top_k = fields.experts("num_experts")
    shared = fields.integer("shared_expert_intermediate_size", default=0, least=0)
    return experts, top_k, fields.integer("moe_intermediate_size"), shared


def _delta(fields: Fields) -> Delta:
    return Delta(
        key_heads=fields.integer("linear_num_key_heads"),
        value_heads=fields.integer("linear_num_value_heads"),
        key_dim=fields.integer("linear_key_head_dim"),
        value_dim=fields.integer("linear_value_head_dim"),
        conv_width=fields.integer("linear_conv_kernel_dim"),
    )
