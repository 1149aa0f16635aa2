"""Routing, sorting by expert and the weighted sum in Triton; torch's own grouped product.

No atomics: equal inputs give equal bits, in a graph as outside.
"""

# Triton compiles these bodies: their arguments are pointers and compile-time sizes, which
# Python's type system cannot describe.
from __future__ import annotations

import torch
import triton
import triton.language as tl

from real_gpu.models.kernels.plain import LOWEST
from real_gpu.models.kernels.triton_rows import power_of_two

COLUMNS = 1024
"""Columns of one program of the weighted sum."""
CHOICES = 1024
"""Choices that a program of the sort looks at together."""


@triton.jit
def _route(
    logits,
    experts,
    weights,
    lowest: tl.constexpr,
    count: tl.constexpr,
    padded: tl.constexpr,
    top_k: tl.constexpr,
    padded_k: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, padded)
    choice = tl.arange(0, padded_k)
    left = tl.load(logits + row * count + lane, mask=lane < count, other=0.0).to(tl.float32)
    left = tl.where(left > lowest, left, lowest)  # NaN compares false
    left = tl.where(lane < count, left, float("-inf"))
    picked = tl.zeros((padded_k,), tl.int32)
    score = tl.full((padded_k,), float("-inf"), tl.float32)
    for j in tl.static_range(top_k):
        best = tl.max(left, axis=0)
        index = tl.min(tl.where(left == best, lane, padded), axis=0)
        picked = tl.where(choice == j, index, picked)
        score = tl.where(choice == j, best, score)
        left = tl.where(lane == index, float("-inf"), left)
    share = tl.exp(score - tl.max(score, axis=0))
    share = share / tl.sum(share, axis=0)
    at = row * top_k + choice
    tl.store(experts + at, picked, mask=choice < top_k)
    tl.store(weights + at, share, mask=choice < top_k)


@triton.jit(do_not_specialize=["choices"])
def _sort_by_expert(experts, ends, rows, places, choices, top_k: tl.constexpr, block: tl.constexpr):
    mine = tl.program_id(0)
    lane = tl.arange(0, block)
    before = tl.zeros((block,), tl.int32)
    for begin in range(0, choices, block):
        at = begin + lane
        expert = tl.load(experts + at, mask=at < choices, other=2147483647)
        before += (expert < mine).to(tl.int32)
    end = tl.sum(before, axis=0)
    for begin in range(0, choices, block):
        at = begin + lane
        expert = tl.load(experts + at, mask=at < choices, other=2147483647)
        hit = expert == mine
        place = end + tl.cumsum(hit.to(tl.int32), axis=0) - 1
        tl.store(rows + place, at // top_k, mask=hit)
        tl.store(places + at, place, mask=hit)
        end += tl.sum(hit.to(tl.int32), axis=0)
    tl.store(ends + mine, end)


@triton.jit
def _combine(
    x, places, weights, out, width: tl.constexpr, top_k: tl.constexpr, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    keep = column < width
    total = tl.zeros((block,), tl.float32)
    for j in tl.static_range(top_k):
        place = tl.load(places + row * top_k + j).to(tl.int64)
        share = tl.load(weights + row * top_k + j)
        value = tl.load(x + place * width + column, mask=keep, other=0.0)
        total += share * value.to(tl.float32)
    tl.store(out + row * width + column, total.to(out.dtype.element_ty), mask=keep)


def route(logits: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor) -> None:
    """See ``Kernels.route``."""
    rows, count = logits.shape
    top_k = experts.shape[1]
    padded, padded_k = power_of_two(count), power_of_two(top_k)
    _route[(rows,)](logits, experts, weights, LOWEST, count, padded, top_k, padded_k, num_warps=1)


def sort_by_expert(
    experts: torch.Tensor, ends: torch.Tensor, rows: torch.Tensor, places: torch.Tensor
) -> None:
    """See ``Kernels.sort_by_expert``; one program an expert reads all choices twice."""
    tokens, top_k = experts.shape
    _sort_by_expert[(ends.shape[0],)](
        experts, ends, rows, places, tokens * top_k, top_k, CHOICES, num_warps=4
    )


def grouped_mm(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """See ``Kernels.grouped_mm``; bf16 only, rows of weight[e].T are contiguous."""
    # torch has no public name for it
    return torch._grouped_mm(x, weight, offs=ends, out_dtype=x.dtype)


def combine(
    x: torch.Tensor, places: torch.Tensor, weights: torch.Tensor, out: torch.Tensor
) -> None:
    """See ``Kernels.combine``."""
    rows, width = out.shape
    grid = (rows, -(-width // COLUMNS))
    _combine[grid](x, places, weights, out, width, places.shape[1], COLUMNS)
