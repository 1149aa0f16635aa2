"""The timeline of a step: max-plus maps beside the recurrence they stand for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import simcg.cost.timeline
from simcg.backend import BACKENDS, BREAKABLE, EAGER, CaptureBackend
from simcg.cost.kernels import Kernels
from simcg.cost.timeline import MaxPlus, compose, fold_repeats, item
from simcg.hardware.catalog import load_profile, profile_names
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.model.ops import Op
from tests.cost_laws import LATENCY, composes, finds_layers, folds, ints, map_of, timeline_agrees
from tests.costs import Costs, Played, item_lists, one_request, plain_items, play, with_even_gaps

CUDA_QUEUE = 1024
"""Launches that a CUDA stream holds before the next call waits (observed, not documented)."""


def same(one: MaxPlus, other: MaxPlus) -> bool:
    return (one.host, one.cross.tolist(), one.device.tolist()) == (
        other.host,
        other.cross.tolist(),
        other.device.tolist(),
    )


@given(item_lists(), st.data())
def test_composition_is_the_recurrence(items: list[Costs], data: st.DataObject) -> None:
    """Maps composed in any order of items give the recurrence's host time, device time and end."""
    order = data.draw(st.lists(st.integers(0, len(items) - 1), min_size=1, max_size=40))
    assert composes(simcg.cost.timeline, items, order)


@given(item_lists(), st.integers(0, 10_000))
def test_batches_are_independent(items: list[Costs], longer: int) -> None:
    """A map over several durations gives each what it gives alone."""
    durations = [[one.duration, one.duration + longer] for one in items]
    maps = {
        i: item(one.host, one.gap, LATENCY, ints(d))
        for i, (one, d) in enumerate(zip(items, durations, strict=True))
    }
    ends = compose([(tuple(maps), 1)], maps).end().tolist()
    slower = [Costs(one.host, one.gap, one.duration + longer) for one in items]
    assert ends == [play(items, LATENCY).end, play(slower, LATENCY).end]


@given(item_lists(3), item_lists(3), item_lists(3))
def test_composition_is_associative(a: list[Costs], b: list[Costs], c: list[Costs]) -> None:
    """(a b) c = a (b c), so runs may be composed in any grouping."""
    x, y, z = (
        compose([(tuple(range(len(part))), 1)], dict(enumerate(map_of(simcg.cost.timeline, one)
        for one in part))) for part in (a, b, c)
    )  # fmt: skip
    assert same(x.then(y).then(z), x.then(y.then(z)))


@given(item_lists(1), st.integers(1, 200))
def test_a_power_is_repetition(items: list[Costs], times: int) -> None:
    """power(k) equals k compositions."""
    one = map_of(simcg.cost.timeline, items[0])
    repeated = one
    for _ in range(times - 1):
        repeated = repeated.then(one)
    assert same(one.power(times), repeated)


def test_what_is_empty_has_no_size() -> None:
    """Nothing composed, and the power 0, are refused: there is no array to take a length from."""
    with pytest.raises(ValueError, match="without items"):
        compose([], {})
    with pytest.raises(ValueError, match="power 0"):
        item(1, 1, 1, ints([1])).power(0)


@given(st.lists(st.integers(0, 3), max_size=60))
def test_folding_loses_nothing(keys: list[int]) -> None:
    """The runs, each unit repeated, concatenate to the sequence."""
    assert folds(simcg.cost.timeline, keys)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(2, 40))
def test_a_repeated_unit_is_one_run(unit: list[int], times: int) -> None:
    """A sequence that is a unit over and over folds to one run of a unit no longer than that."""
    runs = fold_repeats(unit * times)
    assert len(runs) == 1
    assert len(runs[0][0]) <= len(unit)


def test_equal_layers_are_found() -> None:
    """94 equal layers between head and tail are one run, as ops and as graph segments."""
    assert finds_layers(simcg.cost.timeline)
    assert timeline_agrees(simcg.cost.timeline)


@given(item_lists())
def test_a_step_lasts_no_less_than_its_host_and_its_gpu(items: list[Costs]) -> None:
    """The end is at least the GPU's sum, and the last kernel after the last launch."""
    played = play(items, LATENCY)
    assert played.end >= sum(one.gap + one.duration for one in items)
    assert played.end >= sum(one.host for one in items) + LATENCY + items[-1].duration


def catches_up(items: list[Costs], free: Played, queue: int) -> bool:
    """The condition of the docstring of timeline.py, on the timeline without a queue."""
    for i in range(queue, len(items)):
        later = free.starts[i - queue] + LATENCY
        for j in range(i, len(items)):
            later += items[j].host if j > i else 0
            if free.starts[j] < later:
                return False
    return True


@given(item_lists(30), st.integers(1, 8))
def test_back_pressure_matters_exactly_where_the_host_cannot_catch_up(
    items: list[Costs], queue: int
) -> None:
    """A launch queue changes a start if and only if the condition of timeline.py is broken."""
    free, held = play(items, LATENCY), play(items, LATENCY, queue)
    assert (held.starts == free.starts) == catches_up(items, free, queue)
    assert held.end >= free.end


@given(item_lists(), st.integers(0, 5))
def test_a_queue_for_the_whole_step_changes_nothing(items: list[Costs], more: int) -> None:
    """With a place for every item the host never waits."""
    assert play(items, LATENCY, len(items) + more) == play(items, LATENCY)


@given(item_lists(6), st.integers(2, 12), st.integers(1, 3))
def test_equal_layers_that_fit_the_queue_meet_the_condition(
    layer: list[Costs], times: int, layers_in_queue: int
) -> None:
    """Layers that the GPU runs for longer than the host issues them: any queue of a layer does."""
    gpu = sum(one.gap + one.duration for one in layer)
    assume(sum(one.host for one in layer) + LATENCY <= gpu)
    items = layer * times
    free, held = play(items, LATENCY), play(items, LATENCY, layers_in_queue * len(layer))
    assert held.starts == free.starts


def test_a_step_that_turns_host_bound_behind_a_full_queue_is_late() -> None:
    """Why the condition is there: long kernels fill the queue, then dear calls come too late."""
    items = [Costs(1, 0, 100)] * 8 + [Costs(150, 0, 1)] * 8
    free, held = play(items, LATENCY), play(items, LATENCY, queue=2)
    assert not catches_up(items, free, 2)
    assert (free.end, held.end) == (1212, 1708)


@pytest.mark.parametrize("name", profile_names())
@pytest.mark.parametrize("backend", [EAGER, BREAKABLE], ids=lambda b: b.name)
def test_a_queue_of_a_thousand_launches_changes_no_real_step(
    name: str, backend: CaptureBackend
) -> None:
    """Qwen3-235B-A22B, 94 layers: the same end with CUDA's queue as without, at every size."""
    profile = load_profile(name)
    forward = forward_pass(architecture_named("qwen3-235b-a22b"), tp=4)
    sizes = [1, 64, 256, 1024, 2048, 4096, 8192]
    kernels, work = Kernels(profile), one_request(sizes)
    times = {op: kernels.time(op, work).ns for op in forward.numbered[0]}
    latency = round(profile.host.launch_latency.value)
    for place in range(len(sizes)):

        def op_ns(op: Op, place: int = place) -> int:
            return int(times[op][place])

        items, _, _ = plain_items(forward, profile, backend, op_ns)
        assert play(items, latency, CUDA_QUEUE).end == play(items, latency).end


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda b: b.name)
def test_starts_ascend(backend: CaptureBackend) -> None:
    """Kernels of one stream start in order, whatever the backend."""
    profile = with_even_gaps(load_profile("h200"))
    forward = forward_pass(architecture_named("qwen3-8b"))
    kernels, work = Kernels(profile), one_request([300])
    items, _, _ = plain_items(
        forward, profile, backend, lambda op: int(kernels.time(op, work).ns[0])
    )
    starts = play(items, LATENCY).starts
    assert all(a <= b for a, b in pairwise(starts))
    assert np.all(np.array(starts) > 0)
