"""Requests from Mooncake traces: JSON lines with block hashes, from which prefix hits follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from simcg.arrays import Ints
from simcg.errors import Finding, InputError
from simcg.workload.gather import gather, integers, prompt_tokens, since_first, times
from simcg.workload.options import ReadOptions
from simcg.workload.prefix_cache import PrefixCache
from simcg.workload.requests import MAX_TOKENS, Requests
from simcg.workload.table import Table
from simcg.workload.values import BadValueError

BLOCK_TOKENS = 512
"""Tokens per hash in the traces of github.com/kvcache-ai/Mooncake (FAST25-release)."""

_MILLISECOND_NS = 1_000_000
_FIELDS = {"timestamp", "input_length"}


def is_mooncake(table: Table) -> bool:
    """JSON lines with ``timestamp`` and ``input_length``."""
    return table.is_json and set(table.names) >= _FIELDS


def read_mooncake(table: Table, options: ReadOptions) -> Requests:
    """One request a line; ``timestamp`` in ms, prefix hits by ``hash_ids`` where it has them.

    The cache of ``options.cache_tokens`` (None: without limit, so the most hits the trace allows)
    serves all requests in order, and a prompt's blocks are in it from the next request on. A hit
    shortens the prefill, by at most all but one token. Raises InputError.
    """
    parsers = {
        "input_length": prompt_tokens(options),
        "timestamp": times(_MILLISECOND_NS),
    }
    if "output_length" in table.names:
        parsers["output_length"] = integers(0, MAX_TOKENS)
    if "hash_ids" in table.names:
        capacity = None if options.cache_tokens is None else options.cache_tokens // BLOCK_TOKENS
        cache = PrefixCache(capacity)
        parsers["hash_ids"] = lambda values: _hit_blocks(values, cache)
    elif options.cache_tokens is not None:
        expected = "no cache size: this input has no hash_ids"
        raise InputError(table.source, "cache_tokens", options.cache_tokens, expected)
    data = gather(table, parsers)
    prompt = data["input_length"]
    cached = np.zeros(len(prompt), dtype=np.int64)
    if "hash_ids" in data:
        cached = _cached_tokens(table, prompt, data["hash_ids"])
    return Requests(
        arrival_ns=since_first(table, "timestamp", data["timestamp"]),
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=data.get("output_length", np.zeros(len(prompt), dtype=np.int64)),
        source=table.source,
    )


def _hit_blocks(values: Sequence[object], cache: PrefixCache) -> Ints:
    """Rows (blocks of the prompt, leading blocks in the cache), packed as one int64 each."""
    packed = np.empty(len(values), dtype=np.int64)
    for index, value in enumerate(values):
        if not isinstance(value, list) or not set(map(type, value)) <= {int}:
            raise BadValueError(index, "a list of integers, one per block of 512 tokens")
        hashes = cast("list[int]", value)
        packed[index] = (len(hashes) << 32) | cache.hit_blocks(hashes)
    return packed


def _cached_tokens(table: Table, prompt: Ints, packed: Ints) -> Ints:
    """Tokens in the leading hits; the number of hashes must fit the prompt."""
    blocks, hits = packed >> 32, packed & 0xFFFFFFFF
    expected_blocks = -(-prompt // BLOCK_TOKENS)
    wrong = np.flatnonzero(blocks != expected_blocks)
    if len(wrong):
        row = int(wrong[0])
        expected = f"{expected_blocks[row]}: one per {BLOCK_TOKENS} of {prompt[row]} tokens"
        raise table.error(row, "hash_ids", Finding(f"{blocks[row]} hashes"), expected)
    cached: Ints = np.minimum(hits * BLOCK_TOKENS, prompt - 1)
    return cached
