"""The price of a step under each backend, beside an evaluation op by op."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simcg.cost.step
from simcg.backend import BACKENDS, BREAKABLE, COMPILED, EAGER, FULL, TC_PIECEWISE, CaptureBackend
from simcg.cost.kernels import Kernels
from simcg.cost.step import OpTimes, StepCost
from simcg.hardware.catalog import load_profile, profile_names
from simcg.hardware.profile import Figure, HardwareProfile
from simcg.model.catalog import architecture_named, model_names
from simcg.model.forward import forward_pass
from simcg.model.ops import Op
from tests.cost_laws import step_agrees
from tests.costs import (
    figures,
    host_scaled,
    one_request,
    plain_step,
    random_forward,
    uneven_profile,
    unmeasured,
    with_even_gaps,
    with_figures,
)

SIZES = [1, 100, 129, 1000, 4096, 8192]
CAPTURING = (FULL, BREAKABLE, TC_PIECEWISE)


@given(st.integers(0, 2**32), st.sampled_from(sorted(BACKENDS)), st.sampled_from(SIZES))
def test_a_step_is_its_ops_one_by_one(seed: int, name: str, tokens: int) -> None:
    """Random forwards: step, host and GPU time, nodes and segments equal the plain evaluation."""
    forward, profile, backend = random_forward(seed), uneven_profile(), BACKENDS[name]
    kernels, work = Kernels(profile), one_request([tokens])
    expected = plain_step(forward, profile, backend, lambda op: int(kernels.time(op, work).ns[0]))
    cost = StepCost(forward, profile, backend)
    times = cost.times(work)
    assert times.ns.tolist() == [expected.ns]
    assert times.device_ns.tolist() == [expected.device_ns]
    assert times.host_ns == expected.host_ns
    assert (cost.nodes, cost.segments) == (expected.nodes, expected.segments)


def test_kernels_can_be_scaled() -> None:
    """The same with every kernel 2.5 times longer, and over several batches at once."""
    assert step_agrees(simcg.cost.step)


@pytest.mark.parametrize("name", model_names())
@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda b: b.name)
def test_real_models_are_priced_as_their_ops(name: str, backend: CaptureBackend) -> None:
    """The built-in models on h200 and two ranks, at three sizes."""
    profile, sizes = with_even_gaps(load_profile("h200")), [1, 300, 8192]
    forward = forward_pass(architecture_named(name), tp=2)
    op_times = OpTimes(profile, one_request(sizes))
    times = StepCost(forward, profile, backend).times_from(op_times)
    for place in range(len(sizes)):

        def op_ns(op: Op, place: int = place) -> int:
            return int(op_times.of(op).ns[place])

        expected = plain_step(forward, profile, backend, op_ns)
        assert times.ns[place] == expected.ns
        assert times.host_ns == expected.host_ns


@pytest.mark.parametrize("profile", profile_names())
@pytest.mark.parametrize("name", model_names())
def test_fewer_launches_cost_the_host_less(profile: str, name: str) -> None:
    """Host time: full <= breakable <= tc_piecewise <= eager, on every built-in profile."""
    forward = forward_pass(architecture_named(name), tp=2)
    hosts = [
        StepCost(forward, load_profile(profile), backend).times(one_request([1])).host_ns
        for backend in (FULL, BREAKABLE, TC_PIECEWISE, EAGER)
    ]
    assert hosts == sorted(hosts)


@pytest.mark.parametrize("name", model_names())
def test_graphs_are_cut_at_the_breaks(name: str) -> None:
    """One graph for full, one more than the breaks for the others, none without capture.

    Ops that run eager one after the other are one break.
    """
    forward = forward_pass(architecture_named(name), tp=2)
    profile = load_profile("h200")
    kernels = sum(op.kernels for op in forward.ops)
    breaks = [op for op in forward.ops if op.is_break]
    captured = kernels - sum(op.kernels for op in breaks)
    cuts = sum(is_break for is_break, _ in groupby(op.is_break for op in forward.ops))
    found = {
        backend.name: (cost.segments, cost.nodes)
        for backend in BACKENDS.values()
        for cost in [StepCost(forward, profile, backend)]
    }
    assert found == {
        "full": (1, kernels),
        "breakable": (cuts + 1, captured),
        "tc_piecewise": (cuts + 1, captured),
        "eager": (0, 0),
        "compiled": (0, 0),
    }


@given(st.integers(0, 2**32), st.sampled_from(sorted(BACKENDS)))
def test_a_step_waits_for_its_host_and_its_gpu(seed: int, name: str) -> None:
    """No step is shorter than its GPU time, nor than its launches and the latency of the last."""
    profile = uneven_profile()
    times = StepCost(random_forward(seed), profile, BACKENDS[name]).times(one_request(SIZES))
    latency = round(profile.host.launch_latency.value)
    assert np.all(times.ns >= times.device_ns)
    assert np.all(times.ns > times.host_ns + latency)
    # and one kernel at a time, each waiting for its launch, would be the longest it can take
    launches = 3 * len(random_forward(seed).ops)
    assert np.all(times.ns <= times.device_ns + times.host_ns + launches * latency)


@given(
    st.integers(0, 2**32),
    st.sampled_from(sorted(BACKENDS)),
    st.floats(0.1, 10),
    st.floats(1, 10),
)
def test_longer_kernels_make_no_step_shorter(
    seed: int, name: str, scale: float, more: float
) -> None:
    """Step times do not fall when every kernel takes longer; host times stay."""
    profile, work = uneven_profile(), one_request(SIZES)
    cost = StepCost(random_forward(seed), profile, BACKENDS[name])
    short = cost.times_from(OpTimes(profile, work, scale))
    long = cost.times_from(OpTimes(profile, work, scale * more))
    assert np.all(short.ns <= long.ns)
    assert np.all(short.device_ns <= long.device_ns)
    assert short.host_ns == long.host_ns


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda b: b.name)
def test_limits_are_the_gpu_alone_and_the_host_alone(backend: CaptureBackend) -> None:
    """Without host costs a step is its GPU time; with a slow host, its launches and last item."""
    profile = with_even_gaps(load_profile("h200"))
    forward, work = forward_pass(architecture_named("qwen3-8b")), one_request(SIZES)
    free = StepCost(forward, host_scaled(profile, 0), backend).times(work)
    assert np.array_equal(free.ns, free.device_ns)
    assert free.host_ns == 0
    slow_profile = host_scaled(profile, 10_000)
    slow = StepCost(forward, slow_profile, backend).times(work)
    latency = round(slow_profile.host.launch_latency.value)
    last = slow.ns - slow.host_ns - latency
    assert np.all((last > 0) & (last <= slow.device_ns))
    if backend is FULL:
        node, start = profile.gaps.node.value, profile.gaps.graph_start.value
        assert np.array_equal(last, slow.device_ns - round(node) - round(start))
    elif backend in (EAGER, COMPILED):
        logits = forward.tail[-1]
        assert last.tolist() == Kernels(profile).time(logits, work).ns.tolist()


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda b: b.name)
def test_gaps_may_widen_with_the_rows(backend: CaptureBackend) -> None:
    """Every kernel waits longer by what its step's rows say, in proportion between two of them."""
    profile, work = with_even_gaps(load_profile("h200")), one_request([1, 64, 128, 192, 256, 8192])
    node, forward = profile.gaps.node, random_forward(5)

    def with_nodes(*more_ns: int) -> HardwareProfile:
        at = tuple(msgspec.structs.replace(node, value=round(node.value) + ns) for ns in more_ns)
        gaps = msgspec.structs.replace(profile.gaps, node_rows=(64, 128, 256), node_at=at)
        return msgspec.structs.replace(profile, gaps=gaps)

    plain = StepCost(forward, profile, backend).times(work)
    same = StepCost(forward, with_nodes(0, 0, 0), backend).times(work)
    wider = StepCost(forward, with_nodes(-100, 300, 500), backend).times(work)
    assert np.array_equal(same.ns, plain.ns)
    kernels = sum(op.kernels for op in forward.ops)
    more = kernels * np.array([-100, -100, 300, 400, 500, 500])
    assert np.array_equal(wider.device_ns - plain.device_ns, more)
    assert wider.host_ns == plain.host_ns


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda b: b.name)
def test_time_is_homogeneous(backend: CaptureBackend) -> None:
    """Host, gaps and kernels all twice as long: the step takes twice as long."""
    profile = uneven_profile()
    forward, work = random_forward(5), one_request(SIZES)

    def doubled(path: str, figure: Figure) -> Figure:
        if not path.startswith(("host.", "gaps.")):
            return figure
        return msgspec.structs.replace(figure, value=2 * figure.value)

    once = StepCost(forward, profile, backend).times(work)
    twice_profile = with_figures(profile, doubled)
    twice = StepCost(forward, twice_profile, backend).times_from(OpTimes(twice_profile, work, 2.0))
    launches = sum(op.kernels for op in forward.ops)
    assert np.all(np.abs(twice.ns - 2 * once.ns) <= 2 * launches)  # each launch rounds its cost
    assert abs(twice.host_ns - 2 * once.host_ns) <= 2 * launches


def all_measured() -> HardwareProfile:
    """No curves, and every figure as good as measured."""

    def measured(_: str, figure: Figure) -> Figure:
        return replace_figure(figure, provenance="measured")

    profile = with_figures(uneven_profile(), measured)
    return msgspec.structs.replace(profile, curves=())


def replace_figure(figure: Figure, **changes: object) -> Figure:
    return msgspec.structs.replace(figure, **changes)


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda b: b.name)
def test_every_figure_that_moves_a_time_counts_as_provenance(backend: CaptureBackend) -> None:
    """If a figure's value changes any step, then its being assumed makes the step's time assumed.

    The GPU's sizes and peaks are not asked: the shares of the roofline are shares of them; nor
    its bursts, which are beside the price of one step.
    """
    profile = all_measured()
    work = one_request(range(1, 8193, 31))
    models = [forward_pass(architecture_named(name), tp=2) for name in ("qwen3-8b", "gpt-oss-120b")]

    def times(forward: object, one: HardwareProfile) -> tuple[list[int], int, str]:
        found = StepCost(forward, one, backend).times(work)  # type: ignore[arg-type]  # a ForwardPass
        return found.ns.tolist(), found.host_ns, found.provenance

    moved = set()
    for forward in models:
        before = times(forward, profile)
        assert before[2] == "measured"
        for path in figures(profile):
            if path.startswith(("gpu.", "memory.", "startup.", "burst.")):
                continue

            def changed(where: str, figure: Figure, path: str = path) -> Figure:
                value = figure.value * 1.5 + 10 * figure.value.is_integer()
                return replace_figure(figure, value=value) if where == path else figure

            def doubted(where: str, figure: Figure, path: str = path) -> Figure:
                return replace_figure(figure, provenance="assumed") if where == path else figure

            if times(forward, with_figures(profile, changed))[:2] != before[:2]:
                moved.add(path.split(".")[0])
                assert times(forward, with_figures(profile, doubted))[2] == "assumed", path
    assert moved == {"host", "gaps", "roofline"}


def test_op_times_are_computed_once() -> None:
    """Backends share the kernel times of one work, and a scale of 1 changes nothing."""
    profile, work = load_profile("h200"), one_request(SIZES)
    forward = forward_pass(architecture_named("qwen3-8b"))
    op_times = OpTimes(profile, work)
    op = forward.layers[0][0]
    assert op_times.of(op) is op_times.of(replace(op))
    same = StepCost(forward, profile, FULL).times_from(OpTimes(profile, work, 1.0))
    assert np.array_equal(same.ns, StepCost(forward, profile, FULL).times(work).ns)


def test_the_spread_of_a_step_is_that_of_independent_ops() -> None:
    """Twice the same layers have the same relative spread; unmeasured kernels have none."""
    profile, work = load_profile("h200"), one_request([512])
    forward = forward_pass(architecture_named("qwen3-8b"))
    op_times = OpTimes(profile, work)
    spread = op_times.relative_spread(forward)
    doubled = replace(
        forward, layers=forward.layers * 2, head=forward.head * 2, tail=forward.tail * 2
    )
    assert op_times.relative_spread(doubled) == pytest.approx(spread)
    assert 0 < spread < max(op_times.of(op).relative_spread for op in forward.ops)
    bare = OpTimes(unmeasured("a100"), work)
    assert bare.relative_spread(forward) == 0
