"""Requests from a table with named columns: Azure LLM traces, engine exports, any CSV or JSONL."""

from __future__ import annotations

import numpy as np

from simcg.arrays import Ints
from simcg.errors import InputError
from simcg.workload.columns import find_columns, unit_ns
from simcg.workload.gather import Parser, gather, integers, prompt_tokens, since_first, times
from simcg.workload.options import ReadOptions
from simcg.workload.requests import MAX_TOKENS, Requests
from simcg.workload.table import Table

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
"""Azure LLM inference traces of 2023 and 2024 (github.com/Azure/AzurePublicDataset)."""


def read_request_table(table: Table, options: ReadOptions) -> Requests:
    """One request a row; a missing output column means 0 (unknown), a missing cached column 0.

    Numeric times count in the unit of the column's suffix, else in seconds. Raises InputError.
    """
    columns = find_columns(table.source, table.names, options.columns)
    if options.cache_tokens is not None:
        expected = "no cache size: this input has no block hashes"
        raise InputError(table.source, "cache_tokens", options.cache_tokens, expected)
    parsers: dict[str, Parser] = {columns.prompt: prompt_tokens(options)}
    for name in (columns.output, columns.cached):
        if name is not None:
            parsers[name] = integers(0, MAX_TOKENS)
    if columns.arrival is not None:
        parsers[columns.arrival] = times(unit_ns(columns.arrival))
    data = gather(table, parsers)
    arrival = columns.arrival
    prompt = data[columns.prompt]
    zeros = np.zeros(len(prompt), dtype=np.int64)
    cached = _cached(table, columns.cached, prompt, data) if columns.cached else zeros
    return Requests(
        arrival_ns=None if arrival is None else since_first(table, arrival, data[arrival]),
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=data[columns.output] if columns.output else zeros,
        source=table.source,
    )


def _cached(table: Table, name: str, prompt: Ints, data: dict[str, Ints]) -> Ints:
    """The cached column, each entry below the prompt's tokens."""
    cached = data[name]
    beyond = np.flatnonzero(cached >= prompt)
    if len(beyond):
        row = int(beyond[0])
        expected = f"fewer than the prompt's {prompt[row]} tokens: at least one is computed"
        raise table.error(row, name, int(cached[row]), expected)
    return cached
