"""Requests from a table with named columns: Azure LLM traces, engine exports, any CSV or JSONL."""

from __future__ import annotations

import numpy as np

from simcg.errors import InputError
from simcg.workload.columns import find_columns, unit_ns
from simcg.workload.gather import Gathered, Parser, described, gather, integers, prompt_tokens
from simcg.workload.options import ReadOptions
from simcg.workload.requests import MAX_TOKENS, Requests
from simcg.workload.table import Table
from simcg.workload.times import Times

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
"""Azure LLM inference traces of 2023 and 2024 (github.com/Azure/AzurePublicDataset)."""


def read_request_table(table: Table, options: ReadOptions) -> Requests:
    """One request a row; a missing output column means 0 (unknown), a missing cached column 0.

    Requests are in order of time. Numeric times count in the unit of the column's suffix, else in
    seconds or what their magnitude shows. Raises InputError.
    """
    columns = find_columns(table.source, table.names, options.columns)
    if options.cache_tokens is not None:
        expected = "no cache size: this input has no block hashes"
        raise InputError(table.source, "cache_tokens", options.cache_tokens, expected)
    parsers: dict[str, Parser] = {columns.prompt: prompt_tokens(options)}
    for name in (columns.output, columns.cached):
        if name is not None:
            parsers[name] = integers(0, MAX_TOKENS)
    clock, note = Times(unit_ns(columns.arrival or "")), None
    if columns.arrival is not None:
        parsers[columns.arrival] = clock.parse
    found = gather(table, parsers)
    if columns.cached is not None:
        found = _below_prompt(found, columns.prompt, columns.cached)
    if columns.arrival is not None:
        found, note = found.by_time(columns.arrival)
    data = found.columns
    zeros = np.zeros(len(found.rows), dtype=np.int64)
    return Requests(
        arrival_ns=data[columns.arrival] if columns.arrival else None,
        prompt_tokens=data[columns.prompt],
        cached_tokens=data[columns.cached] if columns.cached else zeros,
        output_tokens=data[columns.output] if columns.output else zeros,
        source=described(table, note, clock.note),
    )


def _below_prompt(found: Gathered, prompt_name: str, cached_name: str) -> Gathered:
    """The rows whose cached tokens are fewer than the prompt's."""
    prompt, cached = found.columns[prompt_name], found.columns[cached_name]

    def told(i: int) -> tuple[object, str]:
        expected = f"fewer than the prompt's {prompt[i]} tokens: at least one is computed"
        return int(cached[i]), expected

    return found.without(cached >= prompt, cached_name, told)
