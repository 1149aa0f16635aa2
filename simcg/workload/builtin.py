"""Built-in workloads: requests drawn from quantile tables of public traces, and a uniform one."""

from __future__ import annotations

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.errors import require
from simcg.workload.quantile_table import QuantileTable, load_table, table_names
from simcg.workload.requests import Requests

UNIFORM = "uniform"
UNIFORM_MOST_TOKENS = 8192
"""``uniform``: prompts of 1 to 8192 tokens, all equally likely, without times."""

_MOST_REQUESTS = 10_000_000


def workload_names() -> tuple[str, ...]:
    """Names that ``builtin_workload`` knows, sorted."""
    return tuple(sorted((*table_names(), UNIFORM)))


def builtin_workload(name: str, num_requests: int | None = None, seed: int = 0) -> Requests:
    """``num_requests`` (None: as many as the trace) like those of the named trace.

    Stratified: each column holds its distribution's quantiles, in an order that ``seed`` shuffles,
    so two seeds differ in order and hardly in distribution. The trace's course of the rate is
    stretched to the number of requests, at its mean rate. Kept: the distribution of new tokens;
    cached and output tokens given those; rate and burstiness. Lost: which requests follow which
    (sessions), and the link between sizes and times. Raises InputError for an unknown name.
    """
    if name == UNIFORM:
        return _uniform(10_000 if num_requests is None else num_requests, seed)
    table = load_table(name)
    count = table.requests if num_requests is None else num_requests
    _check_count(count)
    random = np.random.default_rng(seed)
    ranks = random.permutation(_stratified(count, random))
    new = _at(ranks, table.levels, table.new_tokens)
    cached = _given(ranks, table, table.cached_tokens, random)
    output = _given(ranks, table, table.output_tokens, random)
    return Requests(_arrivals(table, count, random), new + cached, cached, output, _source(table))


def _check_count(count: int) -> None:
    inside = 1 <= count <= _MOST_REQUESTS
    require(inside, "num_requests", "", count, f"an integer from 1 to {_MOST_REQUESTS}")


def _source(table: QuantileTable) -> str:
    return f"built-in {table.name}: drawn from quantiles of {table.source}"


def _uniform(count: int, seed: int) -> Requests:
    _check_count(count)
    random = np.random.default_rng(seed)
    ranks = random.permutation(_stratified(count, random))
    prompt = 1 + np.floor(ranks * UNIFORM_MOST_TOKENS).astype(np.int64)
    zeros = np.zeros(count, dtype=np.int64)
    source = f"built-in {UNIFORM}: prompts of 1 to {UNIFORM_MOST_TOKENS} tokens"
    return Requests(None, prompt, zeros, zeros, source)


def _stratified(count: int, random: np.random.Generator) -> Floats:
    """One number from each of ``count`` equal parts of [0, 1), ascending."""
    return (np.arange(count) + random.random(count)) / count


def _at(ranks: Floats, levels: tuple[float, ...], values: tuple[int, ...]) -> Ints:
    """The quantiles at ``ranks``, linear between the knots, rounded."""
    return np.rint(np.interp(ranks, levels, values)).astype(np.int64)


def _given(
    ranks: Floats,
    table: QuantileTable,
    strata: tuple[tuple[int, ...], ...],
    random: np.random.Generator,
) -> Ints:
    """A column drawn within the stratum that each request's rank of new tokens falls into."""
    out = np.zeros(len(ranks), dtype=np.int64)
    stratum = (ranks * len(strata)).astype(np.int64)
    for index, quantiles in enumerate(strata):
        members = np.flatnonzero(stratum == index)
        inside = random.permutation(_stratified(len(members), random))
        out[members] = _at(inside, table.stratum_levels, quantiles)
    return out


def _arrivals(table: QuantileTable, count: int, random: np.random.Generator) -> Ints:
    """Arrival times: gaps in shuffled order, then time stretched where the rate is low."""
    gaps = np.interp(random.permutation(_stratified(count, random)), table.levels, table.gaps)
    gaps[0] = 0.0
    elapsed = np.cumsum(gaps)
    progress = elapsed / max(float(elapsed[-1]), 1e-9)
    arrived = np.concatenate([[0.0], np.cumsum(table.rate)]) / sum(table.rate)
    windows = np.linspace(0, table.duration_ns * (count / table.requests), len(arrived))
    times = np.rint(np.interp(progress, arrived, windows)).astype(np.int64)
    relative: Ints = times - times[0]
    return relative
