"""Reads the config.json of decoders with latent attention: DeepSeek V3, Kimi K2, GLM-5."""

from __future__ import annotations

from simcg.model.architecture import Architecture
from simcg.model.config_fields import Fields
from simcg.model.config_weights import weight_dtypes
from simcg.model.parts import Indexer, Latent, LayerKind, Mixer

SPARSE = ("deepseek_v32", "glm_moe_dsa")


def latent_architecture(fields: Fields, name: str, family: str, layers: int) -> Architecture:
    """A decoder of latent attention, its first layers dense, the others of experts."""
    latent = Latent(
        q_rank=fields.integer("q_lora_rank"),
        kv_rank=fields.integer("kv_lora_rank"),
        nope_dim=fields.integer("qk_nope_head_dim"),
        rope_dim=fields.integer("qk_rope_head_dim"),
        v_dim=fields.integer("v_head_dim"),
    )
    if fields.flag("attention_bias"):
        raise fields.fail("attention_bias", "false: latent attention without biases")
    heads = fields.integer("num_attention_heads")
    dense = min(layers, fields.integer("first_k_dense_replace", default=0, least=0))
    if fields.integer("moe_layer_freq", default=1) != 1:
        raise fields.fail("moe_layer_freq", "1: experts in every layer after the dense ones")
    mixers = _mixers(fields, family, layers)
    kinds = tuple(LayerKind(moe=i >= dense, mixer=mixer) for i, mixer in enumerate(mixers))
    experts, top_k, width, shared = _experts(fields) if dense < layers else (0, 0, 0, 0)
    return Architecture(
        name=name,
        model_type=family,
        layer_kinds=kinds,
        hidden=fields.integer("hidden_size"),
        heads=heads,
        kv_heads=heads,
        head_dim=latent.key_dim,
        vocab=fields.integer("vocab_size"),
        max_position=fields.integer("max_position_embeddings"),
        intermediate=fields.integer("intermediate_size") if dense else 0,
        experts=experts,
        top_k=top_k,
        moe_intermediate=width,
        shared_intermediate=shared * width,
        router_bias=dense < layers and fields.raw.get("topk_method") == "noaux_tc",
        tied_embeddings=fields.flag("tie_word_embeddings"),
        latent=latent,
        indexer=_indexer(fields) if family in SPARSE else None,
        weights=weight_dtypes(fields, kinds, has_shared=shared > 0),
    )


def _experts(fields: Fields) -> tuple[int, int, int, int]:
    """Experts, choices a token, width of an expert, shared experts."""
    experts, top_k = fields.experts("n_routed_experts")
    shared = fields.integer("n_shared_experts", default=0, least=0)
    return experts, top_k, fields.integer("moe_intermediate_size"), shared


def _indexer(fields: Fields) -> Indexer:
    return Indexer(
        heads=fields.integer("index_n_heads"),
        head_dim=fields.integer("index_head_dim"),
        top_k=fields.integer("index_topk"),
        interleaved=fields.flag("indexer_rope_interleave"),
    )


def _mixers(fields: Fields, family: str, layers: int) -> list[Mixer]:
    """Which layers choose keys themselves: ``indexer_types``, else all."""
    if family not in SPARSE:
        return ["latent"] * layers
    types = fields.items("indexer_types", str, "strings")
    if types is None:
        if fields.integer("index_topk_freq", default=1) != 1:
            raise fields.fail("index_topk_freq", "1, or indexer_types that names each layer's")
        return ["sparse"] * layers
    if len(types) != layers or not set(types) <= {"full", "shared"} or types[0] != "full":
        raise fields.fail("indexer_types", f"{layers} of full or shared, the first of them full")
    return ["sparse" if kind == "full" else "sparse_shared" for kind in types]
