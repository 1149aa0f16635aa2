"""Bursts meet a clock that has rested: what a profile's figure changes, and what it does not."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.backend import BREAKABLE, EAGER
from simcg.cost.burst import Pace, compute_ns
from simcg.cost.kernels import Kernels, Work
from simcg.cost.step import OpTimes
from simcg.cost.table import ReplayModel
from simcg.des.serving.clock import Captured, serving_clock
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import Burst, Figure, HardwareProfile
from simcg.ladder import AdmissionRule, Ladder
from simcg.model.catalog import load_architecture
from simcg.model.lean import lean_pass
from simcg.model.ops import Gemm

PACE = Pace(1.15, 0.97, 80e6, 150e6)
rests = st.floats(0, 1)
paces = st.builds(
    lambda settled, more, fall, rise: Pace(settled + more, settled, fall, rise),
    st.floats(0.8, 1.1), st.floats(0, 0.3), st.floats(1e6, 1e9), st.floats(1e6, 1e9),
)  # fmt: skip


def with_burst(profile: HardwareProfile, pace: Pace | None) -> HardwareProfile:
    """The profile with these figures."""
    if pace is None:
        return msgspec.structs.replace(profile, burst=None)
    values = (pace.fresh, pace.settled, pace.fall_ns, pace.rise_ns)
    figures = (Figure(value, "measured", "test") for value in values)
    return msgspec.structs.replace(profile, burst=Burst(*figures))


H200 = with_burst(load_profile("h200"), None)


@given(paces, rests, st.floats(1e3, 1e9), st.floats(0, 1))
def test_a_step_runs_between_its_settled_and_its_fresh_speed(
    pace: Pace, rest: float, total: float, busy: float
) -> None:
    """And leaves the GPU between as rested as it was and where such work would settle."""
    shorter, after = pace.step(rest, total, busy * total)
    settled, fresh = (busy * total * (1 - 1 / v) for v in (pace.settled, pace.fresh))
    assert settled - 1e-6 * total <= shorter <= fresh + 1e-6 * total
    limit = (1 - busy) / pace.rise_ns / ((1 - busy) / pace.rise_ns + busy / pace.fall_ns)
    assert min(rest, limit) - 1e-9 <= after <= max(rest, limit) + 1e-9


@given(paces, st.floats(0, 1), st.floats(0, 1), st.floats(1e3, 1e9))
def test_who_rested_more_is_faster_and_stays_ahead(
    pace: Pace, one: float, other: float, total: float
) -> None:
    """A burst is never slower for a rest before it."""
    (less, less_after), (more, more_after) = (
        pace.step(rest, total, 0.9 * total) for rest in sorted((one, other))
    )
    assert less <= more + 1e-6 * total
    assert less_after <= more_after + 0.05  # the shorter step ends earlier


@given(paces, rests, st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_rest_in_two_parts_is_one_rest(pace: Pace, rest: float, a: float, b: float) -> None:
    """So runs of decode steps may be skipped; a long one restores all."""
    assert pace.rested(pace.rested(rest, a), b) == pytest.approx(pace.rested(rest, a + b))
    assert pace.rested(rest, 100 * pace.rise_ns) == pytest.approx(1)
    assert pace.rested(rest, 0) == pytest.approx(rest)


def test_a_long_burst_is_its_parts_in_the_limit() -> None:
    """The closed form against 10,000 small steps: within a thousandth of the time saved or so."""
    whole, after = PACE.step(1.0, 2e8, 1.8e8)
    rest, saved = 1.0, 0.0
    for _ in range(10_000):
        shorter, rest = PACE.step(rest, 2e4, 1.8e4)
        saved += shorter
    assert whole == pytest.approx(saved, rel=0.1)
    assert after == pytest.approx(rest, abs=0.01)


def test_products_of_many_rows_follow_the_clock_and_streams_do_not() -> None:
    """At 4,096 rows most of a step does, at 16 little; never below what operands take to move."""
    forward, n = lean_pass(load_architecture("qwen3-8b")), np.array([16, 4096])
    work = Work(n, n, np.ones_like(n), n * (n + 1) // 2)
    times, kernels = OpTimes(H200, work), Kernels(H200)
    few, many = compute_ns(forward, H200, times, PACE)
    order = np.array(forward.numbered[1])
    every = np.sum([times.of(forward.numbered[0][i]).ns for i in order.tolist()], axis=0)
    assert few < 0.25 * every[0]
    assert 0.75 * every[1] < many < every[1]
    for op in forward.numbered[0]:
        stream = kernels.stream_ns(op, work)
        assert (stream > 0).all() == isinstance(op.shape, Gemm)
        if isinstance(op.shape, Gemm):
            bytes_moved = 2 * op.shape.k * op.shape.n + 2 * n * (op.shape.k + op.shape.n)
            assert (stream >= bytes_moved / H200.gpu.memory_bandwidth.value * 1e9).all()


def test_a_profile_without_the_figure_changes_no_step() -> None:
    """And with it the tables of steps stay: only what follows the clock is added."""
    setting = Captured(Ladder.of((16, 256)), AdmissionRule(), Ladder.of((1, 4)))
    plain, bursts = (
        serving_clock(
            ReplayModel(
                lean_pass(load_architecture("qwen3-8b")), with_burst(H200, pace), BREAKABLE, EAGER
            ),
            setting, chunk=300, max_running=6, mixes=False,
        )
        for pace in (None, PACE)
    )  # fmt: skip
    assert plain.pace is None
    assert not plain.compute
    assert (plain.chunked, plain.decode, plain.prefill) == (
        bursts.chunked, bursts.decode, bursts.prefill,
    )  # fmt: skip
    (compute,) = bursts.compute
    assert compute[16] == compute[3] < compute[256] == compute[250] < compute[300]
    for tokens in (5, 200, 300):
        bound = bursts.compute_ticks(tokens, tokens * (tokens + 1) // 2, 1)
        assert 0 <= bound <= bursts.chunked_step(tokens, tokens * (tokens + 1) // 2, 1)


def test_a_burst_that_cannot_be_is_refused() -> None:
    """Speeds that do not fall, and constants that are no time."""
    good = [Figure(v, "measured", "t") for v in (1.1, 0.98, 1e8, 1e8)]
    assert math.isclose(Burst(*good).fresh.value, 1.1)
    for at, value in ((0, 0.9), (1, 0.2), (0, 3.0), (2, 0.0), (3, 1e13)):
        bad = list(good)
        bad[at] = Figure(value, "measured", "t")
        with pytest.raises(ValueError, match=r"must ascend|at least 1 ns|ns, not at most"):
            Burst(*bad)
