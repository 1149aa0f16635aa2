"""Every limit holds in the answer; what cannot be met is refused with the least that can."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcg.cost.startup import startup
from simcg.des.memory.pool import ladder_memory, pool_bytes, pool_curve
from simcg.errors import SimcgError
from simcg.hardware.catalog import load_profile
from simcg.optimize.evaluate import ladder_cost
from simcg.optimize.scenario import LARGEST_CHUNK, Limits, Scenario, choices, measured_sizes
from simcg.optimize.study import NEGLIGIBLE, study
from tests.costs import unmeasured
from tests.studies import MIXED, drawn, scenario_of, steps_of

SMALL = {1: 5, 3: 9, 4: 2, 6: 11, 7: 1, 9: 4}


def small(limits: Limits, engine: str = "sglang", chunk: int = 9) -> Scenario:
    """Nine sizes on a profile without curves, so that every size may be proposed."""
    found = scenario_of(
        steps_of(SMALL), limits, hardware="gb300", model="gpt-oss-20b", engine=engine,
        max_chunk=chunk, max_num_seqs=1,
    )  # fmt: skip
    return replace(found, model=replace(found.model, profile=unmeasured("gb300")))


def keeps(scenario: Scenario, sizes: tuple[int, ...]) -> bool:
    """Do these sizes satisfy the limits, as the options' help states them?"""
    limits = scenario.limits
    decode = scenario.engine.decode_sizes(scenario.max_chunk, scenario.deployment)
    named = {*limits.include, *([limits.ceiling] if limits.ceiling is not None else []), *decode}
    most = limits.max_buckets
    if most is None:
        most = max(len(scenario.default_ladder), len(named), 1)
    return (
        len(sizes) <= most
        and named <= set(sizes)
        and (limits.ceiling is None or sizes[-1] == limits.ceiling)
        and all(size % limits.align == 0 or size in named for size in sizes)
    )


@st.composite
def some_limits(draw: st.DrawFn) -> Limits:
    include = tuple(sorted(draw(st.sets(st.integers(1, 9), max_size=2))))
    top = draw(st.none() | st.integers(max(include, default=1), 9))
    needed = len({1, *include, *([top] if top else [])})  # vLLM keeps 1 for decode
    return Limits(
        max_buckets=draw(st.none() | st.integers(needed, 5)),
        ceiling=top,
        include=include,
        align=draw(st.integers(1, 3)),
    )


@settings(max_examples=25)
@given(some_limits(), st.sampled_from(["sglang", "sglang==0.5.15", "vllm"]))
def test_answer_is_the_best_of_all_ladders(limits: Limits, engine: str) -> None:
    """Among every subset of nine sizes that keeps the limits, none costs less than the answer,
    but for the share that fewer buckets may cost where their number is free.
    """
    scenario = small(limits, engine)
    ladders = [s for k in range(10) for s in combinations(range(1, 10), k) if keeps(scenario, s)]
    if not ladders:  # vLLM keeps 1 and 2 for decode, whatever the limits
        with pytest.raises(SimcgError, match="contradicts"):
            study(scenario)
        return
    result = study(scenario)
    costs = [ladder_cost(result.posed.problem, sizes) for sizes in ladders]
    least = min(costs) + result.posed.constant_ns
    answer = result.answer
    assert answer.score.ladder.sizes in ladders
    assert result.curve_ns[-1] == least
    slack = 1 + NEGLIGIBLE if limits.max_buckets is None else 1
    assert answer.cost_ns <= least * slack


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_buckets=3),
        Limits(ceiling=700),
        Limits(include=(5, 77, 901)),
        Limits(align=64),
        Limits(ceiling=1000, include=(77, 100), align=128, max_buckets=5),
        Limits(memory_bytes=160 << 20),
        Limits(memory_bytes=190 << 20, include=(300,), align=4),
        Limits(startup_ns=300_000_000_000),
        Limits(max_buckets=9, memory_bytes=200 << 20, startup_ns=99_000_000_000),
    ],
)
def test_limits_hold(limits: Limits, engine: str) -> None:
    """The answer, its half and the fewest without loss keep each limit that was given."""
    if engine == "vllm" and limits.max_buckets == 0:
        pytest.skip("vLLM's one list always has decode sizes")
    result = study(scenario_of(steps_of(MIXED), limits, engine=engine, max_num_seqs=1))
    for answer in (result.answer, result.half, result.no_loss):
        if answer is None:
            continue
        assert keeps(result.scenario, answer.score.ladder.sizes)
        assert limits.max_buckets != 0 or not answer.score.ladder.buckets
        if limits.memory_bytes is not None:
            assert answer.score.memory.device <= limits.memory_bytes
    if limits.startup_ns is not None:
        assert result.answer.score.startup.ns <= limits.startup_ns


@pytest.mark.parametrize("slots", [1, 64, 4096])
def test_memory_limit_counts_the_slots(slots: int) -> None:
    """With backend full the logits have a row a slot, and the memory limit holds all the same."""
    limit = 1500 << 20
    limits = Limits(memory_bytes=limit)
    result = study(scenario_of(steps_of(MIXED), limits, backend="full", slots=slots))
    assert 0 < result.answer.score.memory.device <= limit or not result.answer.score.ladder.buckets


@pytest.mark.parametrize(
    ("limits", "server"),
    [
        (Limits(memory_bytes=1), {}),
        (Limits(memory_bytes=1, ceiling=500), {}),
        (Limits(memory_bytes=1, include=(64, 300)), {}),
        (
            Limits(memory_bytes=1, include=(64, 300), ceiling=900),
            {"engine": "vllm", "max_num_seqs": 1},
        ),
        (Limits(memory_bytes=1, align=48), {"backend": "full"}),
    ],
)
def test_least_memory_is_feasible_and_least(limits: Limits, server: dict[str, Any]) -> None:
    """A memory limit that nothing meets names the least that does; one byte less does not."""
    with pytest.raises(SimcgError, match="--max-memory") as refused:
        study(scenario_of(steps_of(MIXED), limits, **server))
    found = re.search(r"at least (\d+) bytes", str(refused.value))
    assert found is not None
    least = int(found[1])

    def bounded(limit: int) -> Scenario:
        changed = {name: getattr(limits, name) for name in ("ceiling", "include", "align")}
        return scenario_of(steps_of(MIXED), Limits(**changed, memory_bytes=limit), **server)

    assert study(bounded(least)).answer.score.memory.device <= least
    with pytest.raises(SimcgError, match="--max-memory"):
        study(bounded(least - 1))


def test_vllm_keeps_what_decode_needs() -> None:
    """vLLM's one list serves decode too: its sizes up to a full decode batch are always kept."""
    result = study(scenario_of(steps_of(MIXED), engine="vllm"))
    default = result.default.ladder.sizes
    assert set(default) <= set(result.answer.score.ladder.sizes)  # any batch may decode
    few = study(scenario_of(steps_of(MIXED), engine="vllm", max_num_seqs=256))
    kept = {size for size in default if size <= 256}
    assert len(kept) == 35
    assert kept <= set(few.answer.score.ladder.sizes)
    for limits in (Limits(max_buckets=34), Limits(ceiling=100), Limits(max_buckets=0)):
        with pytest.raises(SimcgError, match="keeps for decode"):
            study(scenario_of(steps_of(MIXED), limits, engine="vllm"))


@pytest.mark.parametrize("include", [(64,), (700, 900, 1000)])
@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_least_startup_is_feasible_and_least(include: tuple[int, ...], engine: str) -> None:
    """A start-up limit that nothing meets names the least in ms that does; 1 ms less does not."""

    def bounded(limit_ns: int) -> Scenario:
        limits = Limits(include=include, startup_ns=limit_ns)
        return scenario_of(steps_of(MIXED), limits, engine=engine)

    with pytest.raises(SimcgError, match="--max-startup") as refused:
        study(bounded(0))
    found = re.search(r">= ([0-9.]+) seconds", str(refused.value))
    assert found is not None
    least_ns = round(float(found[1]) * 1e3) * 1_000_000
    assert study(bounded(least_ns)).answer.score.startup.ns <= least_ns
    with pytest.raises(SimcgError, match="--max-startup"):
        study(bounded(least_ns - 1_000_000))


def test_startup_limit_prices_the_gap() -> None:
    """Under a start-up limit the gap bounds what it costs; without one there is none."""
    free = study(scenario_of(drawn()))
    assert free.bound_gap == 0
    limit = startup(free.answer.score.ladder.sizes, free.scenario.model).ns // 2
    tight = study(scenario_of(drawn(), Limits(startup_ns=limit)))
    assert tight.bound_gap > 0
    assert tight.answer.score.startup.ns <= limit


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Limits(include=(512,), ceiling=256), "--ceiling 256 contradicts --include 512"),
        (
            Limits(include=(1, 2, 3), max_buckets=2),
            "--buckets 2 contradicts --include 3: 3 sizes are needed",
        ),
        (Limits(include=(1, 2), ceiling=3, max_buckets=2), "3 sizes are needed"),
        (Limits(include=(1025,)), "--include: got 1025, expected 1 to --max-chunk 1024"),
        (Limits(ceiling=1025), "--ceiling: got 1025, expected 1 to --max-chunk 1024"),
        (Limits(ceiling=0), "--ceiling: got 0"),
        (Limits(include=(-3,)), "--include: got -3"),
        (Limits(align=0), "--align: got 0"),
        (Limits(align=1025), "--align: got 1025, expected 1 to --max-chunk 1024"),
        (
            Limits(ceiling=5, max_buckets=0),
            "--buckets 0 contradicts --ceiling",
        ),
        (Limits(max_buckets=-1), "--buckets: got -1"),
    ],
)
def test_contradictions_say_which_binds(limits: Limits, says: str) -> None:
    """Limits that no ladder satisfies are refused, naming the flags and the values."""
    with pytest.raises(SimcgError) as refused:
        study(scenario_of(steps_of(MIXED), limits))
    assert says in str(refused.value)


def test_no_multiple_in_reach() -> None:
    """--align 512 and a memory limit leave the multiples that fit; the chunk is always one."""
    for memory in (None, 1 << 40):
        limits = Limits(align=512, memory_bytes=memory)
        result = study(scenario_of(steps_of(MIXED), limits))
        assert set(result.answer.score.ladder.sizes) <= {512, 1024}


def test_no_graphs_need_no_memory() -> None:
    """--buckets 0 meets every memory limit, as the refusal of a small one says."""
    result = study(scenario_of(steps_of(MIXED), Limits(max_buckets=0, memory_bytes=0)))
    assert not result.answer.score.ladder.buckets


@pytest.mark.parametrize("chunk", [0, -1, LARGEST_CHUNK + 1, 10**9])
def test_chunks_have_a_range(chunk: int) -> None:
    """A chunk below 1 or beyond the largest table is refused before anything is computed."""
    with pytest.raises(SimcgError, match=f"--max-chunk: got {chunk}, expected"):
        scenario_of(steps_of({1: 1}), max_chunk=chunk)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_rates_are_positive(rate: float) -> None:
    """Arrivals cannot be 0, infinitely or backwards times faster, with times or without."""
    for traffic in (steps_of(MIXED), drawn()):
        with pytest.raises(SimcgError, match="--rate: got"):
            scenario_of(traffic, rate=rate)


def test_rate_needs_times() -> None:
    """A rate for traffic without times would change nothing, so it is refused."""
    with pytest.raises(SimcgError, match="has no times"):
        scenario_of(steps_of(MIXED), rate=2.0)
    with pytest.raises(SimcgError, match="has no times"):
        scenario_of(drawn("uniform"), rate=2.0)


@pytest.mark.parametrize("server", [{}, {"model": "gpt-oss-120b", "hardware": "gb300", "tp": 4}])
def test_the_curve_of_pools_is_the_most_so_far(server: dict[str, Any]) -> None:
    """A larger ceiling may have a smaller pool, so a limit admits the tops below the first too
    large: the curve never falls, and it ends with that one.
    """
    scenario = scenario_of(steps_of(MIXED), max_chunk=4096, **server)
    tops = np.arange(1, 4097, 41)
    pools = np.array([pool_bytes(top, 3, scenario.model)[1] for top in tops.tolist()])
    assert (np.diff(pools) < 0).any()
    highest = np.maximum.accumulate(pools)
    assert np.array_equal(pool_curve(tops, 3, scenario.model, int(pools.max())), highest)
    half = int(pools.max()) // 2
    ended = pool_curve(tops, 3, scenario.model, half)
    assert np.array_equal(ended, highest[: len(ended)])
    assert ended[-2] <= half < ended[-1]


def test_memory_limit_leaves_the_tops_that_fit() -> None:
    """For each number of graphs the largest top is the largest whose ladder is within the limit."""
    context = round(load_profile("h200").memory.first_graph_bytes.value)
    limit = context + (38 << 20)
    scenario = small(Limits(memory_bytes=limit, max_buckets=2), chunk=600)
    bounds = choices(scenario, 2)
    assert bounds.max_buckets == 2
    one, two = bounds.top_by_count[1:]
    assert 0 < two <= one < 600
    assert ladder_memory((one,), 0, 2, scenario.model).device <= limit
    assert ladder_memory((one + 1,), 0, 2, scenario.model).device > limit
    assert ladder_memory((1, two), 0, 2, scenario.model).device <= limit
    assert ladder_memory((1, two + 1), 0, 2, scenario.model).device > limit


def test_proposed_sizes_were_measured() -> None:
    """With curves only measured sizes, the chunk, the default's and named ones are proposed; with
    --align every multiple, as few of them were measured; without curves every size.
    """
    scenario = scenario_of(steps_of(MIXED), Limits(include=(7,)), max_chunk=1000)
    measured = measured_sizes(scenario.model, 1000)
    assert measured[1000]
    assert 10 < measured.sum() < 1000
    measured[[7, *scenario.default_ladder.sizes]] = True
    assert np.array_equal(choices(scenario, 1).allowed, measured)
    aligned = scenario_of(steps_of(MIXED), Limits(align=100), max_chunk=1000)
    assert np.flatnonzero(choices(aligned, 1).allowed).tolist() == list(range(100, 1001, 100))
    assert choices(small(Limits()), 1).allowed[1:].all()
