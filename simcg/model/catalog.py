"""The models that simcg knows by name."""

from __future__ import annotations

import difflib
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from simcg.errors import InputError
from simcg.model.architecture import Architecture, LayerKind, WeightDtypes
from simcg.model.config import read_config
from simcg.model.parts import Delta, Indexer, Latent


class ModelFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One file of ``simcg/model/data``: the published sizes of a model.

    ``source``: the repository whose config.json states them; ``also``: other ids of the same
    architecture; layers are of the kinds ``first``, then of ``pattern`` again and again; the rest
    as in Architecture.
    """

    source: str
    model_type: str
    layers: int
    pattern: tuple[LayerKind, ...]
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_position: int
    also: tuple[str, ...] = ()
    first: tuple[LayerKind, ...] = ()
    intermediate: int = 0
    experts: int = 0
    top_k: int = 0
    moe_intermediate: int = 0
    qk_norm: bool = False
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    sinks: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    tied_embeddings: bool = False
    weights: WeightDtypes = WeightDtypes()
    wide_qk_norm: bool = False
    attention_gate: bool = False
    shared_intermediate: int = 0
    shared_gate: bool = False
    latent: Latent | None = None
    indexer: Indexer | None = None
    delta: Delta | None = None

    def architecture(self, name: str) -> Architecture:
        """These facts as an ``Architecture``."""
        sizes = {field: getattr(self, field) for field in self.__struct_fields__}
        for field in ("source", "also", "layers", "first", "pattern"):
            del sizes[field]
        rest = range(self.layers - len(self.first))
        kinds = (*self.first, *(self.pattern[i % len(self.pattern)] for i in rest))
        return Architecture(name=name, layer_kinds=kinds, **sizes)


@cache
def _facts() -> dict[str, ModelFacts]:
    folder = files("simcg.model") / "data"
    entries = sorted((f for f in folder.iterdir() if f.name.endswith(".json")), key=str)
    decode = msgspec.json.Decoder(ModelFacts).decode
    return {f.name.removesuffix(".json"): decode(f.read_bytes()) for f in entries}


def model_names() -> tuple[str, ...]:
    """The built-in names, sorted."""
    return tuple(sorted(_facts()))


def architecture_named(name: str) -> Architecture:
    """The built-in architecture of that name or Hugging Face id, in any case.

    ``InputError`` lists the names and says which is close.
    """
    for known, facts in _facts().items():
        if name.casefold() in {x.casefold() for x in (known, facts.source, *facts.also)}:
            return facts.architecture(known)
    names = model_names()
    close = difflib.get_close_matches(name.casefold().rsplit("/", 1)[-1], names, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    file = "its config.json, downloaded" if "/" in name else "a config.json"
    raise InputError("model", "", name, "one of " + ", ".join(names) + f" or {file}{hint}")


def load_architecture(name_or_path: str | Path) -> Architecture:
    """The architecture of a config.json, of a folder that holds one, or of a built-in name."""
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".json") or Path(text).is_dir():
        return read_config(name_or_path)
    return architecture_named(text)
