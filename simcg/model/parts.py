"""The parts of a layer that only some families have: their sizes, checked where they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simcg.errors import require

Mixer = Literal["heads", "latent", "sparse", "sparse_shared", "linear"]
"""How a layer mixes tokens: grouped-query heads; latent attention over all keys, over the keys
that its own indexer chose, or over those that an earlier layer's indexer chose; or the gated
delta rule."""
Phase = Literal["prefill", "short_prefill", "dense_prefill", "decode"]
"""Which ops latent, sparse and linear attention run: see ``forward_pass``."""
MIXERS: tuple[Mixer, ...] = ("heads", "latent", "sparse", "sparse_shared", "linear")


@dataclass(frozen=True, slots=True)
class LayerKind:
    """``window``: tokens a row may attend to, None for all; ``moe``: experts instead of dense."""

    window: int | None = None
    moe: bool = False
    mixer: Mixer = "heads"

    def __post_init__(self) -> None:
        good = self.window is None or self.window >= 1
        require(good, "LayerKind", "window", self.window, "an integer >= 1 or None")
        require(
            self.mixer in MIXERS, "LayerKind", "mixer", self.mixer, "one of " + ", ".join(MIXERS)
        )
        alone = self.window is None or self.mixer == "heads"
        require(alone, "LayerKind", "window", self.window, f"None with {self.mixer} attention")


@dataclass(frozen=True, slots=True)
class Latent:
    """Latent attention (MLA): ranks of the compressed queries, and of the keys and values.

    ``nope_dim``, ``rope_dim``: a head's keys without and with position; ``v_dim``: its values.
    """

    q_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int

    def __post_init__(self) -> None:
        for name in ("q_rank", "kv_rank", "nope_dim", "rope_dim", "v_dim"):
            _check_size(self, name)

    @property
    def key_dim(self) -> int:
        """Width of a head's query and key."""
        return self.nope_dim + self.rope_dim

    @property
    def row(self) -> int:
        """Values that the cache keeps for a token."""
        return self.kv_rank + self.rope_dim


@dataclass(frozen=True, slots=True)
class Indexer:
    """Chooses the ``top_k`` keys of each row (DeepSeek Sparse Attention).

    ``interleaved``: whether its rotary embedding is, which engines' fused kernels require.
    """

    heads: int
    head_dim: int
    top_k: int
    interleaved: bool = False

    def __post_init__(self) -> None:
        for name in ("heads", "head_dim", "top_k"):
            _check_size(self, name)


@dataclass(frozen=True, slots=True)
class Delta:
    """The gated delta rule behind a causal convolution over the last ``conv_width`` tokens."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_width: int

    def __post_init__(self) -> None:
        for name in ("key_heads", "value_heads", "key_dim", "value_dim", "conv_width"):
            _check_size(self, name)

    @property
    def channels(self) -> int:
        """Of the convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


def _check_size(part: Latent | Indexer | Delta, name: str) -> None:
    value = getattr(part, name)
    require(value >= 1, type(part).__name__, name, value, "an integer >= 1")
