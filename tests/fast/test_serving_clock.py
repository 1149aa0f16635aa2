"""The clock's tables say what the cost model says, within 1 %; runs of steps sum exactly."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from simcg.arrays import Ints
from simcg.backend import BREAKABLE, EAGER, FULL, TC_PIECEWISE, CaptureBackend
from simcg.cost.kernels import Work
from simcg.cost.ragged import PARTS
from simcg.cost.step import StepCost
from simcg.cost.table import ReplayModel
from simcg.des.serving.clock import Captured, ServingClock, serving_clock
from simcg.des.serving.lines import (
    TICK_BITS,
    TICKS_PER_NS,
    Lines,
    lines_of_rows,
    lines_through,
    value_at,
)
from simcg.hardware.catalog import load_profile
from simcg.ladder import EAGER_INDEX, AdmissionRule, Ladder, dispatch
from simcg.model.catalog import load_architecture
from simcg.model.forward import forward_pass
from tests.serving import made_clock

CHUNK, RUNNING, CONTEXT = 600, 48, 1 << 16
LADDERS = Captured(
    Ladder.of((16, 64, 128, 200, 256, 320, 512)), AdmissionRule(), Ladder.of((1, 2, 4, 8, 24))
)
SETTINGS = (
    ("qwen3-8b", "h200", 1, BREAKABLE),
    ("gpt-oss-120b", "gb300", 4, TC_PIECEWISE),
    ("qwen3-30b-a3b", "h100", 2, EAGER),
)


@cache
def priced(name: str, hardware: str, tp: int, backend: CaptureBackend) -> ReplayModel:
    arch, profile = load_architecture(name), load_profile(hardware)
    return ReplayModel(forward_pass(arch, tp=tp), profile, backend, EAGER)


@cache
def clock_of(setting: tuple[str, str, int, CaptureBackend]) -> ServingClock:
    forward = forward_pass(load_architecture(setting[0]), tp=setting[2], phase="decode")
    return serving_clock(
        priced(*setting), LADDERS, chunk=CHUNK, max_running=RUNNING, max_context=CONTEXT,
        mixes=True, decode_forward=forward,
    )  # fmt: skip


def rows_of(ladder: Ladder, n: Ints) -> tuple[Ints, Ints]:
    """Rows that run, and whether a graph does."""
    index = dispatch(ladder, AdmissionRule(), n, np.ones_like(n))
    sizes = np.array((*ladder.sizes, 0))
    return np.where(index == EAGER_INDEX, n, sizes[index]), index != EAGER_INDEX


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s[0])
def test_steps_with_prefill_cost_what_the_timeline_says(
    setting: tuple[str, str, int, CaptureBackend],
) -> None:
    """Random chunks in random contexts, alone: within 1 %, most within 0.1 %."""
    model, clock, random = priced(*setting), clock_of(setting), np.random.default_rng(3)
    n = random.integers(1, CHUNK + 1, 2_000)
    context = np.exp(random.uniform(0, np.log(CONTEXT), 2_000)).astype(np.int64)
    pairs, ones = n * context + n * (n + 1) // 2, np.ones_like(n)
    rows, replays = rows_of(LADDERS.ladder, n)
    work = Work(rows, n, ones, pairs)
    exact = np.where(replays, model.replay.times(work).ns, model.eager.times(work).ns)
    steps = zip(n.tolist(), pairs.tolist(), strict=True)
    error = np.array([clock.chunked_step(t, p, 1) for t, p in steps]) / TICKS_PER_NS / exact - 1
    assert np.abs(error).max() < 0.01
    assert np.quantile(np.abs(error), 0.9) < 0.002


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s[0])
def test_decode_steps_cost_what_the_timeline_says(
    setting: tuple[str, str, int, CaptureBackend],
) -> None:
    """Random batches over random keys, replayed and above the top: within 1 %.

    Where a measured curve falls the clock does not, which costs a few steps somewhat more.
    Kernels that read requests in one piece are priced at the effective keys of all they launch.
    """
    clock, random = clock_of(setting), np.random.default_rng(4)
    forward = forward_pass(load_architecture(setting[0]), tp=setting[2], phase="decode")
    profile = load_profile(setting[1])
    m = random.integers(1, RUNNING + 1, 2_000)
    keys = m * np.exp(random.uniform(0, np.log(CONTEXT), 2_000)).astype(np.int64)
    keys += random.integers(0, m)
    rows, replays = rows_of(LADDERS.decode_ladder, m)
    zeros = np.zeros_like(m)
    unit, reads = (PARTS, rows) if clock.widths else (1, m)
    work = Work(rows, zeros, rows, zeros, reads, keys)
    full, eager = (StepCost(forward, profile, b).times(work).ns for b in (FULL, EAGER))
    exact = np.where(replays, full, eager)
    pairs = zip(m.tolist(), (unit * keys).tolist(), strict=True)
    found = np.array([clock.decode_run(d, k, 1, None)[1] for d, k in pairs]) / TICKS_PER_NS
    error = found / exact - 1
    assert error.min() > -0.01
    assert error.max() < 0.02
    assert np.quantile(np.abs(error), 0.99) < 0.005


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s[0])
def test_mixed_steps_cost_what_the_timeline_says(
    setting: tuple[str, str, int, CaptureBackend],
) -> None:
    """Prefill and decodes in one step: within 1 % of the timeline, half of them within 0.1 %."""
    model, clock, random = priced(*setting), clock_of(setting), np.random.default_rng(5)
    n, m = random.integers(1, CHUNK - RUNNING, 2_000), random.integers(1, RUNNING + 1, 2_000)
    context, each = np.exp(random.uniform(0, np.log(CONTEXT / 4), (2, 2_000))).astype(np.int64)
    pairs, keys, ones = n * context + n * (n + 1) // 2, m * each, np.ones_like(n)
    rows, replays = rows_of(LADDERS.ladder, n + m)
    work = Work(rows, n, ones, pairs, m, keys)
    exact = np.where(replays, model.replay.times(work).ns, model.eager.times(work).ns)
    steps = zip(n.tolist(), pairs.tolist(), m.tolist(), keys.tolist(), strict=True)
    found = np.array([clock.chunked_step(t, p, 1, d, k) for t, p, d, k in steps]) / TICKS_PER_NS
    error = np.abs(found / exact - 1)
    assert error.max() < 0.01
    assert np.median(error) < 0.001


def test_a_step_of_more_requests_than_slots_is_priced_as_the_fallback() -> None:
    """With slots the number of requests decides with the rows, as dispatch has it."""
    arch, profile = load_architecture("qwen3-8b"), load_profile("h200")
    model = ReplayModel(forward_pass(arch), profile, FULL, EAGER, slots=4)
    captured = Captured(Ladder.of((64, 128), slots=4), AdmissionRule(), Ladder(()))
    limits = {"chunk": 128, "max_running": 8, "mixes": False}
    clock = serving_clock(model, captured, **limits)  # type: ignore[arg-type]
    one = np.array([100])
    work = Work(one, one, np.array([1]), np.array([5_050]))
    inside, above = (clock.chunked_step(100, 5_050, many) for many in (4, 5))
    assert above == pytest.approx(int(model.eager.times(work).ns[0]) * TICKS_PER_NS, rel=0.002)
    assert inside < above / 1.1


def test_a_run_of_decode_steps_is_the_sum_of_its_steps() -> None:
    """Whatever the horizon and limit: exact to the tick, and as few steps as pass the horizon."""
    random = np.random.default_rng(8)
    for _ in range(300):
        clock = made_clock(random, 3, 5)
        decodes, keys = int(random.integers(1, 6)), int(random.integers(1, 400))
        most = int(random.integers(1, 60))
        horizon = None if random.random() < 0.3 else int(random.integers(1, 1 << 32))
        steps, ticks, first, growth = clock.decode_run(decodes, keys, most, horizon)
        singles = [value_at(clock.decode[decodes], keys + i * decodes) for i in range(steps)]
        assert (sum(singles), singles[0]) == (ticks, first)
        assert all(b - a == growth for a, b in pairwise(singles))
        assert 1 <= steps <= most
        if horizon is not None:
            assert steps == 1 or sum(singles[:-1]) < horizon


def test_lines_pass_their_points_within_the_tolerance() -> None:
    """However few pieces are kept."""
    random = np.random.default_rng(9)
    for _ in range(200):
        xs = np.cumsum(random.integers(1, 50, 30)).tolist()
        ns = np.cumsum(random.integers(0, 90, 30) + 10).tolist()
        tolerance = float(random.choice([0.0, 0.01, 0.2]))
        lines = lines_through(xs, ns, tolerance)
        for x, y in zip(xs, ns, strict=True):
            slack = tolerance * y + 1e-3  # slopes are rounded down to a tick
            assert abs(value_at(lines, x) / TICKS_PER_NS - y) <= slack
        assert len(lines.starts) <= len(xs) - 1


def lines_of_one_row(xs: list[int], ns: list[int], tolerance: float) -> Lines:
    """One row of points, one point after the other in plain Python."""
    at, times = xs[:1], ns[:1]
    for x, time in zip(xs, ns, strict=True):
        if x > at[-1]:
            at.append(x)
            times.append(max(time, times[-1]))
    kept = [0]
    while kept[-1] < len(at) - 1:
        begin = kept[-1]
        slopes, end = (-1.0, float("inf")), begin + 1
        for i in range(begin + 1, len(at)):
            run, rise, room = at[i] - at[begin], times[i] - times[begin], tolerance * times[i]
            if slopes[0] <= rise / run <= slopes[1]:
                end = i
            slopes = max(slopes[0], (rise - room) / run), min(slopes[1], (rise + room) / run)
            if slopes[0] > slopes[1]:
                break
        kept.append(end)
    pieces = [
        (a, ((times[b] - times[a]) << TICK_BITS) // (at[b] - at[a])) for a, b in pairwise(kept)
    ]
    pieces = pieces or [(0, 0)]
    bases = ((times[a] << TICK_BITS) - slope * at[a] for a, slope in pieces)
    return Lines(tuple(at[a] for a, _ in pieces), tuple(bases), tuple(slope for _, slope in pieces))


def test_many_rows_have_the_lines_of_each_alone() -> None:
    """To the tick, with points that fall back, times that fall, and ticks beyond 64 bits."""
    random = np.random.default_rng(10)
    bent = 0
    for _ in range(300):
        shape = tuple(random.integers(1, 25, 2).tolist())
        xs = np.cumsum(random.integers(int(random.choice([-9, 0, 1])), 50, shape), axis=1)
        ns = np.cumsum(random.integers(-5, 90, shape), axis=1) + 200
        scale = int(random.choice([1, 1 << 38]))
        tolerance = float(random.choice([0.0, 0.001, 0.05, 0.2]))
        found = lines_of_rows(xs, ns * scale, tolerance)
        rows = zip(xs.tolist(), (ns * scale).tolist(), strict=True)
        assert found == [lines_of_one_row(x, time, tolerance) for x, time in rows]
        bent += sum(len(lines.starts) > 2 for lines in found)
    assert bent > 1000
