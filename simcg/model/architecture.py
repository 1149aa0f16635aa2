"""The architecture of a decoder: its sizes, its parameters and their bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simcg.errors import InputError, require
from simcg.model.ops import WEIGHT_DTYPES, Dtype, stored_bytes
from simcg.model.parts import Delta, Indexer, Latent, LayerKind
from simcg.model.weights import BF16, WeightDtypes, weight_parts

__all__ = ["ACTIVATION_BYTES", "Architecture", "LayerKind", "WeightDtypes"]

ACTIVATION_BYTES = 2
"""Activations, the KV cache, norms and biases are 16 bit wide, as engines run these models."""
STATE_BYTES = 4
"""The state of the gated delta rule is fp32."""
INDEX_SCALE_BYTES = 4
"""The indexer caches an fp8 key and its fp32 scale."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder of attention and dense or mixture-of-experts layers, as its config.json says.

    ``intermediate`` is 0 without dense layers; ``experts``, ``top_k`` and ``moe_intermediate``
    are 0 without expert layers, ``shared_intermediate`` is the width of the expert that every
    token uses, ``shared_gate`` whether a gate scales its result. ``qkv_bias``, ``o_bias``,
    ``mlp_bias``, ``router_bias`` and ``expert_bias`` say which products add a bias (the router's
    may correct the choice alone), ``sinks`` whether each head has a learned sink, ``qk_norm``
    whether queries and keys are normalised per head, or, with ``wide_qk_norm``, over all heads of
    all ranks; ``attention_gate`` whether a gate as wide as the queries scales attention's result.
    ``latent``, ``indexer`` and ``delta`` are what such layers need; latent layers have as many
    ``kv_heads`` as ``heads``. Embedding, LM head and router are bf16. Layers that only predict
    further tokens (MTP) are not part of a step and not counted.
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
    weights: WeightDtypes = BF16
    wide_qk_norm: bool = False
    attention_gate: bool = False
    shared_intermediate: int = 0
    shared_gate: bool = False
    latent: Latent | None = None
    indexer: Indexer | None = None
    delta: Delta | None = None

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
        mixers = {kind.mixer for kind in self.layer_kinds}
        for field, users in (
            ("latent", {"latent", "sparse", "sparse_shared"}),
            ("indexer", {"sparse", "sparse_shared"}),
            ("delta", {"linear"}),
        ):
            missing = bool(mixers & users) and getattr(self, field) is None
            require(not missing, source, field, None, "its sizes, as layers need them")
        first = next((k for k in self.layer_kinds if k.mixer.startswith("sparse")), None)
        chosen = first is None or first.mixer == "sparse"
        require(chosen, source, "layers", "sparse_shared", "a sparse layer before the first of it")

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.layer_kinds)

    @property
    def total_params(self) -> int:
        """All parameters: matrices, biases, norms and sinks, tied embeddings once."""
        return sum(part.elements for part in weight_parts(self, 1))

    @property
    def active_params(self) -> int:
        """Parameters that one token uses: ``top_k`` experts, no input embedding unless tied.

        The convention of the gpt-oss model card; a lookup reads one row and multiplies nothing.
        """
        used = sum(part.elements * part.active for part in weight_parts(self, 1))
        return int(used) - (0 if self.tied_embeddings else self.vocab * self.hidden)

    def weight_bytes(self, tp: int = 1) -> int:
        """Bytes of the weights on one of ``tp`` ranks, without an engine's own padding."""
        self.check_tp(tp)
        return sum(stored_bytes(part.elements, part.dtype) for part in weight_parts(self, tp))

    def kv_bytes_per_token(self, tp: int = 1) -> int:
        """Bytes that the caches of one rank grow by with each token of a request, all layers.

        Keys and values of its heads, 16 bit; of latent layers one 16-bit row, on every rank in
        full, and the fp8 key with its scale of each indexer; of linear layers nothing: see
        ``state_bytes_per_request``. Windowed layers are counted like the others: an engine with a
        separate pool for them keeps no more than their window.
        """
        self.check_tp(tp)
        total = 0
        for kind in self.layer_kinds:
            if kind.mixer == "heads":
                total += 2 * self.rank_kv_heads(tp) * self.head_dim * ACTIVATION_BYTES
            elif kind.mixer != "linear":
                total += self.need_latent().row * ACTIVATION_BYTES
            if kind.mixer == "sparse":
                total += self.need_indexer().head_dim + INDEX_SCALE_BYTES
        return total

    def state_bytes_per_request(self, tp: int = 1) -> int:
        """Bytes that linear layers keep for a request on one rank, however long it is.

        The state of each value head in fp32, and the convolution's last inputs in 16 bit.
        """
        self.check_tp(tp)
        layers = sum(kind.mixer == "linear" for kind in self.layer_kinds)
        if not layers:
            return 0
        sizes = self.need_delta()
        state = sizes.value_heads * sizes.key_dim * sizes.value_dim * STATE_BYTES
        inputs = sizes.channels * (sizes.conv_width - 1) * ACTIVATION_BYTES
        return layers * (state + inputs) // tp

    def need_latent(self) -> Latent:
        """The sizes of latent attention; ``InputError`` in a model without it."""
        if self.latent is None:
            raise InputError(self.name, "latent", None, "a model with latent attention")
        return self.latent

    def need_indexer(self) -> Indexer:
        """The sizes of the indexer; ``InputError`` in a model without one."""
        if self.indexer is None:
            raise InputError(self.name, "indexer", None, "a model with sparse attention")
        return self.indexer

    def need_delta(self) -> Delta:
        """The sizes of linear attention; ``InputError`` in a model without it."""
        if self.delta is None:
            raise InputError(self.name, "delta", None, "a model with linear attention")
        return self.delta

    @property
    def shared_dtype(self) -> Dtype:
        """How the shared expert is stored."""
        return self.weights.shared or self.weights.experts

    def rank_kv_heads(self, tp: int) -> int:
        """Key-value heads of one rank: a share, or one replicated head if there are too few."""
        return max(1, self.kv_heads // tp)

    def rank_vocab(self, tp: int) -> int:
        """Rows of the embedding and of the LM head on one rank, the last one padded."""
        return -(-self.vocab // tp)

    def with_weights(self, dtype: Dtype) -> Architecture:
        """The same model with attention, dense, expert and shared matrices stored as ``dtype``."""
        known = "one of " + ", ".join(WEIGHT_DTYPES)
        require(dtype in WEIGHT_DTYPES, "weight dtype", "", dtype, known)
        return replace(self, weights=WeightDtypes(dtype, dtype, dtype))

    def check_tp(self, tp: int) -> None:
        """``InputError`` names the size that ``tp`` ranks cannot share evenly."""
        require(tp >= 1, self.name, "tp", tp, "an integer >= 1")
        shares = [(self.heads, "attention heads")]
        if not all(kind.moe for kind in self.layer_kinds):
            shares.append((self.intermediate, "intermediate size"))
        if any(kind.moe for kind in self.layer_kinds):
            shares.append((self.moe_intermediate, "experts' intermediate size"))
            shares.append((self.shared_intermediate, "shared expert's intermediate size"))
        if self.delta is not None:
            shares.append((self.delta.key_heads, "key heads of linear attention"))
            shares.append((self.delta.value_heads, "value heads of linear attention"))
        for size, what in shares:
            if size % tp:
                raise InputError(self.name, "tp", tp, f"a divisor of {size} ({what})")
        if self.kv_heads % tp and tp % self.kv_heads:
            expected = f"a divisor or a multiple of {self.kv_heads} (key-value heads)"
            raise InputError(self.name, "tp", tp, expected)

    def check_ep(self, ep: int, tp: int) -> None:
        """``InputError`` names what ``ep`` groups of ``tp`` ranks cannot share evenly."""
        require(ep >= 1, self.name, "ep", ep, "an integer >= 1")
        shares = [(tp, "ranks")]
        if self.experts:
            shares += [(self.experts, "experts"), (self.top_k, "choices a token")]
        for size, what in shares:
            if size % ep:
                raise InputError(self.name, "ep", ep, f"a divisor of {size} ({what})")
