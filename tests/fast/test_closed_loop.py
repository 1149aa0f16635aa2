"""A server under a benchmark: what each habit does, and that two simulators agree."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcg.arrays import Ints
from simcg.des.serving.lines import TICK_BITS
from simcg.des.serving.policy import MIXED, PREFILL_FIRST
from simcg.des.serving.server import NEVER, Columns, Limits
from simcg.des.serving.simulate import serve
from simcg.errors import InputError
from simcg.reproduce.closed_loop import ClosedLoop, Latencies
from simcg.reproduce.recipe import Recipe
from tests.loops import PLAIN, ROOMY, Priced, drawn


def run(  # noqa: PLR0913
    prompt: Ints,
    output: Ints,
    recipe: Recipe,
    prices: Priced,
    *,
    clients: int = 8,
    kv_tokens: int = ROOMY,
    think_ns: int = 0,
) -> Latencies:
    arrival = np.zeros(clients, dtype=np.int64)
    return ClosedLoop(prices, recipe, prompt, output, arrival, kv_tokens, think_ns).run()


def lengths(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def test_one_client_waits_for_nobody() -> None:
    """A first token takes the prompt's step, each other one a decode step."""
    out = run(lengths(20, 40), lengths(5, 3), PLAIN, Priced(), clients=1)
    assert out.ttft_ns.tolist() == [1000 + 200, 1000 + 400]
    assert out.tpot_ns.tolist() == [1010, 1010]


def test_long_prompts_take_several_steps() -> None:
    """Chunks fill steps; without splitting a prompt runs whole."""
    prices = Priced()
    run(lengths(150), lengths(2), PLAIN, prices, clients=1)
    assert [tokens for tokens, _, _ in prices.mixed] == [64, 64, 22]
    assert sum(pairs for _, pairs, _ in prices.mixed) == 150 * 151 // 2
    whole = Priced()
    run(lengths(150), lengths(2), replace(PLAIN, splits=False), whole, clients=1)
    assert [tokens for tokens, _, _ in whole.mixed] == [150]


@dataclass(frozen=True)
class Clock:
    """The same prices for the other simulator."""

    prices: Priced
    slot_counts: tuple[int, ...] = ()
    chunked: tuple[tuple[()], ...] = ((),)
    widths: tuple[int, ...] = ()
    pace: None = None

    def keys_of(self, ascending: list[int], later: int, total: int) -> int:
        del ascending, later
        return total

    def fits(self, requests: int) -> int:
        del requests
        return 0

    def chunked_step(
        self, tokens: int, pairs: int, requests: int, decodes: int = 0, keys: int = 0
    ) -> int:
        del requests
        return self.prices.mixed_ns(tokens, pairs, decodes, keys) << TICK_BITS

    def decode_run(
        self, decodes: int, keys: int, most: int, horizon: int | None
    ) -> tuple[int, int, int, int]:
        first = self.prices.decode_ns(decodes, keys) << TICK_BITS
        steps = most if horizon is None else min(most, -(-horizon // first)) or 1
        return steps, steps * first, first, 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.integers(1, 8), st.integers(16, 80))
def test_agrees_with_the_serving_simulator(
    seed: int, mixes: bool, clients: int, step_tokens: int
) -> None:
    """Without habits of its own it serves as simcg.des.serving does, to the nanosecond."""
    prompt, output = drawn(seed)
    recipe = replace(PLAIN, mixes=mixes, step_tokens=step_tokens, running=clients)
    ours = run(prompt, output, recipe, Priced(), clients=clients, think_ns=1)
    count = len(prompt)
    arrival = np.full(count, NEVER, dtype=np.int64)
    arrival[:clients] = 0
    zeros = np.zeros(count, dtype=np.int64)
    parts = (arrival, prompt, zeros, output)
    columns = Columns(*(array("q", part.astype(np.int64).tobytes()) for part in parts))
    limits = Limits(step_tokens, clients, step_tokens, 10**6, 1)
    clock: Any = Clock(Priced())
    server = serve(clock, MIXED if mixes else PREFILL_FIRST, limits, columns, clients)
    first, last = np.array(server.first), np.array(server.finish)
    assert (ours.ttft_ns == first - np.array(columns.arrival)).all()
    spans = (last - first) / np.maximum(output - 1, 1)
    assert np.allclose(ours.tpot_ns, spans, rtol=0, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.integers(100, 400))
def test_a_small_cache_is_never_exceeded(seed: int, reserves: bool, kv_tokens: int) -> None:
    """All requests end, and no step attends to more keys than the cache holds."""
    prompt, output = drawn(seed)
    prices = Priced()
    out = run(prompt, output, replace(PLAIN, reserves=reserves), prices, kv_tokens=kv_tokens)
    assert prices.most_keys <= kv_tokens
    assert (out.ttft_ns > 0).all()
    assert (out.tpot_ns[output > 1] > 0).all()


def test_less_memory_makes_clients_wait() -> None:
    """Time to the first token grows as the cache shrinks."""
    prompt, output = drawn(3)
    waits = [
        run(prompt, output, PLAIN, Priced(), kv_tokens=kv).ttft_ns.mean()
        for kv in (120, 240, ROOMY)
    ]
    assert waits[0] > waits[1] > waits[2]


def test_a_request_that_never_fits_is_refused() -> None:
    with pytest.raises(InputError, match=r"31 tokens, expected at most the 30 tokens"):
        run(lengths(20), lengths(11), PLAIN, Priced(), kv_tokens=30)


def test_waiting_fills_steps() -> None:
    """A server that holds small prefills back runs fewer steps with prefills, and later ones."""
    prompt, output = drawn(5, 80)
    prompt = np.minimum(prompt, 8)
    plain, patient = Priced(), Priced()
    now = run(prompt, output, PLAIN, plain)
    late = run(prompt, output, replace(PLAIN, wait_share=0.9, wait_steps=5), patient)
    assert len(patient.mixed) < len(plain.mixed)
    assert late.ttft_ns.mean() > now.ttft_ns.mean()


def test_looking_seldom_delays() -> None:
    """The queue is read every so many decode steps: first tokens come later, decodes go faster."""
    prompt, output = drawn(7, 80)
    often = run(prompt, output, PLAIN, Priced())
    seldom = run(prompt, output, replace(PLAIN, poll_steps=12), Priced())
    assert seldom.ttft_ns.mean() > often.ttft_ns.mean()
    assert seldom.tpot_ns.mean() < often.tpot_ns.mean()


def test_deciding_ahead_delays_by_a_step() -> None:
    """With one request running, the next client's prompt runs one step later."""
    prompt, output = lengths(5, 5, 5), lengths(40, 3, 3)
    ahead = run(prompt, output, replace(PLAIN, lag_steps=1), Priced(), clients=2)
    plain = run(prompt, output, PLAIN, Priced(), clients=2)
    assert ahead.ttft_ns[2] - plain.ttft_ns[2] == 1010


def test_a_thinking_client_leaves_room() -> None:
    """The clients' pause is no part of a first token, and lowers the load."""
    prompt, output = drawn(9, 80)
    busy = run(prompt, output, PLAIN, Priced(key_ns=1))
    calm = run(prompt, output, PLAIN, Priced(key_ns=1), think_ns=200_000)
    assert calm.tpot_ns.mean() < busy.tpot_ns.mean()


def test_arrivals_are_obeyed() -> None:
    """A request that comes later than all work waits for its own prompt alone."""
    arrival = np.array([0, 10**9], dtype=np.int64)
    out = ClosedLoop(Priced(), PLAIN, lengths(5, 7), lengths(3, 3), arrival, ROOMY).run()
    assert out.ttft_ns.tolist() == [1050, 1070]


def test_a_run_of_decodes_is_its_steps() -> None:
    """Prices that grow with keys: one addition for a run is off by less than a step's growth."""
    prices = Priced(key_ns=3)
    out = run(lengths(10), lengths(101), PLAIN, prices, clients=1)
    exact = sum(prices.decode_ns(1, 10 + 1 + step) for step in range(1, 101))
    assert abs(float(out.tpot_ns[0]) * 100 - exact) <= 3 * 100
