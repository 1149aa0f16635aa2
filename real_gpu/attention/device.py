"""What one layer's attention computes, and the kernel that a device has for it."""

from __future__ import annotations

from typing import Protocol

import torch

from real_gpu.attention.metadata import AttentionMetadata, LaunchBounds
from real_gpu.attention.reference import reference_attention
from real_gpu.attention.varlen import varlen_attention


class AttentionKernel(Protocol):
    """Causal grouped-query attention of new tokens over their requests' stretches of a cache."""

    def __call__(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        metadata: AttentionMetadata,
        bounds: LaunchBounds,
        window: int | None,
        /,
    ) -> torch.Tensor:
        """Results [rows, heads, dim] of q [rows, heads, dim]; keys, values [slots, kv heads, dim].

        The last row of a request sees all its ``key_lengths``, each row before it one key fewer,
        and only the last ``window`` of them if there is one. Rows of no request come out as
        anything, NaN included. No value is read on the host.
        """


def attention_kernel(device: torch.device) -> AttentionKernel:
    """torch's flash attention on CUDA, the reference elsewhere."""
    return varlen_attention if device.type == "cuda" else reference_attention
