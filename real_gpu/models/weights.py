"""Random weights of a decoder, scaled so that activations neither vanish nor overflow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from simcg.model.architecture import Architecture, LayerKind

ROTARY_BASE = 10_000.0
"""One base for all models: the angles decide values, not time."""
ADDED = 0.5
"""What all layers together add to the residual, in deviations of the embedding that starts it.

Were it much, tokens would become alike from layer to layer, and a router would send all of them
to the same few experts, where a trained one spreads them.
"""


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix [inputs, outputs], each output's weights contiguous, and a bias or None."""

    matrix: torch.Tensor
    bias: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Dense:
    """Gate beside up, and down."""

    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class Experts:
    """The router, and [experts, inputs, outputs] of gate beside up and of down."""

    router: Linear
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer; ``q_norm`` and ``k_norm`` [head_dim] are None without a norm of heads."""

    input_norm: torch.Tensor
    qkv: Linear
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    o: Linear
    post_attention_norm: torch.Tensor
    feed_forward: Dense | Experts


@dataclass(frozen=True, slots=True)
class Weights:
    """All of a decoder's; ``head`` [hidden, vocab]; ``angles`` [positions, head_dim].

    Each row of ``angles`` holds the cosines of its position, then the sines, fp32 or wider.
    """

    embedding: torch.Tensor
    layers: tuple[Layer, ...]
    final_norm: torch.Tensor
    head: torch.Tensor
    angles: torch.Tensor

    @staticmethod
    def random(arch: Architecture, device: torch.device, dtype: torch.dtype, seed: int) -> Weights:
        """Drawn on the device, 16-bit sizes of 30 billion in about a second on a GPU."""
        draw = Draw(device, dtype, seed, ADDED / math.sqrt(2 * arch.layers))
        embedding = draw.normal((arch.vocab, arch.hidden), 1.0)
        return Weights(
            embedding=embedding,
            layers=tuple(draw.layer(arch, kind) for kind in arch.layer_kinds),
            final_norm=draw.gain(arch.hidden),
            head=embedding.t() if arch.tied_embeddings else draw.matrix(arch.hidden, arch.vocab),
            angles=angles(arch, device, torch.promote_types(dtype, torch.float32)),
        )


class Draw:
    """A seeded source of weights on one device; ``added``: the size of what a part adds."""

    def __init__(self, device: torch.device, dtype: torch.dtype, seed: int, added: float) -> None:
        self._device, self._dtype, self._added = device, dtype, added
        self._source = torch.Generator(device).manual_seed(seed)

    def normal(self, shape: tuple[int, ...], deviation: float, mean: float = 0.0) -> torch.Tensor:
        """Independent normal values."""
        empty = torch.empty(shape, device=self._device, dtype=self._dtype)
        return empty.normal_(mean, deviation, generator=self._source)

    def matrix(self, inputs: int, outputs: int, *experts: int, size: float = 1.0) -> torch.Tensor:
        """[*experts, inputs, outputs] whose results are ``size`` times its input's values."""
        return self.normal((*experts, outputs, inputs), size * inputs**-0.5).transpose(-1, -2)

    def gain(self, width: int) -> torch.Tensor:
        """A norm's weight, about 1."""
        return self.normal((width,), 0.1, mean=1.0)

    def linear(self, inputs: int, outputs: int, bias: bool, size: float = 1.0) -> Linear:
        """A product, with a small bias where the model has one."""
        matrix = self.matrix(inputs, outputs, size=size)
        return Linear(matrix, self.normal((outputs,), 0.1 * size) if bias else None)

    def layer(self, arch: Architecture, kind: LayerKind) -> Layer:
        """One layer of that kind."""
        q, kv = arch.heads * arch.head_dim, arch.kv_heads * arch.head_dim
        return Layer(
            input_norm=self.gain(arch.hidden),
            qkv=self.linear(arch.hidden, q + 2 * kv, arch.qkv_bias),
            q_norm=self.gain(arch.head_dim) if arch.qk_norm else None,
            k_norm=self.gain(arch.head_dim) if arch.qk_norm else None,
            o=self.linear(q, arch.hidden, arch.o_bias, self._added),
            post_attention_norm=self.gain(arch.hidden),
            feed_forward=self.experts(arch) if kind.moe else self.dense(arch),
        )

    def dense(self, arch: Architecture) -> Dense:
        """A dense feed-forward part."""
        width, bias = arch.intermediate, arch.mlp_bias
        return Dense(
            self.linear(arch.hidden, 2 * width, bias),
            self.linear(width, arch.hidden, bias, self._added),
        )

    def experts(self, arch: Architecture) -> Experts:
        """A mixture of experts."""
        width = arch.moe_intermediate
        return Experts(
            router=self.linear(arch.hidden, arch.experts, arch.router_bias),
            gate_up=self.matrix(arch.hidden, 2 * width, arch.experts),
            down=self.matrix(width, arch.hidden, arch.experts, size=self._added),
        )


def angles(arch: Architecture, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Cosines, then sines, of every position: [positions, head_dim]."""
    pair = torch.arange(0, arch.head_dim, 2, device=device, dtype=torch.float64)
    position = torch.arange(arch.max_position, device=device, dtype=torch.float64)
    angle = torch.outer(position, ROTARY_BASE ** (-pair / arch.head_dim))
    return torch.cat((angle.cos(), angle.sin()), 1).to(dtype)
