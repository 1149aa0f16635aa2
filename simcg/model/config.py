"""Reads a Hugging Face config.json into an Architecture."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from simcg.errors import Finding, InputError
from simcg.model.architecture import Architecture, LayerKind, WeightDtypes
from simcg.model.ops import Dtype

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral", "gpt_oss")
DTYPES = ("bfloat16", "float16", "float32")
ACTIVATIONS = (
    "silu", "swish", "gelu", "gelu_10", "gelu_accurate", "gelu_fast", "gelu_new", "gelu_python",
    "gelu_pytorch_tanh", "gelu_python_tanh", "quick_gelu",
)  # fmt: skip
"""Of the gate: one elementwise kernel, whichever of them it computes."""
MAX_LAYERS = 10_000
MAX_SIZE = 1 << 30
"""No model comes near these; they keep a mistyped size from filling the memory."""
QUANTISED: dict[str, WeightDtypes] = {
    "fp8": WeightDtypes("fp8", "fp8", "fp8"),
    "mxfp4": WeightDtypes(experts="mxfp4"),
}


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
    return _architecture(_Fields(str(file), raw), name)


@dataclass(frozen=True, slots=True)
class _Fields:
    """Typed access to a config; a missing or null field takes the default."""

    source: str
    raw: dict[str, Any]  # JSON as decoded: every access below checks the type

    def fail(self, field: str, expected: str) -> InputError:
        return InputError(self.source, field, self.raw.get(field), expected)

    def integer(
        self, field: str, default: int | None = None, least: int = 1, most: int = MAX_SIZE
    ) -> int:
        value = self.raw.get(field)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.fail(field, f"an integer from {least} to {most}")
        return value

    def flag(self, field: str, default: bool = False) -> bool:
        value = self.raw.get(field)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fail(field, "true or false")
        return value

    def check_word(self, field: str, known: tuple[str, ...]) -> None:
        value = self.raw.get(field)
        if value is not None and value not in known:
            raise self.fail(field, "one of " + ", ".join(known))

    def items(self, field: str, kind: type, what: str) -> list[Any] | None:
        value = self.raw.get(field)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(item) is kind for item in value):
            raise self.fail(field, f"a list of {what}")
        return value


def _architecture(fields: _Fields, name: str) -> Architecture:
    family = fields.raw.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise fields.fail("model_type", "a supported decoder: " + ", ".join(FAMILIES))
    for field in ("torch_dtype", "dtype"):
        fields.check_word(field, DTYPES)
    fields.check_word("hidden_act", ACTIVATIONS)
    heads = fields.integer("num_attention_heads")
    hidden = fields.integer("hidden_size")
    kv_heads = fields.integer("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise fields.fail("num_key_value_heads", f"a divisor of the {heads} attention heads")
    if fields.raw.get("head_dim") is None and hidden % heads:
        raise fields.fail("hidden_size", f"a multiple of {heads} heads, or a head_dim")
    layers = fields.integer("num_hidden_layers", most=MAX_LAYERS)
    moe = _moe_layers(fields, family, layers)
    kinds = tuple(map(LayerKind, _windows(fields, family, layers), moe))
    oss, bias = family == "gpt_oss", fields.flag("attention_bias", family == "gpt_oss")
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
        qk_norm=family in ("qwen3", "qwen3_moe"),
        qkv_bias=bias or family == "qwen2",
        o_bias=bias and family != "qwen2",
        mlp_bias=family == "llama" and fields.flag("mlp_bias"),
        sinks=oss,
        router_bias=oss,
        expert_bias=oss,
        tied_embeddings=fields.flag("tie_word_embeddings"),
        weights=_weight_dtypes(fields),
    )


def _experts(fields: _Fields, family: str) -> tuple[int, int, int]:
    """Experts, choices a token, width of an expert."""
    count = "num_experts" if family == "qwen3_moe" else "num_local_experts"
    width = "moe_intermediate_size" if family == "qwen3_moe" else "intermediate_size"
    experts, top_k = fields.integer(count), fields.integer("num_experts_per_tok")
    if top_k > experts:
        raise fields.fail("num_experts_per_tok", f"at most the {experts} experts")
    return experts, top_k, fields.integer(width)


def _moe_layers(fields: _Fields, family: str, layers: int) -> list[bool]:
    if family != "qwen3_moe":
        return [family in ("mixtral", "gpt_oss")] * layers
    dense = set(fields.items("mlp_only_layers", int, "layer numbers") or ())
    step = fields.integer("decoder_sparse_step", default=1)
    return [i not in dense and (i + 1) % step == 0 for i in range(layers)]


def _windows(fields: _Fields, family: str, layers: int) -> list[int | None]:
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


def _full_layers(fields: _Fields, family: str, layers: int) -> int:
    """How many layers at the start have full attention where ``layer_types`` does not say."""
    if fields.raw.get("sliding_window") is None or family == "llama":
        return layers
    if family in ("mistral", "mixtral"):
        return 0
    if not fields.flag("use_sliding_window") or fields.raw.get("max_window_layers") is None:
        return layers
    return min(layers, fields.integer("max_window_layers", least=0))


def _weight_dtypes(fields: _Fields) -> WeightDtypes:
    """bf16, or what ``quantization_config`` converts less ``modules_to_not_convert``."""
    quantisation = fields.raw.get("quantization_config")
    if quantisation is None:
        return WeightDtypes()
    if not isinstance(quantisation, dict):
        raise fields.fail("quantization_config", "an object")
    inner = _Fields(f"{fields.source}, quantization_config", quantisation)
    method = quantisation.get("quant_method")
    if not isinstance(method, str) or method not in QUANTISED:
        raise inner.fail("quant_method", "one of " + ", ".join(QUANTISED))
    chosen = QUANTISED[method]
    kept = inner.items("modules_to_not_convert", str, "module names") or []

    def stored(part: Dtype, *modules: str) -> Dtype:
        return "bf16" if any(_keeps(inner, kept, module) for module in modules) else part

    return WeightDtypes(
        attention=stored(chosen.attention, "self_attn"),
        mlp=stored(chosen.mlp, "mlp"),
        experts=stored(chosen.experts, "mlp", "mlp.experts", "block_sparse_moe"),
    )


def _keeps(fields: _Fields, kept: list[str], module: str) -> bool:
    """Whether ``module`` stays unconverted in every layer; some layers only is an error."""
    pattern = re.compile(rf"(model\.layers\.(?P<layer>\*|\d+)\.)?{re.escape(module)}(\.\*)?")
    found = [match for name in kept if (match := pattern.fullmatch(name))]
    if not found:
        return False
    if any(match["layer"] in (None, "*") for match in found):
        return True
    raise fields.fail("modules_to_not_convert", f"{module} of every layer (model.layers.*) or none")
