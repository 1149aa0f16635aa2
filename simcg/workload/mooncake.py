"""Requests from Mooncake traces: JSON lines with block hashes, from which prefix hits follow."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import cast

import numpy as np

from simcg.arrays import Ints
from simcg.errors import Finding, InputError
from simcg.workload.gather import Gathered, described, gather, integers, prompt_tokens
from simcg.workload.options import ReadOptions
from simcg.workload.prefix_cache import PrefixCache
from simcg.workload.requests import MAX_TOKENS, Requests
from simcg.workload.table import Table
from simcg.workload.times import Times
from simcg.workload.values import BadValueError

BLOCK_TOKENS = 512
"""Tokens per hash in the traces of github.com/kvcache-ai/Mooncake (FAST25-release)."""

_MILLISECOND_NS = 1_000_000
Hashes = Sequence[int]
_FIELDS = {"timestamp", "input_length"}


def is_mooncake(table: Table) -> bool:
    """JSON lines with ``timestamp`` and ``input_length``."""
    return table.is_json and set(table.names) >= _FIELDS


def read_mooncake(table: Table, options: ReadOptions) -> Requests:
    """One request a line; ``timestamp`` in ms, prefix hits by ``hash_ids`` where it has them.

    The cache of ``options.cache_tokens`` (None: without limit, so the most hits the trace allows)
    serves all requests in order of time, and a prompt's blocks are in it from the next request on.
    A hit shortens the prefill, by at most all but one token. Raises InputError.
    """
    clock = Times(_MILLISECOND_NS)
    parsers = {"input_length": prompt_tokens(options), "timestamp": clock.parse}
    if "output_length" in table.names:
        parsers["output_length"] = integers(0, MAX_TOKENS)
    hashes: list[Hashes] = []
    if "hash_ids" in table.names:
        parsers["hash_ids"] = lambda values: _stored(values, hashes)
    elif options.cache_tokens is not None:
        expected = "no cache size: this input has no hash_ids"
        raise InputError(table.source, "cache_tokens", options.cache_tokens, expected)
    found = gather(table, parsers)
    if "hash_ids" in found.columns:
        found = _with_all_hashes(found, hashes)
    found, note = found.by_time("timestamp")
    data = found.columns
    zeros = np.zeros(len(found.rows), dtype=np.int64)
    cached = zeros
    if "hash_ids" in data:
        prompts = [hashes[place] for place in data["hash_ids"].tolist()]
        cached = _cached_tokens(prompts, data["input_length"], options.cache_tokens)
    return Requests(
        arrival_ns=data["timestamp"],
        prompt_tokens=data["input_length"],
        cached_tokens=cached,
        output_tokens=data.get("output_length", zeros),
        source=described(table, note),
    )


def _stored(values: Sequence[object], hashes: list[Hashes]) -> Ints:
    """The places in ``hashes`` at which the values, each a prompt's blocks, are put."""
    first = len(hashes)
    for index, value in enumerate(values):
        if not isinstance(value, list) or not set(map(type, value)) <= {int}:
            raise BadValueError(index, "a list of integers, one per block of 512 tokens")
        hashes.append(_packed(cast("list[int]", value)))
    return np.arange(first, len(hashes), dtype=np.int64)


def _packed(hashes: list[int]) -> Hashes:
    """The same in a fifth of the memory: all prompts wait until they can be sorted by time."""
    try:
        return array("q", hashes)
    except OverflowError:  # beyond 64 bits
        return hashes


def _with_all_hashes(found: Gathered, hashes: Sequence[Hashes]) -> Gathered:
    """The rows that have a hash per block of their prompt."""
    prompt = found.columns["input_length"]
    blocks = np.array([len(hashes[place]) for place in found.columns["hash_ids"].tolist()])
    needed = -(-prompt // BLOCK_TOKENS)

    def told(i: int) -> tuple[object, str]:
        expected = f"{needed[i]}: one per {BLOCK_TOKENS} of {prompt[i]} tokens"
        return Finding(f"{blocks[i]} hashes"), expected

    return found.without(blocks != needed, "hash_ids", told)


def _cached_tokens(prompts: Sequence[Hashes], tokens: Ints, cache_tokens: int | None) -> Ints:
    """Tokens in the leading blocks that the cache holds, of prompts that come in this order."""
    cache = PrefixCache(None if cache_tokens is None else cache_tokens // BLOCK_TOKENS)
    hits = np.array([cache.hit_blocks(hashes) for hashes in prompts], dtype=np.int64)
    cached: Ints = np.minimum(hits * BLOCK_TOKENS, tokens - 1)
    return cached
