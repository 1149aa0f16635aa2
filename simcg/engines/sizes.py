"""Default capture sizes of the engines, as plain functions of one limit.

Each function states a published rule in our own words; the engine and version it was read
in stand in its docstring.  All return ascending sizes without repeats.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from simcg.errors import require


def sglang_prefill_sizes(max_tokens: int) -> tuple[int, ...]:
    """Steps 4, 16, 32, 64, 256, 512, up to the maximum (SGLang 0.5.11-0.5.23).

    An off-grid maximum is not appended, so the longest steps then have no bucket.
    """
    _check(max_tokens, "max_tokens")
    grid = chain(
        range(4, 33, 4),
        range(48, 257, 16),
        range(288, 513, 32),
        range(576, 1025, 64),
        range(1280, 4097, 256),
        range(4608, max_tokens + 1, 512),
    )
    return _capped(grid, max_tokens)


def sglang_decode_sizes(max_requests: int) -> tuple[int, ...]:
    """1 2 4 8 12, steps 8, 16, 32, and the maximum itself (SGLang 0.5.11-0.5.23)."""
    _check(max_requests, "max_requests")
    grid = chain(
        (1, 2, 4, 8, 12, max_requests),
        range(16, 257, 8),
        range(272, 497, 16),
        range(512, max_requests + 1, 32),
    )
    return _capped(grid, max_requests)


def sglang_speculative_decode_sizes(max_requests: int) -> tuple[int, ...]:
    """Finer than without speculation: steps 1, 2, 4, 8, 16 (SGLang 0.5.11-0.5.23).

    That the maximum itself is appended, as without speculation, is assumed.
    """
    _check(max_requests, "max_requests")
    grid = chain(
        range(1, 9),
        range(10, 33, 2),
        range(40, 65, 4),
        range(72, 257, 8),
        range(272, max_requests + 1, 16),
        (max_requests,),
    )
    return _capped(grid, max_requests)


def vllm_sizes(
    max_num_batched_tokens: int,
    max_num_seqs: int,
    query_len: int = 1,
    is_datacenter_blackwell: bool = False,
) -> tuple[int, ...]:
    """1 2 4, step 8 below 256, step 16 up to M, and both limits if within M (vLLM 0.33).

    M = min(2 * max_num_seqs * query_len, 512 or 1024, max_num_batched_tokens).  With
    ``query_len`` > 1 each size is rounded up to a multiple and dropped if then above M.
    """
    _check(max_num_batched_tokens, "max_num_batched_tokens")
    _check(max_num_seqs, "max_num_seqs")
    _check(query_len, "query_len")
    hardware_cap = 1024 if is_datacenter_blackwell else 512
    top = min(2 * max_num_seqs * query_len, hardware_cap, max_num_batched_tokens)
    grid = chain(
        (1, 2, 4, max_num_batched_tokens, max_num_seqs),
        range(8, 256, 8),
        range(256, top + 1, 16),
    )
    return _capped((-(-size // query_len) * query_len for size in _capped(grid, top)), top)


def tensorrt_llm_decode_sizes(max_batch_size: int) -> tuple[int, ...]:
    """1 2 4, step 8 to 128, then step 64, and the maximum (TensorRT-LLM, padding on)."""
    _check(max_batch_size, "max_batch_size")
    grid = chain((1, 2, 4, max_batch_size), range(8, 129, 8), range(192, max_batch_size + 1, 64))
    return _capped(grid, max_batch_size)


def tensorrt_llm_unpadded_decode_sizes(max_batch_size: int) -> tuple[int, ...]:
    """1..31 and powers of two from 32 (TensorRT-LLM, padding off).

    A batch that equals no size runs eager: ``AdmissionRule(max_ratio=Fraction(1))``.  That
    the maximum itself is appended, as with padding on, is assumed.
    """
    _check(max_batch_size, "max_batch_size")
    powers = (1 << k for k in range(5, max_batch_size.bit_length()))
    return _capped(chain(range(1, 32), powers, (max_batch_size,)), max_batch_size)


def tensorrt_llm_prefill_sizes(max_tokens: int) -> tuple[int, ...]:
    """1..128 by doubling, 256..3072 step 256 (TensorRT-LLM).

    ``max_tokens`` = max_batch_size * (max_seq_len - 1); where it cuts the list it is
    appended.
    """
    _check(max_tokens, "max_tokens")
    grid = (*(1 << k for k in range(8)), *range(256, 3073, 256))
    return _capped((*grid, min(max_tokens, grid[-1])), max_tokens)


def tokenspeed_prefill_sizes(max_tokens: int) -> tuple[int, ...]:
    """From 16; the next step is the largest power of two <= size / 8, in 16..512 (TokenSpeed).

    That an off-grid maximum is not appended is assumed.
    """
    _check(max_tokens, "max_tokens")
    sizes = []
    size = 16
    while size <= max_tokens:
        sizes.append(size)
        size += min(max(1 << ((size // 8).bit_length() - 1), 16), 512)
    return tuple(sizes)


def _capped(sizes: Iterable[int], top: int) -> tuple[int, ...]:
    """The sizes up to ``top``, ascending, each once."""
    return tuple(sorted({size for size in sizes if size <= top}))


def _check(limit: int, name: str) -> None:
    require(limit >= 1, "ladder", name, limit, "an integer >= 1")
