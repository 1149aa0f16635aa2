"""Steps from a histogram: a table with the columns tokens[, requests][, context], count."""

from __future__ import annotations

import numpy as np

from simcg.arrays import Ints
from simcg.errors import require
from simcg.workload.gather import Gathered, Parser, described, gather, integers
from simcg.workload.options import ReadOptions
from simcg.workload.requests import MAX_TOKENS
from simcg.workload.steps import Steps
from simcg.workload.table import Table

_MAX_COUNT = 1 << 40
_MAX_REQUESTS_TOTAL = 1 << 60


def is_histogram(table: Table) -> bool:
    """The columns ``tokens`` and ``count``."""
    return {"tokens", "count"} <= set(table.names)


def read_histogram_table(table: Table, options: ReadOptions) -> Steps:
    """One counted kind of step a row, in the file's order, without a time axis.

    Without a column ``requests`` each step has one; without ``context`` none is cached. Pairs
    are those of requests that share tokens and context evenly, which for one request is exact.
    ``max_context`` does not apply to steps. Raises InputError.
    """
    _refuse_request_options(table, options)
    parsers: dict[str, Parser] = {
        "tokens": integers(1, MAX_TOKENS),
        "count": integers(1, _MAX_COUNT),
    }
    for name, least in (("requests", 1), ("context", 0)):
        if name in table.names:
            parsers[name] = integers(least, MAX_TOKENS)
    found = gather(table, parsers)
    if "requests" in found.columns:
        found = _with_tokens_for_all(found)
    tokens, count = found.columns["tokens"], found.columns["count"]
    requests = found.columns.get("requests", np.ones_like(tokens))
    context = found.columns.get("context", np.zeros_like(tokens))
    total = sum(count.tolist())
    require(total < _MAX_REQUESTS_TOTAL, table.source, "count", total, "fewer than 2**60 in all")
    pairs = even_pairs(tokens, requests, context)
    return Steps(tokens, requests, context, pairs, count, None, described(table))


def _with_tokens_for_all(found: Gathered) -> Gathered:
    """The rows whose requests have at least a token each."""
    tokens, requests = found.columns["tokens"], found.columns["requests"]
    return found.without(
        requests > tokens,
        "requests",
        lambda i: (int(requests[i]), f"at most the step's {tokens[i]} tokens"),
    )


def even_pairs(tokens: Ints, requests: Ints, context: Ints) -> Ints:
    """Query-key pairs if ``requests`` share ``tokens`` as evenly as integers allow, and each of
    their tokens sees the mean context (rounded down over the step).
    """
    share, more = np.divmod(tokens, requests)
    own = (requests - more) * (share * (share + 1) // 2) + more * ((share + 1) * (share + 2) // 2)
    pairs: Ints = own + tokens * context // requests
    return pairs


def _refuse_request_options(table: Table, options: ReadOptions) -> None:
    """Raise for options that only requests have."""
    for name, value in (("columns", options.columns), ("cache_tokens", options.cache_tokens)):
        require(value is None, table.source, name, value, "none: a histogram has no requests")
