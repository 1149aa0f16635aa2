"""The memory of a ladder played through the allocator: measured pools, laws, counterexamples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcg.backend import BREAKABLE, EAGER, FULL, TC_PIECEWISE, CaptureBackend, backend_named
from simcg.cost.memory import graph_bytes
from simcg.cost.table import ReplayModel
from simcg.des.memory.allocator import SMALL_SEGMENT, OutOfMemoryError
from simcg.des.memory.check import violations
from simcg.des.memory.ladder import CaptureResult, StepLimits, ladder_capture
from simcg.des.memory.play import play
from simcg.des.memory.pool import captured, ladder_memory
from simcg.des.memory.pool import few_layers as shortened
from simcg.des.memory.trace import (
    AS_ENGINES,
    GRAPHS,
    SEEDED,
    CapturePlan,
    capture_trace,
    forward_script,
)
from simcg.engines.sizes import sglang_prefill_sizes, vllm_sizes
from simcg.errors import InputError
from simcg.hardware.catalog import load_profile
from simcg.model.activations import peak_activation_bytes
from simcg.model.catalog import architecture_named, model_names
from simcg.model.forward import forward_pass
from simcg.model.lean import lean_pass
from simcg.model.ops import ForwardPass
from simcg.runs.read import join, read_runs
from simcg.runs.schema import MemoryCell
from tests.allocator import MIB
from tests.memory_laws import unfused_decoder

RUNS = Path(__file__).parents[2] / "benchmarks" / "runs"
CHUNK = 8192
LAYERS = 4
"""Every layer leaves a weakly held pool as it found it."""
PLANS = {
    "as engines": AS_ENGINES,
    "seeded": SEEDED,
    "strong": CapturePlan(holding="strong"),
    "smallest first": CapturePlan(order="smallest first"),
    "two streams": CapturePlan(streams=2),
    "own outputs": CapturePlan(outputs="own"),
}
BACKENDS = {backend.name: backend for backend in (FULL, BREAKABLE, TC_PIECEWISE)}
FORWARDS = ("qwen3-8b", "lean qwen3-8b", "qwen3-30b-a3b", "lean qwen3-30b-a3b", "gpt-oss-20b",
            "lean gpt-oss-20b")  # fmt: skip
LADDERS = st.sets(st.integers(1, CHUNK), min_size=1, max_size=5).map(lambda s: tuple(sorted(s)))
FORWARD = st.sampled_from(FORWARDS)
BACKEND = st.sampled_from(sorted(BACKENDS)).map(BACKENDS.__getitem__)


@cache
def few_layers(name: str) -> ForwardPass:
    """The engine's forward, or the lean decoder's, with a few layers."""
    arch = architecture_named(name.removeprefix("lean "))
    forward = lean_pass(arch) if name.startswith("lean ") else forward_pass(arch)
    return replace(forward, layers=forward.layers[:LAYERS])


def pool(
    forward: ForwardPass,
    backend: CaptureBackend,
    sizes: Sequence[int],
    plan: CapturePlan = AS_ENGINES,
) -> int:
    """Reserved bytes of the pool."""
    played = play(capture_trace(forward, backend, tuple(sizes), 1, plan))
    return int(played.graphs.reserved[-1])


def model_of(forward: ForwardPass, backend: CaptureBackend = BREAKABLE) -> ReplayModel:
    return ReplayModel(forward, load_profile("h200"), backend, EAGER)


# measured


@pytest.mark.parametrize("file", ["h200-matrix", "h200-moe"])
def test_pools_of_an_h200_are_predicted_to_the_byte(file: str) -> None:
    """Twelve ladders of four models and three backends: all but one, which compiled code shrinks.

    A compiler leaves out some small tensors, and with them two small segments.
    """
    runs = read_runs(RUNS / f"{file}.jsonl")
    cells = join([runs], MemoryCell)
    assert cells
    for cell in cells:
        forward = lean_pass(runs.header.models[cell.model])
        backend = backend_named(cell.backend)
        trace = capture_trace(forward, backend, cell.buckets, max(1, cell.slots), SEEDED)
        reserved = int(play(trace).graphs.reserved[-1])
        compiled = (cell.model, cell.backend) == ("qwen3-30b-a3b", "tc_piecewise")
        shrunk = 2 * SMALL_SEGMENT if compiled and file == "h200-matrix" else 0
        assert reserved == cell.pool + shrunk, cell


@pytest.mark.parametrize(
    ("name", "backend", "measured"),
    [("lean qwen3-8b", BREAKABLE, 1.2), ("lean llama-3.1-8b", BREAKABLE, 1.2),
     ("lean qwen3-30b-a3b", FULL, 1.9)],
)  # fmt: skip
def test_a_pool_without_a_first_block_is_as_much_larger_as_on_an_h200(
    name: str, backend: CaptureBackend, measured: float
) -> None:
    """1.2 times the peak for dense models and 1.9 with experts, as ``POOL_HEADROOM`` has it."""
    forward = few_layers(name)
    sizes = (16, 64, 100, 200, 256, 520, 768, 1024, 1500, 2048, 3000, 4096, CHUNK)
    ratio = pool(forward, backend, sizes) / peak_activation_bytes(forward, CHUNK)
    assert ratio == pytest.approx(measured, abs=0.05)


def test_strongly_held_tensors_take_what_they_took_on_an_h200() -> None:
    """10,116 MiB at 8,192 tokens beside a peak of 1,136 MiB: ours is 9,904, 2.1 % less.

    The decoder of that measurement is rebuilt from its peak, which is met exactly; what it did
    with small tensors, and the context and graphs in the measured figure, are not known.
    """
    forward = unfused_decoder()
    assert peak_activation_bytes(forward, CHUNK) == 1136 * MIB
    strong = pool(forward, BREAKABLE, [CHUNK], CapturePlan(holding="strong"))
    assert strong == pytest.approx(10116 * MIB, rel=0.025)
    assert pool(forward, BREAKABLE, [CHUNK]) < 1.15 * 1136 * MIB


# laws


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
@pytest.mark.parametrize("name", ["qwen3-8b", "lean qwen3-30b-a3b"])
def test_a_played_ladder_breaks_no_rule(
    name: str, backend: CaptureBackend, plan: CapturePlan
) -> None:
    """The checker recomputes every lifetime and every sum."""
    trace = capture_trace(few_layers(name), backend, (64, 700, 1024, 3000), 4, plan)
    assert next(violations(trace, play(trace)), None) is None


@settings(max_examples=30)
@given(FORWARD, BACKEND, LADDERS)
def test_holding_more_and_sharing_less_never_saves_memory(
    name: str, backend: CaptureBackend, sizes: tuple[int, ...]
) -> None:
    """Strong at least weak, two streams at least one, own outputs at least a shared one."""
    forward = few_layers(name)
    base = pool(forward, backend, sizes)
    assert pool(forward, backend, sizes, PLANS["strong"]) >= base
    assert pool(forward, backend, sizes, PLANS["two streams"]) >= base
    assert pool(forward, backend, sizes, PLANS["own outputs"]) >= base


@settings(max_examples=30)
@given(FORWARD, BACKEND, LADDERS)
def test_a_pool_holds_at_least_its_largest_bucket(
    name: str, backend: CaptureBackend, sizes: tuple[int, ...]
) -> None:
    """Whatever the plan; full capture needs the whole activation peak."""
    forward = few_layers(name)
    script = forward_script(forward, backend)
    live = most = 0
    for number, begins in script.calls:
        held = script.tensors[number]
        size = held.tensor.nbytes(sizes[-1], 1) if held.in_pool else 0
        live += size if begins else -size
        most = max(most, live)
    assert all(pool(forward, backend, sizes, plan) >= most for plan in PLANS.values())


def test_a_bucket_below_the_ceiling_may_widen_a_pool_and_seldom_does() -> None:
    """No law: it splits segments that smaller buckets then find in pieces. By a fifth at worst in
    300 sampled ladders, of which 4 % widened.
    """
    forward = few_layers("gpt-oss-20b")
    sizes = (174, 1811)
    without, with_it = pool(forward, FULL, sizes), pool(forward, FULL, (174, 1656, 1811))
    assert without < with_it <= 1.25 * without
    wider = [pool(forward, FULL, sorted({*sizes, x})) > without for x in range(16, 1800, 16)]
    assert 0 < sum(wider) < 0.2 * len(wider)


def test_smallest_first_costs_dense_models_a_fifth_and_may_save_with_experts() -> None:
    """Each larger bucket finds segments too small for it; with experts a small bucket may leave
    segments that fit the large one's odd sizes better than what it would reserve itself.
    """
    sizes = (16, 64, 128, 256, 512, 768, 1024, 2048, 4096, CHUNK)
    small_first = PLANS["smallest first"]
    dense, experts = few_layers("lean qwen3-8b"), few_layers("lean qwen3-30b-a3b")
    assert pool(dense, BREAKABLE, sizes, small_first) > 1.2 * pool(dense, BREAKABLE, sizes)
    pair = (585, 1617)
    assert pool(experts, BREAKABLE, pair, small_first) < pool(experts, BREAKABLE, pair)


LADDERS_OF_ENGINES = {
    "sglang": sglang_prefill_sizes(CHUNK),
    "sglang, 2048": sglang_prefill_sizes(2048),
    "vllm": vllm_sizes(CHUNK, 256),
}


@pytest.mark.parametrize(("name", "deep"), [*zip(model_names(), cycle(LADDERS_OF_ENGINES))])
def test_the_ceilings_pool_is_the_whole_ladders_within_two_small_segments(
    name: str, deep: str
) -> None:
    """What ``ladder_memory`` plays, the largest bucket of a few layers, is at most 4 MiB below what
    all buckets and layers take, over engines' default ladders; 1.2 % at most of SGLang's.

    All layers are played on one ladder a model, in turn, and take what the few take.
    """
    forward = forward_pass(architecture_named(name))
    model = model_of(forward)
    for engine, sizes in LADDERS_OF_ENGINES.items():
        whole = captured(shortened(forward), model.backend, sizes, 1, AS_ENGINES).usage.reserved
        if engine == deep:
            every_layer = captured(forward, model.backend, sizes, 1, AS_ENGINES)
            assert every_layer.usage.reserved == whole
        ours = ladder_memory(sizes, 0, 1, model).reserved
        assert 0 <= whole - ours <= 2 * SMALL_SEGMENT, engine
        assert engine == "vllm" or whole - ours <= 0.012 * whole


def test_warm_ups_leave_nothing() -> None:
    """The pool played without them is that of the whole capture."""
    sizes, model = (64, 700, 1024, 3000), model_of(few_layers("qwen3-30b-a3b"))
    for plan in (AS_ENGINES, SEEDED):
        whole = ladder_capture(model, sizes, StepLimits(CHUNK), plan)
        memory = captured(model.forward, model.backend, sizes, 1, plan)
        assert memory.usage.reserved == whole.pool_reserved + whole.ordinary_reserved
        assert memory.of_pool(GRAPHS).reserved == whole.pool_reserved


def test_a_first_block_does_not_help_where_products_have_new_outputs() -> None:
    """An engine's hidden states move at every product, so 1.1 times the peak is too little."""
    engine, lean = (
        ladder_capture(model_of(few_layers(name)), (1024, CHUNK), StepLimits(CHUNK), SEEDED)
        for name in ("qwen3-30b-a3b", "lean qwen3-30b-a3b")
    )
    assert lean.fragmentation < 0.02
    assert engine.fragmentation > 0.3


# what it says


def result(sizes: tuple[int, ...], name: str = "qwen3-8b") -> CaptureResult:
    return ladder_capture(model_of(few_layers(name)), sizes, StepLimits(CHUNK))


def test_a_ceiling_below_the_chunk_costs_more_than_no_graphs_and_at_the_chunk_less() -> None:
    """Live bytes as the published chart counts them: what stays, and the eager peak beside it."""
    none, below, at = (result(sizes) for sizes in ((), (1024, 4096), (1024, CHUNK)))
    totals = [one.live + one.eager_after.live for one in (none, below, at)]
    assert totals[2] < totals[0] < totals[1]
    assert none.device == 0 == none.fragmentation
    assert none.eager_after == none.eager_before == below.eager_after
    assert at.eager_after.live == 0


def test_the_eager_peak_is_the_analytic_one_within_rounding() -> None:
    """Every block is a multiple of 512 bytes and keeps at most 1 MiB that it cannot give back."""
    for name in FORWARDS:
        peak = peak_activation_bytes(few_layers(name), CHUNK)
        assert peak <= result((), name).eager_before.live <= peak + 4 * MIB


def test_the_largest_eager_step_is_what_the_caller_says() -> None:
    """A guard or a sparse ladder sends steps below the ceiling to eager."""
    model = model_of(few_layers("qwen3-8b"))
    steps = StepLimits(CHUNK, largest_eager=4095)
    capture = ladder_capture(model, (64, CHUNK), steps)
    assert capture.eager_after.live == pytest.approx(
        peak_activation_bytes(model.forward, 4095), rel=0.01
    )


def test_the_timeline_follows_the_capture() -> None:
    """Inputs, then largest first warm-ups and capture of each; a pool never shrinks."""
    capture = result((64, 1024, 4096))
    assert [(point.phase, point.tokens) for point in capture.timeline] == [
        ("inputs", 4096),
        *((phase, size) for size in (4096, 1024, 64) for phase in ("warm-up", "capture")),
    ]
    pools = [point.pool for point in capture.timeline]
    assert pools == sorted(pools)
    assert all(p.allocated <= p.peak and p.pool <= p.reserved for p in capture.timeline)
    assert capture.timeline[-1].reserved == capture.pool_reserved + capture.ordinary_reserved


def test_what_does_not_fit_is_an_error_with_figures() -> None:
    """Just enough is enough; one byte less names what is short."""
    model = model_of(few_layers("qwen3-8b"))
    sizes, steps = (64, 4096), StepLimits(CHUNK)
    trace = capture_trace(model.forward, model.backend, sizes, 1)
    need = int(play(trace).everything.reserved.max()) + graph_bytes(2, model)
    assert ladder_capture(model, sizes, steps, capacity=need)
    with pytest.raises(OutOfMemoryError, match=r"are asked, .* are free, .* are short"):
        ladder_capture(model, sizes, steps, capacity=need - graph_bytes(2, model) // 2)


@pytest.mark.parametrize(
    ("sizes", "requests", "found"),
    [((0, 64), 1, "sizes"), ((64,), 0, "requests")],
)
def test_impossible_ladders_are_refused(sizes: tuple[int, ...], requests: int, found: str) -> None:
    with pytest.raises(InputError, match=found):
        capture_trace(few_layers("qwen3-8b"), BREAKABLE, sizes, requests)
    with pytest.raises(InputError, match="streams"):
        CapturePlan(streams=0)
