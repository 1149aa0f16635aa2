"""The same attention in plain aten operators: what the CPU runs, in graphs as outside."""

from __future__ import annotations

import torch

from real_gpu.attention.cache import SINK
from real_gpu.attention.metadata import AttentionMetadata, LaunchBounds


def reference_attention(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    metadata: AttentionMetadata,
    bounds: LaunchBounds,
    window: int | None,
) -> torch.Tensor:
    """See ``AttentionKernel``; gathers the keys of every row.

    It computes in fp64, so that narrower results do not depend on how ``bounds`` group the sums.
    Keys beyond ``bounds.longest_key`` are not seen, as a bound that is too small does. Rows of
    no request come out as NaN: whoever lets them leak is found out.
    """
    rows, heads, dim = q.shape
    kv, longest = keys.shape[1], bounds.longest_key
    slot, seen = _visible(metadata, rows, longest, window)
    gathered = [
        cache.index_select(0, slot.flatten()).view(rows, longest, kv, dim).double()
        for cache in (keys, values)
    ]
    # A foreign or unused slot may hold NaN, and 0 * NaN is NaN: what is not seen becomes 0.
    k, v = (part.masked_fill(~seen[:, :, None, None], 0.0) for part in gathered)
    grouped = q.double().reshape(rows, kv, heads // kv, dim)
    scores = torch.matmul(grouped, k.permute(0, 2, 3, 1)) / dim**0.5  # rows, kv, group, key
    shares = torch.softmax(scores.masked_fill(~seen[:, None, None, :], float("-inf")), -1)
    result = torch.matmul(shares, v.permute(0, 2, 1, 3))
    return result.reshape(rows, heads, dim).to(q.dtype)


def _visible(
    metadata: AttentionMetadata, rows: int, longest: int, window: int | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The slot of each row's i-th key [rows, longest] and whether the row sees it."""
    ends = metadata.query_ends[1:]
    row = torch.arange(rows, device=ends.device, dtype=ends.dtype)
    request = torch.searchsorted(ends, row, right=True)
    inside = request < ends.shape[0]
    request = request.clamp(max=ends.shape[0] - 1)
    length = metadata.key_lengths.index_select(0, request)
    last = length - ends.index_select(0, request) + row  # the row's own place among the keys
    key = torch.arange(longest, device=ends.device, dtype=ends.dtype)
    seen = inside[:, None] & (key <= last[:, None])
    if window is not None:
        seen = seen & (key > last[:, None] - window)
    start = metadata.key_starts.index_select(0, request)
    return torch.where(seen, start[:, None] + key, SINK), seen
