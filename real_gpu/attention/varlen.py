"""torch's own variable-length flash attention over the flat cache: the CUDA kernel."""

from __future__ import annotations

import torch

from real_gpu.attention.metadata import AttentionMetadata, LaunchBounds


def varlen_attention(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    metadata: AttentionMetadata,
    bounds: LaunchBounds,
    window: int | None,
) -> torch.Tensor:
    """See ``AttentionKernel``; fp16 and bf16 only.

    The op's causal mask is aligned at the last key of each request, which is what a prefix in
    the cache needs. The longest query and key size its grid: a graph bakes them in.
    """
    result: torch.Tensor = torch.ops.aten._flash_attention_forward(
        q, keys, values, metadata.query_ends, metadata.key_starts,
        bounds.longest_query, bounds.longest_key, 0.0, True, False,
        window_size_left=None if window is None else window - 1,
        window_size_right=None if window is None else 0,
        seqused_k=metadata.key_lengths,
    )[0]  # fmt: skip
    return result
