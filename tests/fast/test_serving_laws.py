"""Laws of queues that every server obeys, and published waiting times that some must have."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import pytest

from simcg.arrays import Floats, Ints
from simcg.des.serving.clock import ServingClock
from simcg.des.serving.lines import TICK_BITS, Lines, lines_through
from simcg.des.serving.policy import MIXED, PREFILL_FIRST, Policy
from simcg.des.serving.result import ServingResult, result_of
from simcg.des.serving.server import Columns, Limits, LoggedStep, Server
from simcg.des.serving.simulate import serve
from simcg.des.serving.statistics import batch_means, interval
from tests.serving import NO_LINE, columns_of, made_clock, made_columns

ONE_BY_ONE = Limits(chunk=64, max_running=1, max_requests=1, kv_blocks=64, block_tokens=1)


def service_clock(ns: Ints) -> ServingClock:
    """A step of n tokens takes ``ns[n]``, whatever else."""
    flat = [lines_through([0], [int(value)]) for value in ns]
    nothing: tuple[Lines, ...] = (NO_LINE,) * len(ns)
    return ServingClock((), (tuple(flat),), nothing, (NO_LINE, NO_LINE), (), "assumed")


def one_step_requests(seed: int, tokens: Ints, mean_gap_ns: float) -> Columns:
    """Poisson arrivals of requests that are one step each."""
    random = np.random.default_rng(seed)
    arrival = np.cumsum(random.exponential(mean_gap_ns, len(tokens)))
    return columns_of(arrival, tokens, np.zeros_like(tokens), np.ones_like(tokens))


def run(clock: ServingClock, columns: Columns) -> ServingResult:
    count = len(columns.arrival)
    server = serve(clock, PREFILL_FIRST, ONE_BY_ONE, columns, count)
    return result_of(server, warm_up=count // 10)


def pollaczek_khinchine(service_ns: Floats, mean_gap_ns: float) -> float:
    """The mean wait of M/G/1: second moment of the service over twice the idle share and gap."""
    busy = service_ns.mean() / mean_gap_ns
    return float((service_ns**2).mean() / (2 * mean_gap_ns * (1 - busy)))


@pytest.mark.parametrize("busy", [0.3, 0.7])
@pytest.mark.parametrize("kind", ["M/D/1", "M/G/1"])
def test_mean_waits_are_those_of_the_theory(kind: str, busy: float) -> None:
    """Constant and very uneven service: Pollaczek-Khinchine within the 95 % interval."""
    sizes = np.array([1]) if kind == "M/D/1" else np.array([1, 2, 40])
    ns = np.arange(65) * 1_000
    waits = []
    expected = 0.0
    for seed in range(12):
        tokens = np.random.default_rng(100 + seed).choice(sizes, 6_000)
        gap = float(sizes.mean() * 1_000 / busy)
        expected = pollaczek_khinchine(sizes * 1_000.0, gap)
        waits.append(
            float(run(service_clock(ns), one_step_requests(seed, tokens, gap)).wait_ns.mean())
        )
    found = interval(waits)
    assert found.contains(expected)
    assert found.half_width < 0.25 * expected


def test_batch_means_of_one_run_hold_the_mean() -> None:
    """Waits depend on their neighbours; the interval by batches still holds the true mean."""
    gap, held = 1_000 / 0.6, 0
    for seed in range(40):
        columns = one_step_requests(seed, np.ones(8_000, dtype=np.int64), gap)
        waits = run(service_clock(np.arange(65) * 1_000), columns).wait_ns.astype(np.float64)
        held += batch_means(waits).contains(pollaczek_khinchine(np.array([1_000.0]), gap))
    assert held >= 34  # 38 expected; fewer than 34 in one of 100 such tests


def served(seed: int, policy: Policy) -> tuple[Server, list[LoggedStep]]:
    random = np.random.default_rng(seed)
    limits = Limits(30, 6, 4, int(random.integers(16, 40)), 5)
    clock, columns = made_clock(random, 30, 6), made_columns(random, 40)
    log: list[LoggedStep] = []
    return serve(clock, policy, limits, columns, 40, log=log), log


@pytest.mark.parametrize("policy", [PREFILL_FIRST, MIXED], ids=lambda p: p.name)
def test_little(policy: Policy) -> None:
    """The queue's integral, swept event by event, is its mean times the time: over any window."""
    for seed in range(40):
        server, _ = served(seed, policy)
        result = result_of(server)
        end = int(result.finish_ns.max())
        for begin, stop in ((0, end), (end // 3, end // 2)):
            events = sorted(
                [(int(t), 1) for t in result.arrival_ns] + [(int(t), -1) for t in result.start_ns]
            )
            area = queue = 0
            before = 0
            for moment, change in [*events, (end, 0)]:
                area += queue * (max(begin, min(moment, stop)) - max(begin, min(before, stop)))
                queue, before = queue + change, moment
            assert result.mean_waiting(begin, stop) * (stop - begin) == pytest.approx(
                area, rel=1e-12
            )
        assert int((result.start_ns - result.arrival_ns).sum()) == round(
            result.mean_waiting(0, end) * end
        )


@pytest.mark.parametrize("policy", [PREFILL_FIRST, MIXED], ids=lambda p: p.name)
def test_work_is_conserved(policy: Policy) -> None:
    """The server rests only when all that has arrived is done, and starts when the next arrives."""
    rests = 0
    for seed in range(60):
        server, log = served(seed, policy)
        arrival = server.columns.arrival.tolist()
        done = sorted(server.finish)
        end = 0
        for one in log:
            if one.start_ticks > end:
                rests += 1
                moment = one.start_ticks >> TICK_BITS
                earlier = bisect_right(arrival, moment - 1)
                assert arrival[earlier] == moment
                assert bisect_right(done, end >> TICK_BITS) == earlier
            end = one.start_ticks + one.ticks
    assert rests > 50


@pytest.mark.parametrize("policy", [PREFILL_FIRST, MIXED], ids=lambda p: p.name)
def test_tokens_and_blocks_are_conserved(policy: Policy) -> None:
    """Computed: each new prompt token and each output but the last once, and what was lost again.

    At the end the cache is empty.
    """
    lost = 0
    for seed in range(60):
        server, log = served(seed, policy)
        prompt, cached, output = (np.array(c) for c in server.columns[1:])
        computed = sum(one.tokens + one.decodes * one.steps for one in log)
        tally = server.tally
        assert computed == int((prompt - cached + output - 1).sum()) + tally.recomputed_tokens
        lost += tally.recomputed_tokens
        assert server.free == server.limits.kv_blocks
        assert (server.keys, server.decodes, sum(map(abs, server.phase))) == (0, 0, 0)
        assert server.kv_peak <= server.limits.kv_blocks
    assert lost > 100


def doubled(lines: Lines) -> Lines:
    return Lines(
        lines.starts, tuple(2 * b for b in lines.bases), tuple(2 * s for s in lines.slopes)
    )


@pytest.mark.parametrize("policy", [PREFILL_FIRST, MIXED], ids=lambda p: p.name)
def test_time_has_no_unit(policy: Policy) -> None:
    """Every duration and every arrival twice as long: every time is twice as long, to the tick."""
    for seed in range(30):
        random = np.random.default_rng(seed)
        clock, columns = made_clock(random, 30, 6), made_columns(random, 30)
        slow = ServingClock(
            (), tuple(tuple(map(doubled, c)) for c in clock.chunked), clock.prefill,
            tuple(map(doubled, clock.decode)), clock.decode_attention, "assumed",
        )  # fmt: skip
        late = columns_of(2 * np.array(columns.arrival), *(np.array(c) for c in columns[1:]))
        limits = Limits(30, 6, 4, 40, 5)
        one = serve(clock, policy, limits, columns, 30)
        two = serve(slow, policy, limits, late, 30)
        assert two.now == 2 * one.now
        assert two.tally.decode == one.tally.decode


def test_more_load_keeps_a_server_busier() -> None:
    """The same requests in less time, on a server of one request at a time."""
    tokens = np.ones(2_000, dtype=np.int64)
    shares = [
        run(service_clock(np.arange(65) * 1_000), one_step_requests(1, tokens, gap)).utilisation
        for gap in (4_000.0, 2_000.0, 1_250.0, 800.0)
    ]
    assert shares == sorted(shares)
    assert shares[-1] > 0.99


def test_the_same_seed_gives_the_same_bytes() -> None:
    """Twice the same run."""
    (one, first), (two, second) = (served(5, MIXED) for _ in range(2))
    assert (one.start, one.first, one.finish, first) == (two.start, two.first, two.finish, second)
