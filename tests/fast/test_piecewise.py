"""tc_piecewise: one trace serves all buckets, and every replay equals eager at its size."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from real_gpu.backends.breakable import breakable
from real_gpu.backends.breaks import eager_on_graph
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.graphs.cpu import RecordingCpuDevice
from simcg.ladder import Bucket
from tests.pieces import LAYERS, WIDTH, Forward, Inputs, Model, calls, mix, outcome
from tests.programs import EVERY_STEP, STEPS, Buffers, Step, programs

torch.set_num_threads(1)

SIZES = (12, WIDTH, 3, 2, 1)


@dataclass
class Kit:
    """A backend with every bucket of ``SIZES`` captured."""

    device: RecordingCpuDevice
    backend: TcPiecewise
    model: Model
    inputs: Inputs
    compile_ns: list[int]
    traces: int


def traces_so_far() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


@functools.cache
def kit() -> Kit:
    device, model, inputs = RecordingCpuDevice(), Model.new(), Inputs.of(max(SIZES))
    backend = TcPiecewise(device)
    before = traces_so_far()
    figures = [backend.capture_one(Bucket(rows), inputs.forward(model, rows)) for rows in SIZES]
    assert all(f.breaks == LAYERS + 1 and f.segments == LAYERS + 2 for f in figures)
    compile_ns = [f.compile_ns for f in figures]
    return Kit(device, backend, model, inputs, compile_ns, traces_so_far() - before)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from(SIZES), st.integers(0, 99)), min_size=1, max_size=8),
    st.sampled_from((0x00, 0x7F, 0xFF)),
)
def test_replays_in_any_order_equal_eager_at_their_size(
    steps: list[tuple[int, int]], poison: int
) -> None:
    """Outputs, cache and side effects, whatever free memory of the pool holds."""
    setup = kit()
    for rows, seed in steps:
        setup.inputs.rewrite(seed)
        setup.device.fill_free(setup.backend.pool, poison)
        setup.inputs.out.fill_(float("nan"))
        found = outcome(setup.model, functools.partial(setup.backend.replay, Bucket(rows)))
        expected = outcome(setup.model, setup.inputs.forward(setup.model, rows))
        assert torch.equal(found[0], expected[0])
        assert torch.equal(found[1], expected[1])
        assert found[2] == expected[2] == 1


def test_one_trace_serves_every_bucket() -> None:
    """Also one row, and as many rows as the model is wide; compile time is told once."""
    assert kit().traces == 1
    assert kit().compile_ns[0] > 0
    assert kit().compile_ns[1:] == [0] * (len(SIZES) - 1)


def test_compiled_pieces_run_without_graphs_at_any_size() -> None:
    setup, inputs = kit(), Inputs.of(17)
    inputs.rewrite(5)
    forward = inputs.forward(setup.model, 17)
    before = traces_so_far()
    found = outcome(setup.model, lambda: setup.backend.run(forward, 17))
    expected = outcome(setup.model, forward)
    assert torch.equal(found[0], expected[0])
    assert traces_so_far() == before


def test_a_break_runs_once_at_a_replay_and_never_while_pieces_are_recorded() -> None:
    device, model, inputs = RecordingCpuDevice(), Model.new(), Inputs.of(4)
    backend = TcPiecewise(device)
    calls.clear()
    backend.capture_one(Bucket(4), inputs.forward(model, 4))
    assert calls == list(range(LAYERS)) * 2  # the two warm-ups
    calls.clear()
    backend.replay(Bucket(4))
    assert calls == list(range(LAYERS))


def test_small_buckets_may_come_first() -> None:
    model, inputs = Model.new(), Inputs.of(WIDTH)
    backend = TcPiecewise(RecordingCpuDevice())
    inputs.rewrite(3)
    for rows in (2, WIDTH):
        backend.capture_one(Bucket(rows), inputs.forward(model, rows))
    for rows in (WIDTH, 2):
        found = outcome(model, functools.partial(backend.replay, Bucket(rows)))
        expected = outcome(model, inputs.forward(model, rows))
        assert torch.equal(found[0], expected[0])


def test_a_first_bucket_as_large_as_a_dimension_of_the_model_fixes_nothing() -> None:
    """Rows of the weights, which the forward holds too, are then taken for rows of the batch."""
    model, inputs = Model.new(), Inputs.of(WIDTH)
    backend, before = TcPiecewise(RecordingCpuDevice()), traces_so_far()
    for rows in (WIDTH, 5):
        backend.capture_one(Bucket(rows), inputs.forward(model, rows))
        found = outcome(model, functools.partial(backend.replay, Bucket(rows)))
        assert torch.equal(found[0], outcome(model, inputs.forward(model, rows))[0])
    assert traces_so_far() == before + 1


def traceable(program: list[Step], rows: int) -> tuple[Forward, Buffers]:
    """The program over views of ``rows`` rows, without breaks that return."""
    whole = Buffers.on(torch.device("cpu"), rows)
    steps = [step for step in program if not step[0].startswith("break returns")]

    def forward() -> torch.Tensor:
        live = [whole.source + 1]
        for name, i, j in steps:
            STEPS[name](live, i % len(live), j % len(live), whole)
            live[:] = live[-6:]
        total = live[0]
        for tensor in live[1:]:
            total = total + tensor
        whole.out.copy_(total)
        return whole.out

    return forward, whole


@settings(max_examples=15)
@given(programs)
def test_any_program_replays_as_eager(program: list[Step]) -> None:
    check_program(program)


def test_every_kind_of_step_replays_as_eager() -> None:
    check_program(EVERY_STEP)


def check_program(program: list[Step]) -> None:
    forward, buffers = traceable(program, 5)
    device = RecordingCpuDevice()
    backend = TcPiecewise(device)
    backend.capture_one(Bucket(5), forward)
    for seed in (1, 2):
        buffers.rewrite(seed)
        device.fill_free(backend.pool, 0x7F)
        found = backend.replay(Bucket(5)).clone()
        assert torch.equal(found, forward())


def test_the_pool_is_no_larger_than_that_of_the_breakable_backend() -> None:
    """Values that nothing needs later are free again, within a piece and across breaks."""
    inputs, weights = torch.ones(4096, 256), [torch.ones(256, 256) for _ in range(8)]
    out = torch.zeros(4096, 256)

    def forward() -> torch.Tensor:
        x = inputs
        for index, weight in enumerate(weights):
            q = torch.mm(x, weight)
            mixed = torch.empty_like(q)
            mix(q, mixed, index)
            del q
            x = torch.relu(torch.mm(mixed, weight) + 1)
        return out.copy_(x)

    compiled = TcPiecewise(RecordingCpuDevice()).capture_one(Bucket(4096), forward)
    plain = breakable(RecordingCpuDevice()).capture_one(Bucket(4096), forward)
    assert compiled.pool_bytes <= plain.pool_bytes < 8 * 4 * 2**20


def test_an_exception_in_a_break_leaves_the_backend_usable() -> None:
    fail = [False]

    @eager_on_graph
    def checked(x: torch.Tensor) -> None:
        if fail[0]:
            raise ZeroDivisionError
        x.add_(1)

    x, out = torch.zeros(4, 2), torch.zeros(4, 2)

    def forward() -> torch.Tensor:
        y = x * 2
        checked(y)
        return out.copy_(y)

    backend = TcPiecewise(RecordingCpuDevice())
    backend.capture_one(Bucket(4), forward)
    fail[0] = True
    with pytest.raises(ZeroDivisionError):
        backend.replay(Bucket(4))
    fail[0] = False
    assert backend.replay(Bucket(4)).tolist() == [[1, 1]] * 4


def test_cleanup_frees_all_and_capture_can_begin_again() -> None:
    x, out = torch.zeros(4, 2), torch.zeros(4, 2)

    def forward() -> torch.Tensor:
        return out.copy_(x + 1)

    backend = TcPiecewise(RecordingCpuDevice())
    backend.capture_one(Bucket(4), forward)
    backend.cleanup()
    assert not backend.can_run(Bucket(4))
    assert backend.capture_one(Bucket(4), forward).compile_ns > 0
    assert backend.replay(Bucket(4)).tolist() == [[1, 1]] * 4


def test_tracing_leaves_no_mark_on_static_inputs() -> None:
    x, out = torch.zeros(4, 2), torch.zeros(4, 2)
    backend = TcPiecewise(RecordingCpuDevice())
    backend.capture_one(Bucket(4), lambda: out.copy_(x + 1))
    assert not x.__dict__
    assert not out.__dict__
