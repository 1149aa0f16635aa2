"""Reads a Hugging Face config.json into an Architecture."""

from __future__ import annotations

import codecs
from pathlib import Path

import msgspec

from simcg.errors import Finding, InputError
from simcg.model.architecture import Architecture, LayerKind
from simcg.model.config_fields import Fields
from simcg.model.config_hybrid import hybrid_architecture
from simcg.model.config_latent import latent_architecture
from simcg.model.config_weights import weight_dtypes

HEADS = ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral", "gpt_oss", "minimax_m2")
LATENT = ("deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa")
HYBRID = ("qwen3_5_text", "qwen3_5_moe_text")
NESTED = ("kimi_k25", "mistral3", "qwen3_5", "qwen3_5_moe")
"""Families whose decoder is the text_config of a model that takes images too."""
FAMILIES = (*HEADS, *LATENT, *HYBRID, *NESTED)
DTYPES = ("bfloat16", "float16", "float32")
ACTIVATIONS = (
    "silu", "swish", "gelu", "gelu_10", "gelu_accurate", "gelu_fast", "gelu_new", "gelu_python",
    "gelu_pytorch_tanh", "gelu_python_tanh", "quick_gelu",
)  # fmt: skip
"""Of the gate: one elementwise kernel, whichever of them it computes."""
MAX_LAYERS = 10_000


def read_config(path: str | Path) -> Architecture:
    """The architecture that a config.json (or the folder that holds one) describes.

    Raises ``InputError`` naming the file, the field, its value and what was expected.
    """
    path = Path(path)
    file = path / "config.json" if path.is_dir() else path
    try:
        raw = msgspec.json.decode(file.read_bytes().removeprefix(codecs.BOM_UTF8))
    except OSError as error:
        reason = Finding(error.strerror or "unreadable")
        raise InputError(str(file), "", reason, "a readable config.json") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(str(file), "", Finding(error), "a JSON object") from None
    if not isinstance(raw, dict):
        raise InputError(str(file), "", raw, "a JSON object")
    name = file.resolve().parent.name if file.name == "config.json" else file.stem
    return _architecture(Fields(str(file), raw), name)


def _architecture(fields: Fields, name: str) -> Architecture:
    family = fields.raw.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise fields.fail("model_type", "a supported decoder: " + ", ".join(FAMILIES))
    if family in NESTED:
        return _architecture(_text(fields), name)
    for field in ("torch_dtype", "dtype"):
        fields.check_word(field, DTYPES)
    fields.check_word("hidden_act", ACTIVATIONS)
    layers = fields.integer("num_hidden_layers", most=MAX_LAYERS)
    if family in LATENT:
        return latent_architecture(fields, name, family, layers)
    if family in HYBRID:
        return hybrid_architecture(fields, name, family, layers)
    return _heads_architecture(fields, name, family, layers)


def _text(fields: Fields) -> Fields:
    """The text_config, with what only the object around it says."""
    inner = fields.inner("text_config")
    if inner is None:
        raise fields.fail("text_config", "the object that describes the decoder")
    family = inner.raw.get("model_type")
    if family in NESTED:
        raise inner.fail("model_type", "a decoder: " + ", ".join((*HEADS, *LATENT, *HYBRID)))
    outer = ("quantization_config", "tie_word_embeddings")
    more = {name: fields.raw[name] for name in outer if fields.raw.get(name) is not None}
    return Fields(inner.source, {**more, **inner.raw})


def _heads_architecture(fields: Fields, name: str, family: str, layers: int) -> Architecture:
    """Of grouped-query attention and dense or expert layers."""
    heads = fields.integer("num_attention_heads")
    hidden = fields.integer("hidden_size")
    kv_heads = fields.integer("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise fields.fail("num_key_value_heads", f"a divisor of the {heads} attention heads")
    if fields.raw.get("head_dim") is None and hidden % heads:
        raise fields.fail("hidden_size", f"a multiple of {heads} heads, or a head_dim")
    moe = _moe_layers(fields, family, layers)
    kinds = tuple(map(LayerKind, _windows(fields, family, layers), moe))
    oss, minimax = family == "gpt_oss", family == "minimax_m2"
    bias = fields.flag("attention_bias", oss)
    experts, top_k, moe_intermediate = _experts(fields, family) if any(moe) else (0, 0, 0)
    return Architecture(
        name=name,
        model_type=family,
        layer_kinds=kinds,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=fields.integer("head_dim", default=max(1, hidden // heads)),
        vocab=fields.integer("vocab_size"),
        max_position=fields.integer("max_position_embeddings"),
        intermediate=0 if all(moe) else fields.integer("intermediate_size"),
        experts=experts,
        top_k=top_k,
        moe_intermediate=moe_intermediate,
        qk_norm=family in ("qwen3", "qwen3_moe") or (minimax and fields.flag("use_qk_norm")),
        wide_qk_norm=minimax and fields.flag("use_qk_norm"),
        qkv_bias=bias or family == "qwen2",
        o_bias=bias and family != "qwen2",
        mlp_bias=family == "llama" and fields.flag("mlp_bias"),
        sinks=oss,
        router_bias=oss or (minimax and fields.flag("use_routing_bias")),
        expert_bias=oss,
        tied_embeddings=fields.flag("tie_word_embeddings"),
        weights=weight_dtypes(fields, kinds),
    )


def _experts(fields: Fields, family: str) -> tuple[int, int, int]:
    """Experts, choices a token, width of an expert."""
    count = "num_experts" if family == "qwen3_moe" else "num_local_experts"
    width = "moe_intermediate_size" if family == "qwen3_moe" else "intermediate_size"
    return *fields.experts(count), fields.integer(width)


def _moe_layers(fields: Fields, family: str, layers: int) -> list[bool]:
    if family != "qwen3_moe":
        return [family in ("mixtral", "gpt_oss", "minimax_m2")] * layers
    dense = set(fields.items("mlp_only_layers", int, "layer numbers") or ())
    step = fields.integer("decoder_sparse_step", default=1)
    return [i not in dense and (i + 1) % step == 0 for i in range(layers)]


def _windows(fields: Fields, family: str, layers: int) -> list[int | None]:
    """Each layer's window: ``layer_types`` if given, else the family's own older fields."""
    types = fields.items("layer_types", str, "strings")
    if types is not None:
        allowed = {"full_attention", "sliding_attention"}
        if len(types) != layers or not set(types) <= allowed:
            raise fields.fail("layer_types", f"{layers} of full_attention or sliding_attention")
        if "sliding_attention" not in types:
            return [None] * layers
        window = fields.integer("sliding_window")
        return [window if kind == "sliding_attention" else None for kind in types]
    if family == "gpt_oss":  # alternating from the first layer, as its published code does
        window = fields.integer("sliding_window")
        return [None if i % 2 else window for i in range(layers)]
    first = _full_layers(fields, family, layers)
    window = fields.integer("sliding_window") if first < layers else 0
    return [None if i < first else window for i in range(layers)]


def _full_layers(fields: Fields, family: str, layers: int) -> int:
    """How many layers at the start have full attention where ``layer_types`` does not say."""
    if fields.raw.get("sliding_window") is None or family == "llama":
        return layers
    if family in ("mistral", "mixtral"):
        return 0
    if not fields.flag("use_sliding_window") or fields.raw.get("max_window_layers") is None:
        return layers
    return min(layers, fields.integer("max_window_layers", least=0))
