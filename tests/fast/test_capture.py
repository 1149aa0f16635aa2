"""Start-up played shape by shape: its time is the cost model's, its memory the allocator's."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simpy import Environment

from simcg.backend import BREAKABLE, COMPILED, EAGER, FULL, TC_PIECEWISE, backend_named
from simcg.cost.memory import graph_bytes
from simcg.cost.startup import Compiler, startup
from simcg.cost.table import ReplayModel
from simcg.des.capture.draw import add_startup
from simcg.des.capture.startup import (
    Capturing,
    Stage,
    StartupRun,
    simulate_startup,
    startup_process,
)
from simcg.des.memory.allocator import OutOfMemoryError
from simcg.des.memory.ladder import StepLimits, ladder_capture
from simcg.des.memory.trace import CapturePlan
from simcg.engines.sizes import sglang_prefill_sizes
from simcg.hardware.catalog import load_profile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.report.timeline import Timeline, write_timeline

BACKENDS = ("full", "breakable", "tc_piecewise")
LADDERS = st.sets(st.integers(1, 4096), min_size=1, max_size=4).map(lambda s: tuple(sorted(s)))
STEPS = StepLimits(8192)
COMPILERS: st.SearchStrategy[Compiler] = st.sampled_from(("eager", "inductor"))
SIZES = (64, 512, 2048)


@cache
def model_of(backend: str, name: str = "gpt-oss-20b") -> ReplayModel:
    forward = forward_pass(architecture_named(name))
    return ReplayModel(forward, load_profile("h200"), backend_named(backend), EAGER)


@cache
def played(backend: str) -> StartupRun:
    return simulate_startup(Capturing(model_of(backend), SIZES, STEPS))


@settings(max_examples=20)
@given(st.sampled_from(BACKENDS), LADDERS, st.integers(0, 3), COMPILERS)
def test_start_up_ends_when_the_cost_model_says(
    backend: str, sizes: tuple[int, ...], warm_ups: int, compiler: Compiler
) -> None:
    """To the nanosecond, for any ladder, any number of warm-ups and either compiler."""
    model = model_of(backend)
    run = simulate_startup(Capturing(model, sizes, STEPS, compiler=compiler, warm_ups=warm_ups))
    assert run.end_ns == startup(sizes, model, compiler, warm_ups).ns
    assert all(a.end_ns == b.start_ns for a, b in pairwise(run.stages))
    assert run.stages[0].start_ns == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_bucket_is_warmed_up_recorded_and_instantiated_largest_first(backend: str) -> None:
    """Shapes follow each other without a gap, and only a compiling backend compiles, once."""
    run = played(backend)
    compiles = [("compile", 0)] if backend == "tc_piecewise" else []
    assert [(stage.activity, stage.tokens) for stage in run.stages] == [
        *compiles,
        *(
            (activity, size)
            for size in reversed(SIZES)
            for activity in ("warm-up", "warm-up", "capture", "instantiate")
        ),
    ]
    assert [shape.tokens for shape in run.shapes] == list(reversed(SIZES))
    assert all(a.end_ns == b.start_ns for a, b in pairwise(run.shapes))
    assert run.shapes[-1].end_ns == run.end_ns


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_grows_bucket_by_bucket_to_the_ladders(backend: str) -> None:
    """The pool never shrinks, graphs add up, and the end is what the ladder alone says."""
    run, model = played(backend), model_of(backend)
    assert run.memory == ladder_capture(model, SIZES, STEPS)
    assert run.shapes[-1].pool_bytes == run.memory.pool_reserved
    assert run.shapes[-1].graph_bytes == run.memory.exec_bytes
    for number, (one, after) in enumerate(pairwise(run.shapes), 1):
        assert one.pool_bytes <= after.pool_bytes
        assert one.graph_bytes == graph_bytes(number, model) < after.graph_bytes
    assert all(shape.peak_bytes > 0 for shape in run.shapes)


def test_no_buckets_start_at_once_but_for_a_compiler() -> None:
    """vLLM's compiled fallback is compiled even where nothing is captured."""
    run = simulate_startup(Capturing(model_of("full"), (), STEPS))
    assert (run.end_ns, run.shapes, run.stages) == (0, (), ())
    compiled = ReplayModel(model_of("full").forward, load_profile("h200"), FULL, COMPILED)
    run = simulate_startup(Capturing(compiled, (), STEPS))
    assert [stage.activity for stage in run.stages] == ["compile"]
    assert run.end_ns == startup((), compiled).compile_ns > 0


def test_compile_is_most_of_the_preparation_of_compiled_pieces() -> None:
    """Published: 78-86 % for two models on Grace hosts (SGLang blog, 2026-08-17); on the host of
    our own H200, where capture is fast, more.
    """
    run = simulate_startup(
        Capturing(model_of("tc_piecewise", "qwen3-235b-a22b"), sglang_prefill_sizes(2048), STEPS)
    )
    share = (run.stages[0].end_ns - run.stages[0].start_ns) / run.end_ns
    assert run.stages[0].activity == "compile"
    assert 0.78 <= share <= 0.95


def test_a_start_up_runs_inside_another_simulation() -> None:
    """In that simulation's time: a server that starts at 1,000 ns is ready so much later."""
    environment = Environment(initial_time=1000)
    stages: list[Stage] = []
    environment.process(
        startup_process(environment, Capturing(model_of("breakable"), SIZES, STEPS), stages)
    )
    environment.run()
    shifted = [(stage.activity, stage.start_ns - 1000, stage.end_ns - 1000) for stage in stages]
    alone = played("breakable").stages
    assert shifted == [(stage.activity, stage.start_ns, stage.end_ns) for stage in alone]


def test_order_changes_the_time_of_no_bucket() -> None:
    """Smallest first captures the same shapes in as long, the other way round."""
    plan = CapturePlan(order="smallest first")
    up = simulate_startup(Capturing(model_of("breakable"), SIZES, STEPS, plan))
    down = played("breakable")
    assert up.end_ns == down.end_ns
    assert {s.tokens: s.end_ns - s.start_ns for s in up.shapes} == {
        s.tokens: s.end_ns - s.start_ns for s in down.shapes
    }
    assert [s.tokens for s in up.shapes] == list(SIZES)


def test_a_start_up_that_does_not_fit_is_refused() -> None:
    need = played("breakable").memory
    with pytest.raises(OutOfMemoryError, match="are short"):
        simulate_startup(
            Capturing(model_of("breakable"), SIZES, STEPS, capacity=need.pool_reserved)
        )


def test_a_start_up_is_drawn_as_nested_spans_and_counters(tmp_path: Path) -> None:
    """Each bucket's span holds its stages; counters say the bytes at its end."""
    timeline = Timeline()
    run = played("tc_piecewise")
    add_startup(timeline, run, at_ns=500)
    path = tmp_path / "start-up.json"
    write_timeline(path, timeline)
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == len(run.stages) + len(run.shapes)
    assert min(event["ts"] for event in spans) == 0.5
    pools = [e["args"]["value"] for e in events if e["ph"] == "C" and "pool" in e["name"]]
    assert pools == [shape.pool_bytes for shape in run.shapes]


def test_backends_order_the_start_up() -> None:
    """Breaks cost segments and a compiler costs more than both: full, breakable, tc_piecewise."""
    ends = [played(backend.name).end_ns for backend in (FULL, BREAKABLE, TC_PIECEWISE)]
    assert ends == sorted(ends)
