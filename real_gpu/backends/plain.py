"""Which tensors can cross a break."""

from __future__ import annotations

import torch

from real_gpu.graphs.arena import lazy_bit
from real_gpu.graphs.device import CaptureError


def refuse_unusual(tensor: torch.Tensor, what: str) -> None:
    """Raise ``CaptureError`` for a tensor that has no plain address."""
    if type(tensor) not in {torch.Tensor, torch.nn.Parameter}:
        raise CaptureError(f"{what} is a {type(tensor).__name__}, not a plain tensor")
    if tensor.layout is not torch.strided:
        raise CaptureError(
            f"{what} has layout {tensor.layout}: only strided tensors have one address"
        )
    if lazy_bit(tensor):
        raise CaptureError(
            f"{what} is a {lazy_bit(tensor)} view, which is not its memory alone: "
            "call .resolve_conj() or .resolve_neg() first, or use real arithmetic"
        )
