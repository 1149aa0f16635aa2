"""The small fused kernels that an engine has and torch lacks, in Triton."""

# Triton compiles these bodies: their arguments are pointers and compile-time sizes, which
# Python's type system cannot describe.
from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _silu_mul(x, out, width: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    keep = column < width
    gate = tl.load(x + row * 2 * width + column, mask=keep).to(tl.float32)
    up = tl.load(x + row * 2 * width + width + column, mask=keep).to(tl.float32)
    tl.store(out + row * width + column, (gate * tl.sigmoid(gate) * up).to(tl.bfloat16), mask=keep)


@triton.jit
def _add_norm(x, residual, weight, out, width: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, block)
    keep = column < width
    at = row * width + column
    total = tl.load(x + at, mask=keep, other=0.0).to(tl.float32)
    total += tl.load(residual + at, mask=keep, other=0.0).to(tl.float32)
    tl.store(residual + at, total.to(tl.bfloat16), mask=keep)
    scale = tl.rsqrt(tl.sum(total * total) / width + 1e-6)
    gain = tl.load(weight + column, mask=keep).to(tl.float32)
    tl.store(out + at, (total * scale * gain).to(tl.bfloat16), mask=keep)


@triton.jit
def _rotary(
    qkv,
    cos,
    sin,
    heads: tl.constexpr,
    padded: tl.constexpr,
    stride: tl.constexpr,
    half: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, padded)[:, None]
    lane = tl.arange(0, half)[None, :]
    keep = (head < heads) & (lane < half)
    at = qkv + row * stride + head * (2 * half) + lane
    c = tl.load(cos + row * half + lane)
    s = tl.load(sin + row * half + lane)
    low = tl.load(at, mask=keep).to(tl.float32)
    high = tl.load(at + half, mask=keep).to(tl.float32)
    tl.store(at, (low * c - high * s).to(tl.bfloat16), mask=keep)
    tl.store(at + half, (high * c + low * s).to(tl.bfloat16), mask=keep)


@triton.jit
def _head_norm(
    qkv, weight, heads: tl.constexpr, padded: tl.constexpr, stride: tl.constexpr, dim: tl.constexpr
):
    head = tl.arange(0, padded)[:, None]
    lane = tl.arange(0, dim)[None, :]
    keep = (head < heads) & (lane < dim)
    at = qkv + tl.program_id(0).to(tl.int64) * stride + head * dim + lane
    value = tl.load(at, mask=keep, other=0.0).to(tl.float32)
    gain = tl.load(weight + lane).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, axis=1) / dim + 1e-6)
    tl.store(at, (value * scale[:, None] * gain).to(tl.bfloat16), mask=keep)


@triton.jit
def _write_rows(x, slots, cache, stride: tl.constexpr, offset: tl.constexpr, width: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, width)
    slot = tl.load(slots + row)
    tl.store(cache + slot * width + lane, tl.load(x + row * stride + offset + lane))


def silu_mul(x: torch.Tensor, out: torch.Tensor) -> None:
    """out[T, w] = silu(x[:, :w]) * x[:, w:], bf16."""
    width = out.shape[1]
    _silu_mul[(out.shape[0], triton.cdiv(width, 1024))](x, out, width, 1024)


def add_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor
) -> None:
    """residual += x; out = RMSNorm(residual) * weight; all [T, hidden], bf16."""
    width = x.shape[1]
    _add_norm[(x.shape[0],)](
        x, residual, weight, out, width, triton.next_power_of_2(width), num_warps=8
    )


def rotary(qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, heads: int) -> None:
    """Rotates the first ``heads`` heads of each row of qkv[T, width] in place.

    cos and sin are [T, head_dim / 2] fp32.
    """
    padded = triton.next_power_of_2(heads)
    _rotary[(qkv.shape[0],)](qkv, cos, sin, heads, padded, qkv.shape[1], cos.shape[1], num_warps=4)


def head_norm(qkv: torch.Tensor, weight: torch.Tensor, heads: int) -> None:
    """RMSNorm of each of the first ``heads`` heads of qkv[T, width] in place; weight [head_dim]."""
    rows, width = qkv.shape
    padded = triton.next_power_of_2(heads)
    _head_norm[(rows,)](qkv, weight, heads, padded, width, weight.shape[0], num_warps=8)


def write_rows(x: torch.Tensor, slots: torch.Tensor, cache: torch.Tensor) -> None:
    """cache[slots[i]] = the last columns of x[i]; cache [slots, a power of two of columns]."""
    width = cache.shape[1]
    _write_rows[(x.shape[0],)](x, slots, cache, x.shape[1], x.shape[1] - width, width, num_warps=4)
