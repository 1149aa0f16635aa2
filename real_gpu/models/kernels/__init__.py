"""The small fused kernels that an engine has and torch lacks: Triton on CUDA, aten on the CPU."""

from __future__ import annotations

from typing import Protocol

import torch

from real_gpu.models.kernels import plain


class Kernels(Protocol):
    """What a decoder issues beside products, lookups and attention; each is one kernel on CUDA.

    ``grouped_mm`` alone is two (torch's own) and allocates its result. No function reads a value
    on the host, and shapes depend on shapes only. Rows do not mix: what a row of padding holds,
    NaN included, stays in that row.
    """

    def add_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor
    ) -> None:
        """residual += x; out = RMSNorm(residual) * weight; all [T, hidden]; out may be x."""

    def qk_norm(
        self, qkv: torch.Tensor, q_weight: torch.Tensor, k_weight: torch.Tensor, heads: int, kv: int
    ) -> None:
        """RMSNorm of each query and key head of qkv[T, (heads + 2 kv) * dim], in place."""

    def rotary(
        self, qkv: torch.Tensor, table: torch.Tensor, positions: torch.Tensor, heads: int
    ) -> None:
        """Rotates the first ``heads`` heads of each row of qkv in place.

        table [positions, dim]: cosines, then sines; positions [T] int64.
        """

    def kv_write(
        self, qkv: torch.Tensor, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """Copies the last columns of row i of qkv to keys[slots[i]] and values[slots[i]].

        keys and values [slots, kv heads, dim]; slots [T] int64, which may repeat the sink.
        """

    def silu_mul(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """out[T, w] = silu(x[:, :w]) * x[:, w:]."""

    def swiglu(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """gpt-oss: out[T, w] = (up + 1) * gate * sigmoid(1.702 * gate), both clamped at 7."""

    def route(self, logits: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor) -> None:
        """The top experts[T, k] int32 of logits[T, E], and weights[T, k] fp32: their softmax.

        Experts are different and valid whatever the logits are, NaN included.
        """

    def sort_by_expert(
        self, experts: torch.Tensor, ends: torch.Tensor, rows: torch.Tensor, places: torch.Tensor
    ) -> None:
        """Sorts the choices experts[T, k] by expert, stably; all int32.

        ends[E]: where each expert's stretch ends; rows[T * k]: the token at each place;
        places[T, k]: the place of each choice.
        """

    def grouped_mm(self, x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """Rows ends[e-1]..ends[e] of x[N, k] times weight[e] of weight[E, k, n]: [N, n]."""

    def combine(
        self, x: torch.Tensor, places: torch.Tensor, weights: torch.Tensor, out: torch.Tensor
    ) -> None:
        """out[t] = the sum over j of weights[t, j] * x[places[t, j]], in order of j."""


def kernels_for(device: torch.device) -> Kernels:
    """Triton's on a CUDA device, aten's elsewhere."""
    if device.type != "cuda":
        return plain
    from real_gpu.models.kernels import cuda  # noqa: PLC0415 (Triton is absent without CUDA)

    return cuda
