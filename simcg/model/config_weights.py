"""How a checkpoint stores each part's matrices: its quantization_config."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass

from simcg.model.config_fields import Fields
from simcg.model.ops import Dtype
from simcg.model.parts import LayerKind
from simcg.model.weights import BF16, WeightDtypes

METHODS = ("fp8", "mxfp4", "modelopt", "compressed-tensors", "awq", "gptq")
BLOCK = [128, 128]
INT4_GROUP = 32
INT4_GROUPS = (32, 64, 128, -1)
"""Of awq and gptq, -1 a whole column. All count as int4 in groups of 32, whose scales make weights
an eighth more than those of whole columns, and 8 % more than in groups of 128."""
NAMES: dict[str, tuple[str, ...]] = {
    "attention": ("self_attn.o_proj",),
    "linear": ("linear_attn.out_proj",),
    "mlp": ("mlp.down_proj",),
    "experts": ("mlp.experts.0.down_proj", "block_sparse_moe.experts.0.w2"),
    "shared": ("mlp.shared_experts.down_proj", "mlp.shared_expert.down_proj"),
}
"""Modules of a layer that stand for a part: the part keeps its type if one of them does, or a
module that holds it."""
PREFIXES = re.compile(r"^(language_model\.model|model\.language_model)\.")


@dataclass(frozen=True, slots=True)
class Quantised:
    """What a method converts matrices to, those of experts alone or all, and what it leaves."""

    dtype: Dtype
    experts_only: bool
    kept: re.Pattern[str] | None


def weight_dtypes(
    fields: Fields, kinds: Sequence[LayerKind], has_shared: bool = False
) -> WeightDtypes:
    """bf16, or what ``quantization_config`` converts less the modules that it excepts."""
    inner = fields.inner("quantization_config")
    if inner is None:
        return BF16
    found = _quantised(inner)
    moe = [i for i, kind in enumerate(kinds) if kind.moe]
    experts = _stored(inner, found, "experts", moe)
    if found.experts_only:
        return WeightDtypes(experts=experts, shared="bf16" if has_shared else None)
    dense = [i for i, kind in enumerate(kinds) if not kind.moe]
    shared = _stored(inner, found, "shared", moe) if has_shared else experts
    return WeightDtypes(
        attention=_attention(inner, found, kinds),
        mlp=_stored(inner, found, "mlp", dense),
        experts=experts,
        shared=None if shared == experts else shared,
    )


def _attention(fields: Fields, found: Quantised, kinds: Sequence[LayerKind]) -> Dtype:
    """Of both kinds of attention, which have to be stored alike."""
    stored: set[Dtype] = set()
    for part in ("attention", "linear"):
        layers = [
            i for i, kind in enumerate(kinds) if (kind.mixer == "linear") == (part == "linear")
        ]
        if layers:
            stored.add(_stored(fields, found, part, layers))
    if len(stored) > 1:
        raise fields.fail(_list_name(fields), "both kinds of attention or none of them")
    return stored.pop()


def _quantised(fields: Fields) -> Quantised:
    method = fields.raw.get("quant_method")
    if not isinstance(method, str) or method not in METHODS:
        known = "one of " + ", ".join(METHODS)
        raise fields.fail("quant_method", f"{known}; or no quantization_config and --dtype")
    dtype: Dtype
    if method == "fp8":
        blocks = fields.items("weight_block_size", int, "two integers")
        if blocks not in (None, BLOCK):
            raise fields.fail("weight_block_size", "[128, 128]")
        dtype = "fp8" if blocks is None else "fp8_block"
    elif method == "mxfp4":
        dtype = "mxfp4"
    elif method == "modelopt":
        fields.check_word("quant_algo", ("NVFP4", "FP8"))
        dtype = "fp8" if fields.raw.get("quant_algo") == "FP8" else "nvfp4"
    elif method == "compressed-tensors":
        dtype = _packed(fields)
    else:
        dtype = _integers(fields)
    return Quantised(dtype, method == "mxfp4", _patterns(fields))


def _packed(fields: Fields) -> Dtype:
    """compressed-tensors: 4-bit integers in groups of 32 for all matrices that are not ignored."""
    fields.check_word("format", ("pack-quantized",))
    groups = fields.inner("config_groups")
    found = [] if groups is None else [groups.inner(name) for name in groups.raw]
    weights = [None if group is None else group.inner("weights") for group in found]
    for one in weights:
        good = one is not None and (
            one.raw.get("num_bits") == 4
            and one.raw.get("type") == "int"
            and one.raw.get("group_size") == INT4_GROUP
        )
        if not good or len(weights) > 1:
            raise fields.fail("config_groups", "one group of 4-bit integers, 32 to a scale")
    if not weights:
        raise fields.fail("config_groups", "one group of 4-bit integers, 32 to a scale")
    return "int4"


def _integers(fields: Fields) -> Dtype:
    """awq and gptq: 4-bit integers, one type for all matrices."""
    if fields.raw.get("bits", fields.raw.get("w_bit")) != 4:
        raise fields.fail("bits", "4; or no quantization_config and --dtype")
    group = fields.raw.get("group_size", fields.raw.get("q_group_size"))
    if group not in INT4_GROUPS:
        raise fields.fail("group_size", "one of " + ", ".join(map(str, INT4_GROUPS)))
    if fields.raw.get("dynamic"):
        raise fields.fail("dynamic", "no rules for single modules")
    return "int4"


def _list_name(fields: Fields) -> str:
    names = ("modules_to_not_convert", "ignore", "exclude_modules")
    return next((name for name in names if fields.raw.get(name) is not None), names[0])


def _patterns(fields: Fields) -> re.Pattern[str] | None:
    """One expression of all excepted modules: globs, names, or after "re:" an expression."""
    name = _list_name(fields)
    texts = []
    for item in fields.items(name, str, "module names") or []:
        if item.startswith("re:"):
            texts.append(f"(?:{item[3:]})")
        else:
            texts.append(r"(?:.*\.)?" + fnmatch.translate(PREFIXES.sub("model.", item)))
    if not texts:
        return None
    try:
        return re.compile("|".join(texts))
    except re.error:
        raise fields.fail(name, "names, globs or expressions of modules") from None


def _stored(fields: Fields, found: Quantised, part: str, layers: Sequence[int]) -> Dtype:
    """The type of a part that is converted in all of its layers or in none of them."""
    if found.kept is None or not layers:
        return found.dtype
    kept = sum(_keeps(found.kept, f"model.layers.{layer}", part) for layer in layers)
    if kept not in (0, len(layers)):
        expected = f"the {part} of every layer or of none"
        raise fields.fail(_list_name(fields), expected)
    return "bf16" if kept else found.dtype


def _keeps(kept: re.Pattern[str], layer: str, part: str) -> bool:
    for name in NAMES[part]:
        steps = name.split(".")
        paths = (".".join((layer, *steps[:i])) for i in range(1, len(steps) + 1))
        if any(kept.fullmatch(path) for path in paths):
            return True
    return False
