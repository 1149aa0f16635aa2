"""The real server's loop: tokens, order, and that it takes the steps that the simulator takes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from simcg.des.serving.policy import PREFILL_FIRST, Policy
from simcg.errors import InputError
from simcg.workload.requests import Requests
from tests.serving import made_clock

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

from real_gpu.graphs.cpu import RecordingCpuDevice  # noqa: E402  # needs torch
from real_gpu.serving.model import ServedModel  # noqa: E402
from real_gpu.serving.policy import Limits, choose  # noqa: E402
from real_gpu.serving.request import Asked, asked_of  # noqa: E402
from real_gpu.serving.server import Server  # noqa: E402
from tests.served import (  # noqa: E402
    CHUNK,
    DECODE_SIZES,
    LONGEST,
    POLICIES,
    PREFILL_SIZES,
    RUNNING,
    PricedDevice,
    RecordedTimes,
    conserved,
    made_requests,
    run,
    same_run,
    simulated,
    tiny_model,
)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_the_loop_takes_the_steps_that_the_simulator_takes(policy: Policy) -> None:
    """On a device that obeys the simulator's prices, every step and token is there to the ns."""
    skipped = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        running = int(random.integers(1, 7))
        chunk = int(random.integers(running, 45))
        asked = made_requests(random, int(random.integers(1, 40)), int(random.integers(2, 2500)))
        prices = made_clock(random, chunk, running)
        device = PricedDevice(prices)
        server = Server(device, policy, Limits(chunk, running), LONGEST)
        served = server.serve(asked, clock=device)
        other, steps = simulated(prices, policy, chunk, running, asked)
        same_run(served, other, steps)
        skipped += sum(start < 0 for start, _, _ in steps)
    assert skipped, "the simulator never skipped a step"


@pytest.fixture(scope="module")
def tiny() -> ServedModel:
    """On the CPU device."""
    return tiny_model(RecordingCpuDevice(), torch.float64)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_recorded_times_give_the_recorded_steps(tiny: ServedModel, policy: Policy) -> None:
    """A real run's step times, played through the simulator, give that run."""
    asked, served = run(tiny, policy)
    same_run(served, *simulated(RecordedTimes(served), policy, CHUNK, RUNNING, asked))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_every_token_is_computed_once_and_in_order(tiny: ServedModel, policy: Policy) -> None:
    """Prompts and tokens are conserved, requests start first come first served, and time goes on;
    steps replay where a bucket holds them, in a decode bucket where all decode.
    """
    asked, served = run(tiny, policy)
    conserved(asked, served)
    for step in served.steps:
        rows = sum(step.new)
        sizes = DECODE_SIZES if step.decodes == len(step.new) else PREFILL_SIZES
        assert step.ran.bucket == min((size for size in sizes if size >= rows), default=0)
        assert rows <= CHUNK
        assert 0 < step.ran.device_ns < step.end_ns - step.start_ns
    seen = list(dict.fromkeys(r for step in served.steps for r in step.requests))
    assert seen == sorted(seen)
    assert all(a.end_ns <= b.start_ns for a, b in pairwise(served.steps))
    assert {step.ran.bucket > 0 for step in served.steps} == {True, False}


def test_tokens_do_not_depend_on_company_or_policy(tiny: ServedModel) -> None:
    """Batched, chunked, mixed and replayed, each request gets the tokens that it gets alone."""
    _, alone = run(tiny, PREFILL_FIRST, running=1)
    tokens = [session.produced for session in alone.sessions]
    assert len({tuple(one) for one in tokens}) > 1
    for policy in POLICIES:
        _, together = run(tiny, policy)
        assert [session.produced for session in together.sessions] == tokens
        assert max(len(step.requests) for step in together.steps) > 1


def test_a_stopped_run_ends_with_its_step() -> None:
    """A closed run of given length: the step under way is the last one."""
    random = np.random.default_rng(3)
    device = PricedDevice(made_clock(random, CHUNK, RUNNING))
    asked = [Asked(0, one.prompt, one.output_tokens) for one in made_requests(random, 50, 9)]
    server = Server(device, PREFILL_FIRST, Limits(CHUNK, RUNNING), LONGEST)
    whole = server.serve(asked, clock=device)
    stop = whole.steps[20].start_ns + 1
    again = PricedDevice(made_clock(np.random.default_rng(3), CHUNK, RUNNING))
    part = Server(again, PREFILL_FIRST, Limits(CHUNK, RUNNING), LONGEST).serve(asked, stop, again)
    assert part.steps == whole.steps[:21]


def test_nothing_is_chosen_without_work_and_never_more_than_a_chunk() -> None:
    """Whatever waits; a policy that mixes counts its decodes."""
    random = np.random.default_rng(0)
    for policy in POLICIES:
        assert choose(policy, CHUNK, [], 0).empty
        for _ in range(200):
            left = random.integers(1, 20, int(random.integers(0, 5))).tolist()
            decoding = int(random.integers(0, CHUNK))
            choice = choose(policy, CHUNK, left, decoding)
            beside = choice.decodes if policy.mixes else 0
            assert sum(choice.prefill) + beside <= CHUNK
            assert choice.empty == (not left and not decoding)
            assert all(n <= m for n, m in zip(choice.prefill, left, strict=False))


def test_what_cannot_be_served_is_refused() -> None:
    """A trace without times or output lengths; long requests are cut to a place of the cache."""
    lengths = np.array([9, 40], dtype=np.int64)
    none, times = np.zeros(2, dtype=np.int64), np.array([0, 5], dtype=np.int64)
    with pytest.raises(InputError, match="arrival times and output lengths"):
        asked_of(Requests(None, lengths, none, lengths, "t"), 64, LONGEST, 0)
    with pytest.raises(InputError, match="arrival times and output lengths"):
        asked_of(Requests(times, lengths, none, none, "t"), 64, LONGEST, 0)
    short, long = asked_of(Requests(times, lengths, none, lengths, "t"), 64, LONGEST, 0)
    assert (len(short.prompt), short.output_tokens) == (9, 9)
    assert (len(long.prompt), long.output_tokens) == (24, 8)
    assert all(0 < token < 64 for token in long.prompt.tolist())
