"""Built-in workloads: deterministic, stratified, and true to their tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcg.errors import InputError
from simcg.workload.builtin import UNIFORM_MOST_TOKENS, builtin_workload, workload_names
from simcg.workload.quantile_table import load_table, table_names
from simcg.workload.requests import MAX_TOKENS


def test_names() -> None:
    """The workloads that the documentation names are there."""
    assert workload_names() == (
        "azure-code",
        "azure-conv",
        "mooncake-conversation",
        "sharegpt",
        "summarization",
        "uniform",
    )


@pytest.mark.parametrize("name", table_names())
def test_tables_are_distributions(name: str) -> None:
    """Levels and quantiles ascend from end to end, rates are not negative, the licence is there."""
    table = load_table(name)
    assert (table.name, table.made_by) == (name, "scripts/make_workloads.py")
    assert table.licence in ("CC-BY-4.0", "Apache-2.0", "MIT")
    for levels in (table.levels, table.stratum_levels):
        assert (levels[0], levels[-1]) == (0.0, 1.0)
        assert (np.diff(levels) > 0).all()
    assert len(table.levels) == len(table.new_tokens) == len(table.gaps)
    assert min(table.rate) >= 0
    assert np.mean(table.rate) == pytest.approx(1, abs=1e-3)
    for column in (table.new_tokens, table.gaps, *table.cached_tokens, *table.output_tokens):
        assert (np.diff(column) >= 0).all()
        assert 0 <= column[0] <= column[-1] <= MAX_TOKENS
    for column in (*table.cached_tokens, *table.output_tokens):
        assert len(column) == len(table.stratum_levels)


@pytest.mark.parametrize("name", workload_names())
@settings(max_examples=20)
@given(count=st.integers(1, 3000), seed=st.integers(0, 2**32))
def test_draws(name: str, count: int, seed: int) -> None:
    """Any number of valid requests, the same for the same seed."""
    first, again = (builtin_workload(name, count, seed) for _ in range(2))
    assert len(first) == count
    assert np.array_equal(first.prompt_tokens, again.prompt_tokens)
    assert np.array_equal(first.cached_tokens, again.cached_tokens)
    assert np.array_equal(first.output_tokens, again.output_tokens)
    assert (first.arrival_ns is None) == (name == "uniform")
    if first.arrival_ns is not None and again.arrival_ns is not None:
        assert np.array_equal(first.arrival_ns, again.arrival_ns)


@pytest.mark.parametrize("name", table_names())
def test_seeds_change_order_not_distribution(name: str) -> None:
    """Two seeds have the same sizes in another order, up to one stratum of 1/1000."""
    first, second = (builtin_workload(name, 1000, seed).new_tokens for seed in (1, 2))
    assert not np.array_equal(first, second)
    table = load_table(name)
    levels = np.arange(1001) / 1000
    bounds = np.interp(levels, table.levels, table.new_tokens)
    for drawn in (np.sort(first), np.sort(second)):
        assert (drawn >= np.floor(bounds[:-1])).all()
        assert (drawn <= np.ceil(bounds[1:])).all()


@pytest.mark.parametrize("name", table_names())
def test_rate_does_not_depend_on_count(name: str) -> None:
    """The mean rate is the trace's for any number of requests."""
    table = load_table(name)
    rate = table.requests / table.duration_ns
    for count in (2000, 20_000):
        requests = builtin_workload(name, count, 3)
        assert requests.arrival_ns is not None
        assert count / int(requests.arrival_ns[-1]) == pytest.approx(rate, rel=0.02)


def test_uniform_is_uniform() -> None:
    """Every size from 1 to 8192 is drawn once in 8192 requests, on the grid of strata."""
    requests = builtin_workload("uniform", UNIFORM_MOST_TOKENS, 5)
    assert sorted(requests.prompt_tokens.tolist()) == list(range(1, UNIFORM_MOST_TOKENS + 1))


@pytest.mark.parametrize(("name", "count"), [("nope", 5), ("azure-conv", 0), ("uniform", 10**9)])
def test_refusals(name: str, count: int) -> None:
    """Unknown names and counts out of range are refused."""
    with pytest.raises(InputError, match=r"one of azure-code|an integer from 1"):
        builtin_workload(name, count, 0)
