"""Which attention kernel a device has."""

from __future__ import annotations

import torch

from real_gpu.attention.attention import AttentionKernel
from real_gpu.attention.reference import reference_attention
from real_gpu.attention.varlen import varlen_attention


def attention_kernel(device: torch.device) -> AttentionKernel:
    """torch's flash attention on CUDA, the reference elsewhere."""
    return varlen_attention if device.type == "cuda" else reference_attention
