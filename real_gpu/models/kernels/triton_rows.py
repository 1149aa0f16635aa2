"""Norms, rotary, cache write and activations in Triton: one program a row.

Sizes of the model are compile-time constants and the number of rows is the grid, so that one
compilation serves every batch.
"""

# Triton compiles these bodies: their arguments are pointers and compile-time sizes, which
# Python's type system cannot describe.
from __future__ import annotations

import torch
import triton
import triton.language as tl

from real_gpu.models.kernels.plain import NORM_EPSILON, SWIGLU_ALPHA, SWIGLU_LIMIT

BLOCK = 1024
"""Columns of one program of an activation."""


def power_of_two(number: int) -> int:
    """The least power of two that is not below ``number`` >= 1 (Dynamo folds plain Python)."""
    return 1 << (number - 1).bit_length()


@triton.jit
def _add_norm(
    x, residual, weight, out, epsilon: tl.constexpr, width: tl.constexpr, block: tl.constexpr
):
    column = tl.arange(0, block)
    keep = column < width
    at = tl.program_id(0).to(tl.int64) * width + column
    total = tl.load(x + at, mask=keep, other=0.0).to(tl.float32)
    total += tl.load(residual + at, mask=keep, other=0.0).to(tl.float32)
    tl.store(residual + at, total.to(residual.dtype.element_ty), mask=keep)
    scale = tl.rsqrt(tl.sum(total * total, axis=0) / width + epsilon)
    gain = tl.load(weight + column, mask=keep, other=0.0).to(tl.float32)
    tl.store(out + at, (total * scale * gain).to(out.dtype.element_ty), mask=keep)


@triton.jit
def _qk_norm(
    qkv,
    q_weight,
    k_weight,
    epsilon: tl.constexpr,
    heads: tl.constexpr,
    kv: tl.constexpr,
    padded: tl.constexpr,
    dim: tl.constexpr,
    block: tl.constexpr,
):
    head = tl.arange(0, padded)[:, None]
    lane = tl.arange(0, block)[None, :]
    keep = (head < heads + kv) & (lane < dim)
    row = tl.program_id(0).to(tl.int64) * ((heads + 2 * kv) * dim)
    at = qkv + row + head * dim + lane
    value = tl.load(at, mask=keep, other=0.0).to(tl.float32)
    q_gain = tl.load(q_weight + lane, mask=lane < dim, other=0.0).to(tl.float32)
    k_gain = tl.load(k_weight + lane, mask=lane < dim, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, axis=1) / dim + epsilon)
    normed = value * scale[:, None] * tl.where(head < heads, q_gain, k_gain)
    tl.store(at, normed.to(qkv.dtype.element_ty), mask=keep)


@triton.jit
def _rotary(
    qkv,
    table,
    positions,
    heads: tl.constexpr,
    padded: tl.constexpr,
    stride: tl.constexpr,
    half: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, padded)[:, None]
    lane = tl.arange(0, block)[None, :]
    keep = (head < heads) & (lane < half)
    angles = table + tl.load(positions + row) * (2 * half) + lane
    cos = tl.load(angles, mask=lane < half, other=0.0)
    sin = tl.load(angles + half, mask=lane < half, other=0.0)
    at = qkv + row * stride + head * (2 * half) + lane
    low = tl.load(at, mask=keep, other=0.0).to(tl.float32)
    high = tl.load(at + half, mask=keep, other=0.0).to(tl.float32)
    tl.store(at, (low * cos - high * sin).to(qkv.dtype.element_ty), mask=keep)
    tl.store(at + half, (high * cos + low * sin).to(qkv.dtype.element_ty), mask=keep)


@triton.jit
def _kv_write(
    qkv, slots, keys, values, stride: tl.constexpr, width: tl.constexpr, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, block)
    keep = lane < width
    source = qkv + (row + 1) * stride - 2 * width + lane
    target = tl.load(slots + row) * width + lane
    tl.store(keys + target, tl.load(source, mask=keep), mask=keep)
    tl.store(values + target, tl.load(source + width, mask=keep), mask=keep)


@triton.jit
def _silu_mul(x, out, width: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    keep = column < width
    source = x + row * (2 * width) + column
    gate = tl.load(source, mask=keep, other=0.0).to(tl.float32)
    up = tl.load(source + width, mask=keep, other=0.0).to(tl.float32)
    product = gate * tl.sigmoid(gate) * up
    tl.store(out + row * width + column, product.to(out.dtype.element_ty), mask=keep)


@triton.jit
def _swiglu(
    x, out, alpha: tl.constexpr, limit: tl.constexpr, width: tl.constexpr, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    keep = column < width
    source = x + row * (2 * width) + column
    gate = tl.minimum(tl.load(source, mask=keep, other=0.0).to(tl.float32), limit)
    up = tl.load(source + width, mask=keep, other=0.0).to(tl.float32)
    up = tl.minimum(tl.maximum(up, -limit), limit)
    product = (up + 1) * gate * tl.sigmoid(alpha * gate)
    tl.store(out + row * width + column, product.to(out.dtype.element_ty), mask=keep)


def add_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor
) -> None:
    """See ``Kernels.add_norm``."""
    rows, width = x.shape
    block = power_of_two(width)
    _add_norm[(rows,)](x, residual, weight, out, NORM_EPSILON, width, block, num_warps=8)


def qk_norm(
    qkv: torch.Tensor, q_weight: torch.Tensor, k_weight: torch.Tensor, heads: int, kv: int
) -> None:
    """See ``Kernels.qk_norm``."""
    dim = q_weight.shape[0]
    padded, block = power_of_two(heads + kv), power_of_two(dim)
    _qk_norm[(qkv.shape[0],)](
        qkv, q_weight, k_weight, NORM_EPSILON, heads, kv, padded, dim, block, num_warps=8
    )


def rotary(qkv: torch.Tensor, table: torch.Tensor, positions: torch.Tensor, heads: int) -> None:
    """See ``Kernels.rotary``."""
    rows, stride = qkv.shape
    half = table.shape[1] // 2
    padded, block = power_of_two(heads), power_of_two(half)
    _rotary[(rows,)](qkv, table, positions, heads, padded, stride, half, block, num_warps=4)


def kv_write(
    qkv: torch.Tensor, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> None:
    """See ``Kernels.kv_write``."""
    rows, stride = qkv.shape
    width = keys.shape[1] * keys.shape[2]
    block = power_of_two(width)
    _kv_write[(rows,)](qkv, slots, keys, values, stride, width, block, num_warps=4)


def silu_mul(x: torch.Tensor, out: torch.Tensor) -> None:
    """See ``Kernels.silu_mul``."""
    rows, width = out.shape
    _silu_mul[(rows, -(-width // BLOCK))](x, out, width, BLOCK)


def swiglu(x: torch.Tensor, out: torch.Tensor) -> None:
    """See ``Kernels.swiglu``."""
    rows, width = out.shape
    grid = (rows, -(-width // BLOCK))
    _swiglu[grid](x, out, SWIGLU_ALPHA, SWIGLU_LIMIT, width, BLOCK)
