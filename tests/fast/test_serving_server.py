"""The server equals a plain one that touches every request in every step, to the nanosecond."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simcg.des.serving.policy import MIXED, PREFILL_FIRST, Policy
from simcg.des.serving.server import Limits, LoggedStep, Server
from simcg.des.serving.simulate import serve
from simcg.des.serving.tally import Gaps
from tests.serving import PlainRun, PlainServer, made_clock, made_columns

PRICES = tuple(30 + 7 * next((edge for edge in (4, 9, 16, 30) if edge >= n), n) for n in range(50))
POLICIES = (
    PREFILL_FIRST,
    MIXED,
    PREFILL_FIRST.ending_at((4, 9, 16, 30)),
    MIXED.ending_at((4, 9, 16, 30)),
    replace(MIXED.ending_at((4, 9, 16, 30)), name="priced", prices=PRICES),
)


def both(
    seed: int, policy: Policy, *, uneven: bool = False
) -> tuple[PlainRun, Server, list[LoggedStep]]:
    """The plain run and the server on the same random traffic, limits and clock."""
    random = np.random.default_rng(seed)
    running = int(random.integers(1, 7))
    chunk = int(random.integers(running, 45))
    block = int(random.choice([1, 2, 3, 5, 16]))
    # a request has at most 79 tokens
    blocks = int(random.integers(-(-80 // block), 4 * -(-80 // block)))
    limits = Limits(chunk, running, int(random.integers(1, 9)), blocks, block)
    clock = made_clock(random, chunk, running, uneven=uneven)
    count = int(random.integers(1, 40))
    closed = int(random.integers(1, 8)) if random.random() < 0.3 else 0
    columns = made_columns(random, count, closed=closed)
    sent = min(closed, count) or count
    plain = PlainServer(clock, policy, limits, columns, sent).run()
    log: list[LoggedStep] = []
    return plain, serve(clock, policy, limits, columns, sent, log=log), log


def lives(plain: PlainRun) -> list[list[int]]:
    """Arrival, start, first and last token of each request."""
    rows = ((r.arrival, r.start, r.first, r.finish) for r in plain.requests)
    return [list(column) for column in zip(*rows, strict=True)]


def agree(plain: PlainRun, server: Server, log: list[LoggedStep]) -> None:
    """Everything that both say."""
    columns = (server.columns.arrival, server.start, server.first, server.finish)
    assert [c.tolist() for c in columns] == lives(plain)
    assert (server.now, server.env.now) == (plain.end, plain.end)
    gaps = Gaps()
    for ticks in plain.gaps:
        gaps.add(ticks, 1)
    assert server.tally.gaps.counts == gaps.counts
    assert server.tally.preemptions == plain.preemptions
    assert server.kv_peak == max(plain.used)
    assert sum(one.steps for one in log) == len(plain.steps)
    at = 0
    for one in log:
        steps = plain.steps[at : at + one.steps]
        at += one.steps
        assert one.start_ticks == steps[0][0]
        assert one.ticks == sum(ticks for _, ticks, _, _, _ in steps)
        assert {(one.tokens, one.decodes)} == {(n, m) for _, _, n, m, _ in steps}
    decode = [0] * len(server.tally.decode)
    for _, _, tokens, decodes, _ in plain.steps:
        if not tokens:
            decode[decodes] += 1
    assert server.tally.decode == decode


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_runs_of_steps_equal_their_steps_one_by_one(policy: Policy) -> None:
    """Skipping what cannot change anything changes nothing: times, gaps, blocks, preemptions."""
    preempted = skipped = 0
    for seed in range(150):
        plain, server, log = both(seed, policy)
        agree(plain, server, log)
        preempted += plain.preemptions
        skipped += len(plain.steps) - len(log)
    assert preempted > 100  # the law was tried where the cache is full
    assert skipped > 1_000


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_ragged_batches_and_bursts_are_skipped_over_as_exactly(policy: Policy) -> None:
    """The same where the longest request counts and prompts meet a clock that rests."""
    preempted = skipped = changed = 0
    for seed in range(100):
        plain, server, log = both(seed, policy, uneven=True)
        agree(plain, server, log)
        preempted += plain.preemptions
        skipped += len(plain.steps) - len(log)
        changed += server.rest < 1
    assert preempted > 50
    assert skipped > 500
    assert changed > 90
