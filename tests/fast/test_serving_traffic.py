"""Arrivals, intervals, policies and overload: what surrounds the server."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from simcg.des.serving import (
    Arrivals,
    Closed,
    Gamma,
    OnOff,
    Poisson,
    Traced,
    simulate,
)
from simcg.des.serving.arrivals import Process
from simcg.des.serving.clock import Captured
from simcg.des.serving.compare import compare
from simcg.des.serving.memory import kv_budget
from simcg.des.serving.policy import MIXED, PREFILL_FIRST, Policy, policy_named, shortened
from simcg.des.serving.server import LoggedStep
from simcg.des.serving.statistics import batch_quantiles, interval, paired, t_quantile
from simcg.des.serving.tally import Gaps, gap_class, gap_start
from simcg.errors import InputError
from simcg.ladder import AdmissionRule, Ladder
from simcg.model.catalog import load_architecture
from simcg.workload.builtin import builtin_workload
from tests.serving import small_server
from tests.studies import run_cli

CONV = builtin_workload("azure-conv", 400)


@pytest.mark.parametrize(
    ("process", "variation"),
    [
        (Poisson(20.0), 1.0),
        (Gamma(20.0, 3.0), 3.0),
        (Gamma(20.0, 0.5), 0.5),
        (OnOff(20.0, 0.2, 0.6), 4),
    ],
    ids=str,
)
def test_random_arrivals_have_their_rate_and_burstiness(process: Process, variation: float) -> None:
    """Mean gap within 8 %, its variation as stated; on and off vary by more than Poisson."""
    gaps = np.diff(Arrivals(CONV, process, 60_000).times_ns(3)) / 1e9
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(1 / 20, rel=0.08)
    cv = float(gaps.std() / gaps.mean())
    if isinstance(process, OnOff):
        assert cv > 2.0
    else:
        assert cv == pytest.approx(variation, rel=0.05)


def test_a_closed_loop_holds_its_clients() -> None:
    """Never more in the system; every later request comes when another one is done."""
    result = simulate(small_server(64, 512), Arrivals(CONV, Closed(7)), 1)
    assert [at + 1 for at in sorted(result.finish_ns)[: 400 - 7]] == result.arrival_ns[7:].tolist()
    for moment in result.arrival_ns.tolist():
        inside = (result.arrival_ns <= moment) & (result.finish_ns > moment)
        assert int(inside.sum()) == 7 or moment > sorted(result.finish_ns)[-8]


@pytest.mark.parametrize("policy", ["prefill-first", "mixed"])
def test_a_client_that_returns_waits_for_the_step_of_the_others(policy: str) -> None:
    """Its prompt runs in the step after the one that began at its return; alone it runs at once."""
    config = small_server(64, 512, policy=policy)
    clock, waits = config.clock(), []
    for clients in (1, 2, 4, 8):
        log: list[LoggedStep] = []
        arrivals = Arrivals(CONV, Closed(clients), 60)
        result = simulate(config, arrivals, 1, clock=clock, log=log)
        steps = [(one.start_ticks / 2**20, (one.start_ticks + one.ticks) / 2**20) for one in log]
        for sent, began in zip(result.arrival_ns[clients:], result.start_ns[clients:], strict=True):
            passed = [end for start, end in steps if start < sent < end]
            assert began >= int(max(passed, default=sent))
        waits.append(float(result.wait_ns.mean()))
    assert waits[0] == 0
    assert waits == sorted(set(waits))


def test_seeds_decide_and_configurations_share_them() -> None:
    """The same seed sends the same requests to any server; another seed does not."""
    arrivals = Arrivals(CONV, Poisson(5.0))
    one = simulate(small_server(64, 512), arrivals, 1)
    two = simulate(small_server(256), arrivals, 1)
    three = simulate(small_server(64, 512), arrivals, 2)
    assert np.array_equal(one.arrival_ns, two.arrival_ns)
    assert np.array_equal(one.prompt_tokens, two.prompt_tokens)
    assert not np.array_equal(one.arrival_ns, three.arrival_ns)
    assert sorted(one.prompt_tokens) == sorted(three.prompt_tokens)


def test_common_random_numbers_see_a_difference_that_chance_hides() -> None:
    """Pair by pair the interval is far narrower than of either server alone."""
    found = compare(
        small_server(64, 128, 256, 384, 512),
        small_server(512),
        Arrivals(CONV, Poisson(4.0)),
        range(5),
        lambda result: float(result.ttft_ns.mean()),
    )
    assert found.is_significant
    assert found.difference.low > 0  # one large bucket pads
    assert found.difference.half_width < found.first.half_width / 2


def test_bucket_edges_leave_no_padding_while_more_waits() -> None:
    """Saturated, with a chunk that is no bucket: the edge policy pads the last step alone."""
    sizes = (64, 128, 300)
    padded = {}
    for name in ("prefill-first", "bucket-edge"):
        config = small_server(*sizes, policy=name)
        arrivals = Arrivals(CONV, Closed(400), output_tokens=1)
        result = simulate(config, arrivals, 1)
        padding = result.chunked_padding(config.ladder, config.rule)
        padded[name] = (padding.padded_rows, padding.steps - padding.replayed)
    assert padded["prefill-first"][1] > 800  # 512 tokens are above the ceiling of 300
    assert padded["bucket-edge"] == (0, 1)  # the last step: nothing waits behind it


@pytest.mark.parametrize(
    ("tokens", "decodes", "taken"),
    [(100, 0, 64), (64, 0, 64), (9, 0, 9), (60, 10, 54), (20, 70, 20)],
)
def test_cuts_end_at_the_largest_edge_that_fits(tokens: int, decodes: int, taken: int) -> None:
    """Decodes beside a prefill count as rows; no edge that fits leaves the chunk as it is."""
    assert MIXED.ending_at((16, 64)).cut(tokens, decodes) == taken
    assert PREFILL_FIRST.ending_at((16, 64)).cut(100, decodes) == 64
    assert sum(shortened([5, 1, 7, 9], 13)) == 13


def test_priced_cuts_are_those_that_pay() -> None:
    """Never longer in all than the whole step would be, or fewer tokens a second; else no cut."""
    random = np.random.default_rng(4)
    cuts = 0
    for _ in range(2_000):
        prices = (0, *np.cumsum(random.integers(1, 9, 80)).tolist())
        policy = Policy("any", bool(random.random() < 0.5), (8, 20, 50), prices)
        decodes = int(random.integers(0, 20))
        tokens, more = int(random.integers(1, 60)), bool(random.random() < 0.5)
        beside = decodes if policy.mixes else 0
        taken = policy.cut(tokens, decodes, more=more)
        whole, short = prices[tokens + beside], prices[taken + beside]
        if taken == tokens:
            continue
        cuts += 1
        assert taken + beside in policy.edges
        if more:
            assert taken / short > tokens / whole
        else:
            assert short + prices[tokens - taken + beside] < whole
    assert cuts > 200


def test_a_policy_that_knows_prices_makes_coarse_ladders_cheap() -> None:
    """Powers of two pad a third of the rows; splits that pay shorten the first token."""
    sizes = (256, 512, 1024, 2048, 4096)
    plain = replace(small_server(*sizes), chunk=4096)
    priced = replace(plain, policy=policy_named("bucket-edge", sizes))
    priced = priced.priced(priced.clock())
    found = compare(
        plain, priced, Arrivals(CONV, Poisson(6.0)), range(4), lambda r: float(r.ttft_ns.mean())
    )
    assert found.is_significant
    assert found.difference.high < 0


def test_quantiles_of_gaps_are_within_their_class() -> None:
    """Classes follow each other without holes and are 0.8 % wide; runs equal their gaps."""
    random = np.random.default_rng(1)
    for ticks in [*range(600), *(int(2**x) for x in random.uniform(9, 60, 2_000))]:
        at = gap_class(ticks)
        low, high = gap_start(at), gap_start(at + 1)
        assert low <= ticks < high
        assert high - low <= max(1, low / 127)
    for _ in range(200):
        first, growth = int(random.integers(1, 1 << 30)), int(random.integers(0, 1 << 24))
        steps = int(random.integers(1, 80))
        run, single = Gaps(), Gaps()
        run.add_run(first, growth, steps, 3)
        for step in range(steps):
            single.add(first + growth * step, 3)
        assert run.counts == single.counts


def test_intervals_are_students() -> None:
    """Quantiles beside scipy; a paired interval is that of the differences."""
    assert [t_quantile(n) for n in (1, 2)] == pytest.approx([12.7062, 4.30265], rel=1e-4)
    for degrees in range(3, 60):
        assert t_quantile(degrees) == pytest.approx(float(stats.t.ppf(0.975, degrees)), rel=2e-3)
    assert paired([1, 2, 4], [2, 5, 6]) == interval([1, 3, 2])
    assert math.isinf(interval([3.0]).high)
    assert batch_quantiles(np.arange(1000.0), 0.99).contains(499.5)


def test_the_budget_adds_up_and_says_what_is_short() -> None:
    """Every byte of the share goes somewhere; more graphs leave fewer tokens."""
    arch, model = load_architecture("qwen3-8b"), small_server(64).model
    limits: dict[str, Any] = {"tp": 1, "chunk": 512, "largest_eager": 0, "max_running": 32}
    few, many = (
        kv_budget(
            model, arch, Captured(Ladder.of(sizes), AdmissionRule(), Ladder.of(sizes)), **limits
        )
        for sizes in ((512,), range(1, 513))
    )
    assert many.tokens() < few.tokens()
    assert many.tokens() * many.bytes_per_token <= many.kv_bytes
    with pytest.raises(InputError, match="GiB more, for a first token"):
        kv_budget(
            model, arch, Captured(Ladder.of((64,)), AdmissionRule(), Ladder(())),
            **limits, memory_fraction=0.1,
        ).tokens()  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--request-rate 0", "--request-rate: got 0.0, expected requests a second > 0"),
        ("--rate 0", "--rate: got 0.0, expected a number > 0"),
        ("--workload uniform", "got no times, expected times"),
        ("--workload uniform --request-rate 2", "output tokens: got none, expected output lengths"),
        ("--kv-tokens 100", "expected at most the KV cache of 96 tokens"),
        ("--model llama-3.1-70b --request-rate 1", "GiB more, for a first token of the KV cache"),
        ("--concurrency 0", "--concurrency: got 0, expected an integer >= 1"),
        ("--ladder nope", "--ladder: got 'nope', expected sizes"),
        ("--engine vllm --max-num-seqs 9000", "at most the chunk of 8192"),
        ("--burstiness 2", "--request-rate beside it"),
        ("--timeline nowhere/run.json", "--timeline: got"),
    ],
)
def test_wrong_requests_are_one_line(arguments: str, says: str) -> None:
    """Exit code 2, nothing on standard output, one line that says what was expected."""
    ran = run_cli("simulate", *arguments.split())
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err


def test_text_and_json_say_the_same() -> None:
    """Figures by vLLM's names; the table within 100 columns; the same run twice the same bytes."""
    call = ("simulate", "--requests", "300", "--request-rate", "30", "--max-chunk", "512")
    text, data = run_cli(*call), run_cli(*call, "--json")
    assert data.out == run_cli(*call, "--json").out
    figures = json.loads(data.out)
    assert {"mean_ttft_ms", "median_tpot_ms", "p99_itl_ms", "request_throughput"} < set(figures)
    assert f"{figures['mean_ttft_ms']:.2f}" in text.out
    assert max(map(len, text.out.splitlines())) <= 100
    assert (figures["overload"] is not None) == ("the queue diverges" in text.out)


def test_traces_are_replayed_at_their_times() -> None:
    """Faster by the rate, in order."""
    assert CONV.arrival_ns is not None
    times = Arrivals(CONV, Traced(4.0)).times_ns(0)
    assert times == pytest.approx(CONV.arrival_ns / 4, abs=1)
