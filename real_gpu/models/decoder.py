"""A lean decoder: an engine's ops with random weights, from an ``Architecture``."""

from __future__ import annotations

from dataclasses import replace

import torch

from real_gpu.attention.attention import attend
from real_gpu.attention.cache import KvCache
from real_gpu.attention.metadata import AttentionMetadata
from real_gpu.models.kernels import kernels_for
from real_gpu.models.weights import Dense, Experts, Layer, Linear, Weights
from simcg.errors import require
from simcg.model.architecture import Architecture


class Decoder:
    """Llama, Qwen3, Qwen3-MoE and gpt-oss as ``simcg.model.lean.lean_pass`` describes them.

    Two rows a token live throughout: the residual, and hidden states that every part of a layer
    reads and overwrites; all else dies within its part, so that a pool packs it again from the
    same place. All matrices have the type ``dtype``; attention sinks and the biases of experts
    are left out, and rotary angles are not scaled. ``layers``: only the first so many.
    """

    def __init__(
        self,
        arch: Architecture,
        device: torch.device,
        dtype: torch.dtype,
        seed: int,
        layers: int | None = None,
    ) -> None:
        if layers is not None:
            good = 1 <= layers <= arch.layers
            require(good, "Decoder", "layers", layers, f"1 to {arch.layers}")
            arch = replace(arch, layer_kinds=arch.layer_kinds[:layers])
        self.arch, self.device, self.dtype = arch, device, dtype
        self.kernels = kernels_for(device)
        self.weights = Weights.random(arch, device, dtype, seed)

    def bind(self, cache: KvCache) -> None:
        """Write keys and values to that cache from now on."""
        self.cache = cache

    def forward(
        self, ids: torch.Tensor, metadata: AttentionMetadata, out: torch.Tensor
    ) -> torch.Tensor:
        """Hidden states of ids [T] int64 after the last norm, written into out [T, hidden].

        ``metadata`` of T rows must be planned, its attention in use and the cache bound.
        """
        hidden = torch.index_select(self.weights.embedding, 0, ids)
        residual = torch.zeros_like(hidden)
        for index, layer in enumerate(self.weights.layers):
            self.kernels.add_norm(hidden, residual, layer.input_norm, hidden)
            self._attention(index, layer, hidden, metadata)
            self.kernels.add_norm(hidden, residual, layer.post_attention_norm, hidden)
            if isinstance(layer.feed_forward, Dense):
                self._dense(layer.feed_forward, hidden)
            else:
                self._experts(layer.feed_forward, hidden)
        self.kernels.add_norm(hidden, residual, self.weights.final_norm, out)
        return out

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[rows, vocab] of hidden [rows, hidden]; engines run it outside a prefill graph."""
        return torch.mm(hidden, self.weights.head)

    def _attention(
        self, index: int, layer: Layer, hidden: torch.Tensor, metadata: AttentionMetadata
    ) -> None:
        """Attention and its products, written over their input."""
        heads, kv = self.arch.heads, self.arch.kv_heads
        qkv = _linear(hidden, layer.qkv)
        if layer.q_norm is not None and layer.k_norm is not None:
            self.kernels.qk_norm(qkv, layer.q_norm, layer.k_norm, heads, kv)
        self.kernels.rotary(qkv, self.weights.angles, metadata.positions, heads + kv)
        keys, values = self.cache.keys[index], self.cache.values[index]
        self.kernels.kv_write(qkv, metadata.slots, keys, values)
        attended = hidden.new_empty((hidden.shape[0], heads * self.arch.head_dim))
        attend(qkv, attended, index)
        _linear(attended, layer.o, hidden)

    def _activate(self, gate_up: torch.Tensor, out: torch.Tensor) -> None:
        if self.arch.model_type == "gpt_oss":
            self.kernels.swiglu(gate_up, out)
        else:
            self.kernels.silu_mul(gate_up, out)

    def _dense(self, weights: Dense, hidden: torch.Tensor) -> None:
        """The dense feed-forward part, written over its input."""
        gate_up = _linear(hidden, weights.gate_up)
        activated = hidden.new_empty((hidden.shape[0], self.arch.intermediate))
        self._activate(gate_up, activated)
        _linear(activated, weights.down, hidden)

    def _experts(self, weights: Experts, hidden: torch.Tensor) -> None:
        """The weighted sum of the chosen experts, written over their input."""
        tokens, top_k = hidden.shape[0], self.arch.top_k
        logits = _linear(hidden, weights.router)
        experts = hidden.new_empty((tokens, top_k), dtype=torch.int32)
        shares = hidden.new_empty((tokens, top_k), dtype=self.weights.angles.dtype)
        self.kernels.route(logits, experts, shares)
        ends = hidden.new_empty((self.arch.experts,), dtype=torch.int32)
        rows = hidden.new_empty((tokens * top_k,), dtype=torch.int32)
        places = torch.empty_like(experts)
        self.kernels.sort_by_expert(experts, ends, rows, places)
        gathered = torch.index_select(hidden, 0, rows)
        gate_up = self.kernels.grouped_mm(gathered, weights.gate_up, ends)
        del gathered  # top_k rows a token: a pool can use them again at once
        activated = hidden.new_empty((tokens * top_k, self.arch.moe_intermediate))
        self._activate(gate_up, activated)
        del gate_up
        expert_rows = self.kernels.grouped_mm(activated, weights.down, ends)
        self.kernels.combine(expert_rows, places, shares, hidden)


def _linear(x: torch.Tensor, weights: Linear, out: torch.Tensor | None = None) -> torch.Tensor:
    """One kernel with a bias as without (for one row, torch copies the bias first)."""
    if weights.bias is None:
        return torch.mm(x, weights.matrix, out=out)
    return torch.addmm(weights.bias, x, weights.matrix, out=out)
