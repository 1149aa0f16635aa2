"""The kernels in aten alone: what the CPU runs, and the reference of the Triton ones.

They compute in fp32, or in fp64 for fp64 inputs, and can be recorded: no host reads, no shape
that depends on a value.
"""

from __future__ import annotations

import torch

NORM_EPSILON = 1e-6
SWIGLU_ALPHA, SWIGLU_LIMIT = 1.702, 7.0  # gpt-oss
LOWEST = -3e38  # an expert's logit that is no number counts as this


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    mean = x.square().mean(-1, keepdim=True)
    return x * torch.rsqrt(mean + NORM_EPSILON) * _wide(weight)


def add_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor
) -> None:
    """See ``Kernels.add_norm``."""
    total = _wide(x) + _wide(residual)
    residual.copy_(total)
    out.copy_(_normed(total, weight))


def qk_norm(
    qkv: torch.Tensor, q_weight: torch.Tensor, k_weight: torch.Tensor, heads: int, kv: int
) -> None:
    """See ``Kernels.qk_norm``."""
    dim = q_weight.shape[0]
    by_head = qkv.view(qkv.shape[0], heads + 2 * kv, dim)
    for part, weight in (
        (by_head[:, :heads], q_weight),
        (by_head[:, heads : heads + kv], k_weight),
    ):
        part.copy_(_normed(_wide(part), weight))


def rotary(qkv: torch.Tensor, table: torch.Tensor, positions: torch.Tensor, heads: int) -> None:
    """See ``Kernels.rotary``."""
    half = table.shape[1] // 2
    angles = table.index_select(0, positions).unsqueeze(1)
    cos, sin = angles[..., :half], angles[..., half:]
    by_head = qkv.view(qkv.shape[0], -1, 2 * half)[:, :heads]
    low, high = _wide(by_head[..., :half]), _wide(by_head[..., half:])
    by_head.copy_(torch.cat((low * cos - high * sin, high * cos + low * sin), -1))


def kv_write(
    qkv: torch.Tensor, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> None:
    """See ``Kernels.kv_write``."""
    heads = keys.shape[1]
    by_head = qkv.view(qkv.shape[0], -1, keys.shape[2])
    keys.index_copy_(0, slots, by_head[:, -2 * heads : -heads])
    values.index_copy_(0, slots, by_head[:, -heads:])


def silu_mul(x: torch.Tensor, out: torch.Tensor) -> None:
    """See ``Kernels.silu_mul``."""
    width = out.shape[1]
    gate, up = _wide(x[:, :width]), _wide(x[:, width:])
    out.copy_(gate * torch.sigmoid(gate) * up)


def swiglu(x: torch.Tensor, out: torch.Tensor) -> None:
    """See ``Kernels.swiglu``."""
    width = out.shape[1]
    gate = _wide(x[:, :width]).clamp(max=SWIGLU_LIMIT)
    up = _wide(x[:, width:]).clamp(-SWIGLU_LIMIT, SWIGLU_LIMIT)
    out.copy_((up + 1) * gate * torch.sigmoid(SWIGLU_ALPHA * gate))


def route(logits: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor) -> None:
    """See ``Kernels.route``."""
    numbers = torch.nan_to_num(_wide(logits), nan=LOWEST, neginf=LOWEST)
    top = torch.topk(numbers, experts.shape[1])
    experts.copy_(top.indices)
    weights.copy_(torch.softmax(top.values, -1))


def sort_by_expert(
    experts: torch.Tensor, ends: torch.Tensor, rows: torch.Tensor, places: torch.Tensor
) -> None:
    """See ``Kernels.sort_by_expert``."""
    chosen = experts.flatten()
    order = torch.argsort(chosen, stable=True)
    rows.copy_(torch.div(order, experts.shape[1], rounding_mode="floor"))
    place = torch.arange(chosen.shape[0], device=chosen.device, dtype=places.dtype)
    places.view(-1).index_copy_(0, order, place)
    each = torch.arange(ends.shape[0], device=chosen.device, dtype=chosen.dtype)
    ends.copy_((chosen.unsqueeze(1) <= each).sum(0))


def grouped_mm(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """See ``Kernels.grouped_mm``; gathers a matrix for every row, so it is for small models."""
    row = torch.arange(x.shape[0], device=x.device, dtype=ends.dtype)
    expert = torch.searchsorted(ends, row, right=True)
    return torch.bmm(x.unsqueeze(1), weight.index_select(0, expert)).squeeze(1)


def combine(
    x: torch.Tensor, places: torch.Tensor, weights: torch.Tensor, out: torch.Tensor
) -> None:
    """See ``Kernels.combine``."""
    total = torch.zeros_like(_wide(out))
    for j in range(places.shape[1]):
        total = total + weights[:, j : j + 1] * _wide(x.index_select(0, places[:, j]))
    out.copy_(total)
