"""Counting, splitting and describing steps."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.errors import InputError
from simcg.workload.describe import describe, quantiles
from simcg.workload.load import utilisation
from simcg.workload.requests import Requests
from simcg.workload.scheduler import prefill_steps
from simcg.workload.step_sets import aggregate, split_by_time, time_blocks
from simcg.workload.steps import Steps
from tests.workloads import ints, make_requests, requests, rows


def _steps(traffic: Requests) -> Steps:
    return prefill_steps(traffic, max_chunk=16, step_ns=lambda n, _p: n)


@given(requests(), st.data())
def test_aggregate_counts(traffic: Requests, data: st.DataObject) -> None:
    """Aggregation counts equal rows exactly, in ascending order, whatever their counts were."""
    steps = _steps(traffic)
    counts = st.lists(st.integers(1, 9), min_size=len(steps.tokens), max_size=len(steps.tokens))
    count = data.draw(counts)
    counted = Steps(
        steps.tokens, steps.requests, steps.context, steps.pairs, ints(count), None, "test"
    )
    expected: Counter[tuple[int, int, int, int]] = Counter()
    for row, times in zip(rows(counted), count, strict=True):
        expected[row] += times
    once = aggregate(counted)
    assert dict(zip(rows(once), once.count.tolist(), strict=True)) == expected
    assert rows(once) == sorted(expected)
    assert rows(aggregate(once)) == rows(once)


@given(requests(timed=True), st.floats(0.01, 0.99))
def test_split_keeps_every_step(traffic: Requests, fraction: float) -> None:
    """The two parts are the whole in order, and no step of the second starts before the cut."""
    steps = _steps(traffic)
    assert steps.start_ns is not None
    if steps.start_ns[0] == steps.start_ns[-1]:
        with pytest.raises(InputError):
            split_by_time(steps, fraction)
        return
    first, last = split_by_time(steps, fraction)
    assert rows(first) + rows(last) == rows(steps)
    assert first.start_ns is not None
    assert last.start_ns is not None
    span = int(steps.start_ns[-1] - steps.start_ns[0])
    assert first.start_ns[-1] - steps.start_ns[0] <= span * fraction
    assert last.start_ns[0] - steps.start_ns[0] > int(span * fraction)


@given(requests(timed=True), st.integers(1, 12))
def test_blocks_are_equal_times(traffic: Requests, blocks: int) -> None:
    """Blocks ascend from 0, stay below their number, and steps of one start within its width."""
    steps = _steps(traffic)
    index = time_blocks(steps, blocks)
    assert steps.start_ns is not None
    assert index[0] == 0
    assert (np.diff(index) >= 0).all()
    assert index[-1] < blocks
    width = (int(steps.start_ns[-1] - steps.start_ns[0])) // blocks + 1
    assert (steps.start_ns - steps.start_ns[0] - index * width < width).all()


def test_time_is_needed() -> None:
    """Steps without times cannot be split in time, and the error says so."""
    steps = _steps(make_requests(None, [3, 4], [0, 0]))
    for split in (lambda: split_by_time(steps, 0.5), lambda: time_blocks(steps, 3)):
        with pytest.raises(InputError, match="time axis"):
            split()


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 5)), min_size=1, max_size=40))
def test_quantiles_definition(counted: list[tuple[int, int]]) -> None:
    """A quantile is the smallest value with at least that share at or below it."""
    values, counts = zip(*counted, strict=True)
    expanded = sorted(v for v, c in counted for _ in range(c))
    found = quantiles(ints(list(values)), ints(list(counts)))
    for percent, value in ((50, found.p50), (90, found.p90), (99, found.p99), (100, found.max)):
        enough = [
            v for v in expanded if 100 * sum(w <= v for w in expanded) >= percent * len(expanded)
        ]
        assert value == enough[0]
    assert found.mean == pytest.approx(np.mean(expanded))


@given(requests())
def test_description_is_json(traffic: Requests) -> None:
    """Facts survive JSON, name their kind, and count what is there."""
    steps = _steps(traffic)
    facts = describe(traffic).to_json()
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["kind"], facts["requests"], facts["output_tokens"]) == (
        "requests",
        len(traffic),
        None,
    )
    load = utilisation(steps, traffic, lambda n, _p: n) if steps.start_ns is not None else None
    of_steps = describe(steps, load).to_json()
    assert json.loads(json.dumps(of_steps)) == of_steps
    assert (of_steps["kind"], of_steps["steps"]) == ("steps", steps.total)


def test_burstiness_of_known_gaps() -> None:
    """Gaps 1 and 3: mean 2, deviation 1, so the coefficient of variation is 0.5."""
    facts = describe(make_requests([0, 1, 4], [1, 1, 1], [0, 1, 2])).to_json()
    assert facts["burstiness"] == 0.5
    assert facts["requests_per_s"] == pytest.approx(2 / 4e-9)
    assert facts["cached_share"] == pytest.approx(3 / 6)


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        (([0, 1], [1, 0], [0, 0], [0, 0]), "prompt_tokens"),
        (([0, 1], [1, 2], [0, 2], [0, 0]), "cached_tokens"),
        (([0, 1], [1, 2], [0, -1], [0, 0]), "cached_tokens"),
        (([0, 1], [1, 2], [0, 0], [0, -1]), "output_tokens"),
        (([0, 1], [1, 2**24 + 1], [0, 0], [0, 0]), "prompt_tokens"),
        (([1, 0], [1, 2], [0, 0], [0, 0]), "arrival_ns"),
        (([-1, 0], [1, 2], [0, 0], [0, 0]), "arrival_ns"),
        (([0, 1], [1], [0, 0], [0, 0]), "columns"),
    ],
)
def test_requests_refuse_nonsense(columns: tuple[list[int], ...], named: str) -> None:
    """Requests that no client can send are refused by the column's name."""
    arrival, prompt, cached, output = (ints(c) for c in columns)
    with pytest.raises(InputError) as caught:
        Requests(arrival, prompt, cached, output, "test")
    assert caught.value.where == named
