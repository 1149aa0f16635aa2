"""The architecture of a decoder: its sizes, its parameters and their bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction

from simcg.errors import InputError, require
from simcg.model.ops import DTYPE_BITS, Dtype, stored_bytes

ACTIVATION_BYTES = 2
"""Activations, the KV cache, norms and biases are 16 bit wide, as engines run these models."""


@dataclass(frozen=True, slots=True)
class LayerKind:
    """``window``: tokens a row may attend to, None for all; ``moe``: experts instead of dense."""

    window: int | None = None
    moe: bool = False

    def __post_init__(self) -> None:
        good = self.window is None or self.window >= 1
        require(good, "LayerKind", "window", self.window, "an integer >= 1 or None")


@dataclass(frozen=True, slots=True)
class WeightDtypes:
    """How the matrices of each part are stored; norms and biases are always 16 bit."""

    attention: Dtype = "bf16"
    mlp: Dtype = "bf16"
    experts: Dtype = "bf16"


@dataclass(frozen=True, slots=True)
class WeightPart:
    """``elements`` weights on one rank; ``active`` of them are used for a token."""

    elements: int
    dtype: Dtype = "bf16"
    active: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder of attention and dense or mixture-of-experts layers, as its config.json says.

    ``intermediate`` is 0 without dense layers; ``experts``, ``top_k`` and ``moe_intermediate``
    are 0 without expert layers. ``qkv_bias``, ``o_bias``, ``mlp_bias``, ``router_bias`` and
    ``expert_bias`` say which products add a bias, ``sinks`` whether each head has a learned
    sink, ``qk_norm`` whether queries and keys are normalised per head. Embedding, LM head and
    router are bf16. There are no shared experts in the families that are supported.
    """

    name: str
    model_type: str
    layer_kinds: tuple[LayerKind, ...]
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_position: int
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

    def __post_init__(self) -> None:
        source = f"architecture {self.name}"
        require(len(self.layer_kinds) >= 1, source, "layers", 0, "at least one layer")
        for field in ("hidden", "heads", "kv_heads", "head_dim", "vocab", "max_position"):
            value = getattr(self, field)
            require(value >= 1, source, field, value, "an integer >= 1")
        require(
            self.heads % self.kv_heads == 0,
            source,
            "kv_heads",
            self.kv_heads,
            f"a divisor of the {self.heads} heads",
        )
        if any(kind.moe for kind in self.layer_kinds):
            for field in ("experts", "top_k", "moe_intermediate"):
                value = getattr(self, field)
                require(value >= 1, source, field, value, "an integer >= 1 for expert layers")
            enough = self.top_k <= self.experts
            require(enough, source, "top_k", self.top_k, f"at most the {self.experts} experts")
        if not all(kind.moe for kind in self.layer_kinds):
            good = self.intermediate >= 1
            require(good, source, "intermediate", self.intermediate, ">= 1 for dense layers")

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.layer_kinds)

    @property
    def total_params(self) -> int:
        """All parameters: matrices, biases, norms and sinks, tied embeddings once."""
        return sum(part.elements for part in self._parts(tp=1))

    @property
    def active_params(self) -> int:
        """Parameters that one token uses: ``top_k`` experts, no input embedding unless tied.

        The convention of the gpt-oss model card; a lookup reads one row and multiplies nothing.
        """
        used = sum(part.elements * part.active for part in self._parts(tp=1))
        return int(used) - (0 if self.tied_embeddings else self.vocab * self.hidden)

    def weight_bytes(self, tp: int = 1) -> int:
        """Bytes of the weights on one of ``tp`` ranks, without an engine's own padding."""
        self.check_tp(tp)
        return sum(stored_bytes(part.elements, part.dtype) for part in self._parts(tp))

    def kv_bytes_per_token(self, tp: int = 1) -> int:
        """Bytes of keys and values of one token on one rank, 16 bit, all layers.

        Windowed layers are counted like the others: an engine with a separate pool for them
        keeps no more than their window.
        """
        self.check_tp(tp)
        return self.layers * 2 * self.rank_kv_heads(tp) * self.head_dim * ACTIVATION_BYTES

    def rank_kv_heads(self, tp: int) -> int:
        """Key-value heads of one rank: a share, or one replicated head if there are too few."""
        return max(1, self.kv_heads // tp)

    def rank_vocab(self, tp: int) -> int:
        """Rows of the embedding and of the LM head on one rank, the last one padded."""
        return -(-self.vocab // tp)

    def with_weights(self, dtype: Dtype) -> Architecture:
        """The same model with attention, dense and expert matrices stored as ``dtype``."""
        known = tuple(name for name in DTYPE_BITS if name != "fp32")
        require(dtype in known, "weight dtype", "", dtype, "one of " + ", ".join(known))
        return replace(self, weights=WeightDtypes(dtype, dtype, dtype))

    def check_tp(self, tp: int) -> None:
        """``InputError`` names the size that ``tp`` ranks cannot share evenly."""
        require(tp >= 1, self.name, "tp", tp, "an integer >= 1")
        shares = [(self.heads, "attention heads")]
        if not all(kind.moe for kind in self.layer_kinds):
            shares.append((self.intermediate, "intermediate size"))
        if any(kind.moe for kind in self.layer_kinds):
            shares.append((self.moe_intermediate, "experts' intermediate size"))
        for size, what in shares:
            if size % tp:
                raise InputError(self.name, "tp", tp, f"a divisor of {size} ({what})")
        if self.kv_heads % tp and tp % self.kv_heads:
            expected = f"a divisor or a multiple of {self.kv_heads} (key-value heads)"
            raise InputError(self.name, "tp", tp, expected)

    def _parts(self, tp: int) -> list[WeightPart]:
        """Weights of one rank: column- and row-parallel matrices, the rest replicated."""
        table = WeightPart(self.rank_vocab(tp) * self.hidden)
        parts = [table, WeightPart(self.hidden)]
        if not self.tied_embeddings:
            parts.append(table)
        for kind, count in Counter(self.layer_kinds).items():
            layer = [*self._attention_parts(tp), *(self._moe(tp) if kind.moe else self._mlp(tp))]
            parts += [replace(part, elements=part.elements * count) for part in layer]
        return parts

    def _attention_parts(self, tp: int) -> list[WeightPart]:
        q = self.heads // tp * self.head_dim
        qkv = q + 2 * self.rank_kv_heads(tp) * self.head_dim
        small = (
            2 * self.hidden
            + 2 * self.head_dim * self.qk_norm
            + qkv * self.qkv_bias
            + self.hidden * self.o_bias
            + self.heads // tp * self.sinks
        )
        return [WeightPart(self.hidden * (qkv + q), self.weights.attention), WeightPart(small)]

    def _mlp(self, tp: int) -> list[WeightPart]:
        width = self.intermediate // tp
        bias = (2 * width + self.hidden) * self.mlp_bias
        return [WeightPart(3 * self.hidden * width, self.weights.mlp), WeightPart(bias)]

    def _moe(self, tp: int) -> list[WeightPart]:
        width = self.moe_intermediate // tp
        bias = self.experts * (2 * width + self.hidden) * self.expert_bias
        used = Fraction(self.top_k, self.experts)
        return [
            WeightPart(self.experts * (self.hidden + self.router_bias)),
            WeightPart(self.experts * 3 * self.hidden * width, self.weights.experts, used),
            WeightPart(bias, active=used),
        ]
