"""An observed capture yields exactly the reads, writes and lifetimes of its forward."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch
from hypothesis import given, settings
from msgspec.structs import replace

from real_gpu.backends.backend import Backend
from real_gpu.backends.breakable import breakable
from real_gpu.backends.breaks import eager_on_graph
from real_gpu.backends.full import full
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.graphs.device import CaptureError, GraphDevice
from real_gpu.recording import observed_capture
from simcg.formal.recording import (
    Allocate,
    Argument,
    Break,
    Event,
    Free,
    Op,
    Recording,
    Region,
    Segment,
    decode_recordings,
    encode_recordings,
)
from simcg.ladder import Bucket
from tests.programs import Buffers, Step, forward_of, programs

torch.set_num_threads(1)

ROWS, WIDTH, FLOAT = 3, 4, 4
X, WEIGHT, OUT = 0, 1, 2  # the declared tensors are the first storages
WHOLE = ROWS * WIDTH * FLOAT


@eager_on_graph
def scale_into(q: torch.Tensor, out: torch.Tensor, by: int) -> None:
    out.copy_(q * by)


@eager_on_graph
def add_one(q: torch.Tensor) -> torch.Tensor:
    return q + 1


def observed(
    make: Callable[[GraphDevice], Backend],
    forward: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor],
) -> Recording:
    x, weight = torch.zeros(ROWS, WIDTH), torch.ones(WIDTH, WIDTH)
    out = torch.zeros(ROWS, WIDTH)
    device = RecordingCpuDevice()
    return without_lines(
        observed_capture(
            make(device),
            Bucket(ROWS),
            lambda: forward(x, weight, out),
            {"x": ("static", x), "w": ("constant", weight), "out": ("output", out)},
        )
    )


def without_lines(recording: Recording) -> Recording:
    """Where in this file the operators are called is looked at in one test alone."""
    items = tuple(
        replace(item, events=tuple(
            replace(event, line="") if isinstance(event, Op) else event for event in item.events
        ))
        for item in recording.items
    )  # fmt: skip
    return replace(recording, items=items)


def region(storage: int, size: int = WHOLE) -> Region:
    return Region(storage, 0, size)


def test_the_events_of_a_whole_graph() -> None:
    """A product, an in-place op on two columns, and a copy: storage 3 lives in the pool."""

    def forward(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        h = torch.mm(x, weight)
        h[:, :2].mul_(0.5)
        return out.copy_(h)

    recording = observed(full, forward)
    columns = Region(3, 0, 40, (ROWS, 2), (WIDTH * FLOAT, FLOAT))
    reads = (region(X), region(WEIGHT, WIDTH * WIDTH * FLOAT))
    assert recording.items == (
        Segment(
            3,
            (
                Allocate(3),
                Op("aten.mm.default", reads, (region(3),)),
                Op("aten.mul_.Tensor", (columns,), (columns,), {"other": 0.5}),
                Op("aten.copy_.default", (region(3),), (region(OUT),)),
                Free(3),
            ),
        ),
    )
    assert [(s.place, s.role, s.name) for s in recording.storages] == [
        ("outside", "static", "x"),
        ("outside", "constant", "w"),
        ("outside", "output", "out"),
        ("pool", "unknown", ""),
    ]
    assert recording.output == region(OUT)


def with_break(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    q = torch.mm(x, weight)
    mixed = torch.empty_like(q)
    scale_into(q, mixed, 7)
    del q
    return out.copy_(mixed)


def test_a_break_says_how_each_argument_is_held_and_what_it_did() -> None:
    """In-pool arguments weakly; the break's own temporary (storage 5) lies outside the pool."""
    recording = observed(breakable, with_break)
    first, between, last = recording.items
    assert isinstance(first, Segment)
    assert first.events[-1] == Allocate(4)
    assert isinstance(between, Break)
    assert between.function.endswith("test_recording_observer.scale_into")
    assert between.arguments == (
        Argument("0", "weak", region(3)),
        Argument("1", "weak", region(4)),
        Argument("2", "value", None, 7),
    )
    assert between.ran
    assert between.events == (
        Op("aten.mul.Tensor", (region(3),), (region(5),), {"other": 7}),
        Op("aten.copy_.default", (region(5),), (region(4),)),
    )
    assert recording.storages[5].place == "outside"
    assert last.events == (
        Free(3),
        Op("aten.copy_.default", (region(4),), (region(OUT),)),
        Free(4),
    )


def test_compiled_pieces_are_recorded_alike_and_their_breaks_do_not_run() -> None:
    plain, compiled = (observed(make, with_break) for make in (breakable, TcPiecewise))
    assert [ops(item.events) for item in compiled.items if isinstance(item, Segment)] == [
        ops(item.events) for item in plain.items if isinstance(item, Segment)
    ]
    (between,) = (item for item in compiled.items if isinstance(item, Break))
    (expected,) = (item for item in plain.items if isinstance(item, Break))
    assert between.arguments == expected.arguments
    assert not between.ran


def ops(events: tuple[Event, ...]) -> list[tuple[str, int, int]]:
    return [(e.name, len(e.reads), len(e.writes)) for e in events if isinstance(e, Op)]


def test_an_argument_from_outside_is_held_strongly() -> None:
    def forward(x: torch.Tensor, _weight: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        scale_into(x, out, 1)
        return out.add_(1)

    recording = observed(breakable, forward)
    (between,) = (item for item in recording.items if isinstance(item, Break))
    assert [a.held for a in between.arguments] == ["strong", "strong", "value"]


def test_a_returned_tensor_is_a_buffer_that_the_next_segment_allocates() -> None:
    def forward(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return out.copy_(add_one(torch.mm(x, weight)) * 3)

    recording = observed(breakable, forward)
    between, after = recording.items[1:]
    assert isinstance(between, Break)
    (buffer,) = between.returns
    assert Allocate(buffer.storage) in after.events
    first = next(event for event in after.events if isinstance(event, Op))
    assert first.reads == (buffer,)


def test_memory_that_is_used_again_is_another_storage_at_the_same_address() -> None:
    def forward(x: torch.Tensor, _weight: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        y = x
        for _ in range(4):
            y = y + 1
        return out.copy_(y)

    recording = observed(full, forward)
    pool = [s.address for s in recording.storages if s.place == "pool"]
    assert len(pool) == 4
    assert len(set(pool)) == 2


def test_an_operator_of_another_library_is_not_decided() -> None:
    """What its schema says of its reads and writes is a claim that torch does not check."""
    with torch.library._scoped_library("observed", "DEF") as library:
        library.define("twice(Tensor x, float by) -> Tensor")
        library.impl("twice", lambda x, by: x * by, "CPU")
        library.impl("twice", lambda x, by: torch.empty_like(x * by), "Meta")

        def forward(x: torch.Tensor, _weight: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
            return out.copy_(torch.ops.observed.twice(x, 2.0))

        recording = observed(full, forward)
    found = {e.name: e for item in recording.items for e in item.events if isinstance(e, Op)}
    twice = found["observed.twice.default"]
    assert not twice.decided
    assert twice.baked == {"by": 2.0}
    assert twice.reads == (region(X),)
    assert found["aten.copy_.default"].decided


@settings(max_examples=25)
@given(programs)
def test_any_program_leaves_a_recording_that_accounts_for_every_node(program: list[Step]) -> None:
    """As many operators as the device recorded; storages of the pool live where they are used."""
    device, buffers = RecordingCpuDevice(), Buffers.on(torch.device("cpu"), 5)
    declared = {"source": ("static", buffers.source), "out": ("output", buffers.out)}
    forward = forward_of(program, buffers, 5)
    recording = observed_capture(breakable(device), Bucket(5), forward, declared)  # type: ignore[arg-type]
    data = encode_recordings([recording], "cpu", "any")
    assert decode_recordings(data, "file").captures == (recording,)
    alive: set[int] = set()
    for item in recording.items:
        if isinstance(item, Segment):
            assert item.nodes == len(ops(item.events))
        for event in item.events:
            if isinstance(event, Allocate):
                alive.add(event.storage)
            elif isinstance(event, Free):
                alive.remove(event.storage)
            elif isinstance(event, Op):
                used = {r.storage for r in (*event.reads, *event.writes)}
                pool = {i for i in used if recording.storages[i].place == "pool"}
                assert pool <= alive
    assert not alive


def test_watching_changes_nothing_that_a_replay_does() -> None:
    device = RecordingCpuDevice()
    backend = breakable(device)
    buffers = Buffers.on(torch.device("cpu"), 4)
    program: list[Step] = [("matmul", 0, 0), ("break into", 1, 0), ("break returns", 2, 0)]
    forward = forward_of(program, buffers, 4)
    observed_capture(backend, Bucket(4), forward, {})
    buffers.rewrite(3)
    found = backend.replay(Bucket(4)).clone()
    assert torch.equal(found, forward())


def test_after_a_capture_that_fails_nobody_watches_and_the_next_one_is_recorded() -> None:
    def fails(x: torch.Tensor, _weight: torch.Tensor, _out: torch.Tensor) -> torch.Tensor:
        return x + x.sum().item()

    device = RecordingCpuDevice()
    backend = full(device)
    x = torch.zeros(2)
    with pytest.raises(CaptureError):
        observed_capture(backend, Bucket(2), lambda: fails(x, x, x), {})
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
    recording = observed_capture(backend, Bucket(2), lambda: x.add_(1), {})
    assert ops(recording.items[0].events) == [("aten.add_.Tensor", 1, 1)]
