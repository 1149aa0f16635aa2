"""The scheduler's laws, against a reference that moves tokens one request at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.batch import Batch
from simcg.errors import InputError
from simcg.workload.load import utilisation
from simcg.workload.requests import Requests
from simcg.workload.scheduler import StepTime, prefill_steps
from tests.workloads import batch_row, make_requests, reference_steps, requests, rows

chunks = st.integers(1, 60)
limits = st.one_of(st.none(), st.integers(1, 5))


@st.composite
def step_times(draw: st.DrawFn) -> StepTime:
    """Affine step times, zero included."""
    fixed, each, pair = draw(st.integers(0, 20)), draw(st.integers(0, 3)), draw(st.integers(0, 1))
    return lambda n, pairs: fixed + each * n + pair * pairs


@given(requests(), chunks, limits, step_times())
def test_equals_reference(
    traffic: Requests, max_chunk: int, limit: int | None, step_ns: StepTime
) -> None:
    """Steps and their starts are those of the reference scheduler, for any input."""
    steps = prefill_steps(
        traffic, max_chunk=max_chunk, max_requests=limit, step_ns=step_ns, untimed="saturated"
    )
    expected = reference_steps(traffic, max_chunk, limit or len(traffic), step_ns)
    assert steps.start_ns is not None
    assert steps.start_ns.tolist() == [start for start, _ in expected]
    assert rows(steps) == [batch_row(batch) for _, batch in expected]


@given(requests(timed=False), chunks)
def test_alone_equals_reference(traffic: Requests, max_chunk: int) -> None:
    """Requests without times, alone, give the steps of an endlessly patient client: one a step."""
    steps = prefill_steps(traffic, max_chunk=max_chunk, step_ns=lambda _n, _p: 1)
    expected = reference_steps(traffic, max_chunk, 1, lambda _n, _p: 1)
    assert steps.start_ns is None
    assert rows(steps) == [batch_row(batch) for _, batch in expected]


@given(requests(), chunks, limits, step_times())
def test_nothing_is_lost(
    traffic: Requests, max_chunk: int, limit: int | None, step_ns: StepTime
) -> None:
    """Tokens and pairs are conserved by any chunking; steps keep within chunk and slots."""
    steps = prefill_steps(traffic, max_chunk=max_chunk, max_requests=limit, step_ns=step_ns)
    each = zip(traffic.new_tokens.tolist(), traffic.cached_tokens.tolist(), strict=True)
    whole = [Batch((q,), (c,)).pairs for q, c in each]
    assert steps.tokens.sum() == traffic.new_tokens.sum()
    assert steps.pairs.sum() == sum(whole)
    assert steps.tokens.max() <= max_chunk
    assert steps.requests.max() <= (limit or len(traffic))
    assert (steps.requests <= steps.tokens).all()
    assert (steps.count == 1).all()


@given(requests(timed=True), chunks, limits, step_times(), st.sampled_from([0.5, 1.0, 2.0]))
def test_time_order(
    traffic: Requests, max_chunk: int, limit: int | None, step_ns: StepTime, rate: float
) -> None:
    """A step starts after the one before it has ended, and after its requests have arrived."""
    steps = prefill_steps(
        traffic, max_chunk=max_chunk, max_requests=limit, step_ns=step_ns, rate=rate
    )
    assert steps.start_ns is not None
    assert traffic.arrival_ns is not None
    lasts = [
        step_ns(n, p) for n, p in zip(steps.tokens.tolist(), steps.pairs.tolist(), strict=True)
    ]
    assert (np.diff(steps.start_ns) >= lasts[:-1]).all()
    ends = np.cumsum(traffic.new_tokens)
    last_request = np.searchsorted(ends, np.cumsum(steps.tokens))
    assert (steps.start_ns >= np.rint(traffic.arrival_ns[last_request] / rate)).all()


@given(requests(timed=False), st.integers(1, 30), st.integers(1, 30))
def test_larger_chunk_never_more_steps(traffic: Requests, chunk: int, more: int) -> None:
    """With all requests waiting, a larger chunk never takes more steps, alone or together."""
    for untimed in ("alone", "saturated"):
        small, large = (
            prefill_steps(traffic, max_chunk=c, step_ns=lambda _n, _p: 1, untimed=untimed)
            for c in (chunk, chunk + more)
        )
        assert large.total <= small.total


@given(requests(timed=True), step_times())
def test_low_rate_is_one_request_a_step(traffic: Requests, step_ns: StepTime) -> None:
    """As the rate goes to 0, requests that arrive apart and fit the chunk are alone in a step."""
    assert traffic.arrival_ns is not None
    apart = make_requests(
        (np.arange(len(traffic)) * 7).tolist(),
        traffic.new_tokens.tolist(),
        traffic.cached_tokens.tolist(),
    )
    steps = prefill_steps(apart, max_chunk=40, step_ns=step_ns, rate=1e-6)
    assert (steps.requests == 1).all()
    assert steps.tokens.tolist() == apart.new_tokens.tolist()
    assert steps.context.tolist() == apart.cached_tokens.tolist()


@given(requests(timed=True), chunks)
def test_free_server_is_arrivals(traffic: Requests, max_chunk: int) -> None:
    """When steps take no time, each distinct arrival time is served on its own, in chunks."""
    steps = prefill_steps(traffic, max_chunk=max_chunk, step_ns=lambda _n, _p: 0)
    assert traffic.arrival_ns is not None
    expected = 0
    for time in np.unique(traffic.arrival_ns):
        expected += -(-int(traffic.new_tokens[traffic.arrival_ns == time].sum()) // max_chunk)
    assert steps.total == expected


def test_utilisation_of_known_queue() -> None:
    """Two steps of 30 ns for requests at 0 and 10: busy 60 of 60 ns, 50 of them after the last."""
    traffic = make_requests([0, 10], [5, 5], [0, 0])
    steps = prefill_steps(traffic, max_chunk=10, step_ns=lambda _n, _p: 30)
    load = utilisation(steps, traffic, lambda _n, _p: 30)
    assert (load.busy_ns, load.span_ns, load.arrival_span_ns, load.drain_ns) == (60, 60, 10, 50)
    assert load.busy_share == 1.0
    assert load.unstable


@given(requests(timed=True), chunks, step_times())
def test_busy_share_is_a_share(traffic: Requests, max_chunk: int, step_ns: StepTime) -> None:
    """A server is never busier than always."""
    steps = prefill_steps(traffic, max_chunk=max_chunk, step_ns=step_ns)
    load = utilisation(steps, traffic, step_ns)
    assert 0 <= load.busy_ns <= load.span_ns
    assert load.span_ns == load.arrival_span_ns + load.drain_ns


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"max_chunk": 0}, "max_chunk"),
        ({"max_requests": 0}, "max_requests"),
        ({"rate": 0.0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"rate": 1e-300}, "rate"),
        ({"untimed": "later"}, "untimed"),
        ({"step_ns": lambda _n, _p: -1}, "step_ns"),
        ({"step_ns": lambda _n, _p: 2**62}, "step_ns"),
    ],
)
def test_bad_settings_are_named(change: dict[str, object], named: str) -> None:
    """A setting that makes no sense is refused by its name."""
    traffic = make_requests([0, 5], [1, 1], [0, 0])
    settings: dict[str, object] = {"max_chunk": 4, "step_ns": lambda _n, _p: 1}
    with pytest.raises(InputError) as caught:
        prefill_steps(traffic, **(settings | change))  # type: ignore[arg-type]  # wrong on purpose
    assert caught.value.source == named
