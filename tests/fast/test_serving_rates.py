"""Rates, capacity and overload: of one and the same time, and said only where runs tell."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from simcg.des.serving import Arrivals, AtOnce, Closed, Poisson, ServerConfig, Traced, simulate
from simcg.des.serving.arrivals import Process
from simcg.des.serving.lines import TICKS_PER_NS
from simcg.des.serving.overload import Load, capacity, load_of, overload
from simcg.des.serving.server import LoggedStep
from simcg.des.serving.statistics import Interval
from simcg.workload.builtin import builtin_workload
from simcg.workload.requests import Requests
from tests.serving import small_server
from tests.studies import run_cli

CONV = builtin_workload("azure-conv", 400)
CONFIG = small_server(64, 128, 256, 512)
CLOCK = CONFIG.clock()


def equal(count: int, prompt: int, output: int, gap_ns: int = 0) -> Requests:
    """Requests of one length, at equal distances."""
    return lengths([gap_ns * at for at in range(count)], [prompt] * count, [output] * count)


def lengths(arrival_ns: Sequence[int], prompt: Sequence[int], output: Sequence[int]) -> Requests:
    """Requests without cached tokens."""
    times, given, wanted = (np.array(one, dtype=np.int64) for one in (arrival_ns, prompt, output))
    return Requests(times, given, np.zeros_like(given), wanted, "made")


@pytest.mark.parametrize(
    "process", [AtOnce(), Poisson(2.0), Poisson(1e6), Closed(16), Closed(400), Traced(4.0)], ids=str
)
def test_rates_and_counts_are_of_all_requests_over_all_the_time(process: Process) -> None:
    """First arrival to last token; steps and busy time are those of the log."""
    log: list[LoggedStep] = []
    arrivals = Arrivals(CONV, process)
    result = simulate(CONFIG, arrivals, 3, clock=CLOCK, log=log)
    figures = result.summary()
    seconds = (result.finish_ns.max() - result.arrival_ns.min()) / 1e9
    assert figures["duration"] == pytest.approx(seconds)
    assert figures["output_throughput"] == pytest.approx(result.output_tokens.sum() / seconds)
    assert figures["request_throughput"] == pytest.approx(400 / seconds)
    prefill, decode = ([s for s in log if bool(s.tokens) == kind] for kind in (True, False))
    assert figures["prefill_steps"] == len(prefill)
    assert figures["decode_steps"] == sum(s.steps for s in decode)
    assert sum(result.busy_ns) == pytest.approx(sum(s.ticks for s in log) / TICKS_PER_NS)
    assert 0 < result.utilisation <= 1


@pytest.mark.parametrize("rate", [0.5, 3.0, 20.0, 200.0])
def test_no_more_is_done_than_is_offered(rate: float) -> None:
    """Of N requests at equal distances N - 1 gaps pass, so at most N / (N - 1) of the rate."""
    for count in (2, 20, 200):
        requests = equal(count, 300, 40, round(1e9 / rate))
        result = simulate(CONFIG, Arrivals(requests), 0, clock=CLOCK)
        done = result.summary()["request_throughput"]
        assert done is not None
        assert done < rate * count / (count - 1)


def test_a_burst_leaves_nobody_out() -> None:
    """All at once are all counted, in latencies too; as they come, the first tenth is not."""
    burst = simulate(CONFIG, Arrivals(CONV, AtOnce()), 1, clock=CLOCK)
    assert (len(burst.ttft_ns), burst.offered_per_s) == (400, math.inf)
    same = simulate(CONFIG, Arrivals(CONV, Closed(400)), 1, clock=CLOCK)
    assert np.array_equal(burst.finish_ns, same.finish_ns)
    assert len(simulate(CONFIG, Arrivals(CONV, Poisson(2.0)), 1, clock=CLOCK).ttft_ns) == 360


def test_capacity_is_the_rate_of_a_server_that_never_rests() -> None:
    """Requests of one step each: one over its time, to the error of the window's ends."""
    requests, clock = equal(3, 512, 1), replace(CLOCK, pace=None)  # no step faster for a rest
    step_ns = clock.chunked_step(512, 512 * 513 // 2, 1) / TICKS_PER_NS
    found = capacity(CONFIG, Arrivals(requests, AtOnce()), seed=0, clock=clock)
    assert found.mean == pytest.approx(1e9 / step_ns, rel=1e-3)
    assert found.half_width < 0.01 * found.mean


@pytest.mark.parametrize("requests", [CONV, equal(9, 700, 120)], ids=["azure", "equal"])
def test_capacity_is_that_of_a_long_burst_whatever_is_sent(requests: Requests) -> None:
    """The number of requests and their rate do not enter; a long burst is served at that rate."""
    found = {
        capacity(CONFIG, Arrivals(requests, process, count), seed=1, clock=CLOCK)
        for process, count in ((Poisson(1.0), 5), (Poisson(1e6), 64), (AtOnce(), 3_000))
    }
    (one,) = found
    burst = simulate(CONFIG, Arrivals(requests, AtOnce(), 6_000), 7, clock=CLOCK)
    done = burst.summary()["request_throughput"]
    assert done is not None
    assert one.mean == pytest.approx(done, rel=0.03)
    assert one.half_width < 0.1 * one.mean


def test_requests_that_never_fit_are_not_asked_to() -> None:
    """The traffic's tail may be too long for the cache while what is sent is not."""
    long = lengths([0, 9], [50, 9_999], [5, 5])
    small = ServerConfig(
        CONFIG.model, CONFIG.ladder, CONFIG.rule, CONFIG.decode_ladder, 512, 32, 4_000
    )
    found = capacity(small, Arrivals(long, Poisson(1.0), 1), seed=0, clock=CLOCK)
    assert found.mean > 0


@pytest.mark.parametrize("count", [8, 60, 400])
def test_overload_needs_no_long_run(count: int) -> None:
    """A rate that is known and above the capacity diverges; one far below keeps up."""
    most = capacity(CONFIG, Arrivals(CONV, AtOnce()), seed=1, clock=CLOCK).mean
    for share, diverges in ((0.5, False), (1.3, True), (1e6, True)):
        arrivals = Arrivals(CONV, Poisson(most * share), count)
        result = simulate(CONFIG, arrivals, 1, clock=CLOCK)
        load = load_of(CONFIG, arrivals, result, seed=1, clock=CLOCK)
        assert load is not None
        assert (load.overload is not None, load.keeps_up) == (diverges, not diverges)
        assert overload(CONFIG, arrivals, result, seed=1, clock=CLOCK) == load.overload


def loaded(requests: Requests, process: Process) -> Load | None:
    arrivals = Arrivals(requests, process)
    result = simulate(CONFIG, arrivals, 1, clock=CLOCK)
    return load_of(CONFIG, arrivals, result, seed=1, clock=CLOCK)


def test_what_nobody_can_tell_is_said_to_be_that() -> None:
    """One gap of a trace is no rate, equal gaps are one; a rate near the capacity is too close."""
    few = loaded(equal(2, 300, 40, 1_000), Traced())
    assert few is not None
    assert few.overload is None
    assert not few.keeps_up
    assert (few.warning or "").startswith("too short to tell whether the queue diverges: offered")
    many = loaded(equal(30, 300, 40, 1_000), Traced())
    assert many is not None
    assert many.overload is not None
    near = Load(Interval(20.0, 20.0, 20.0), Interval(19.7, 19.0, 20.4))
    assert (near.warning or "").startswith("too close to tell whether the queue diverges")
    for process in (AtOnce(), Closed(4), Traced(1e300)):
        assert loaded(CONV, process) is None


def figures(*words: str) -> tuple[str, dict[str, float | None]]:
    """What is printed, and the JSON."""
    call = ("simulate", "--max-chunk", "512", "--requests", "40", *words)
    return run_cli(*call).out, json.loads(run_cli(*call, "--json").out)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--request-rate", "inf"), "all at once"),
        (("--rate", "1e300"), "all at once"),
        (("--concurrency", "4"), "closed loop"),
        (("--request-rate", "1e308"), "offered 1e+308"),
        (("--num-prompts", "2"), "too short to tell"),
    ],
    ids=" ".join,
)
def test_the_output_says_what_is_offered(words: Sequence[str], says: str) -> None:
    """No number of hundreds of digits, no infinite interval, no line beyond 100 columns."""
    text, data = figures(*words)
    assert says in text
    assert "inf to" not in text
    assert max(map(len, text.splitlines())) <= 100
    assert data["completed"] == (2 if "--num-prompts" in words else 40)


def test_what_was_not_measured_is_a_dash() -> None:
    """One token has no time per token after it; one request no interval."""
    text, data = figures("--output-tokens", "1", "--request-rate", "4")
    rows = {line[:28].strip(): line[28:].split() for line in text.splitlines()}
    for name in ("time per output token (ms)", "between tokens (ms)"):
        assert rows[name] == ["-"] * 4
    for name in ("tpot", "itl"):
        assert [data[f"{kind}_{name}_ms"] for kind in ("mean", "median", "p99")] == [None] * 3
    text, _ = figures("--num-prompts", "1")
    assert "-inf" not in text
    assert "nan" not in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--request-rate 1e-9", "--request-rate: got 1e-09, expected arrivals within 146 years"),
        ("--request-rate nan", "--request-rate: got nan, expected requests a second > 0"),
        ("--request-rate 1 --burstiness 1e-9", "--burstiness: got 1e-09, expected a number from"),
        ("--request-rate inf --burstiness 2", "--burstiness: got 2.0, expected a finite"),
        ("--num-prompts 0", "--num-prompts: got 0, expected an integer >= 1"),
        ("--output-tokens 0", "--output-tokens: got 0, expected 1 to"),
        ("--concurrency 0", "--concurrency: got 0, expected an integer >= 1"),
    ],
)
def test_messages_name_the_flag(words: str, says: str) -> None:
    """One line, with the name that the user typed."""
    ran = run_cli("simulate", *words.split())
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err
