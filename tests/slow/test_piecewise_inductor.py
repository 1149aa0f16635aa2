"""Pieces compiled by Inductor compute what eager does, in place where eager is in place."""

from __future__ import annotations

import functools
import shutil
import weakref
from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.backends.breaks import eager_on_graph
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.graphs.cpu import RecordingCpuDevice
from simcg.ladder import Bucket
from tests.pieces import Inputs, Model, outcome

torch.set_num_threads(1)

pytestmark = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor on a CPU needs g++"),
    # torch's own, when Inductor is imported
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def test_compiled_pieces_equal_eager_at_any_size_and_their_recording_replays_as_eager() -> None:
    model, inputs = Model.new(), Inputs.of(12)
    backend = TcPiecewise(RecordingCpuDevice(), "inductor")
    for rows in (12, 8, 2, 1):
        figures = backend.capture_one(Bucket(rows), inputs.forward(model, rows))
        assert (figures.compile_ns > 0) == (rows == 12)
    for rows in (1, 12, 2, 8, 5):
        inputs.rewrite(rows)
        forward = inputs.forward(model, rows)
        expected = outcome(model, forward)
        found = [outcome(model, functools.partial(backend.run, forward, rows))]
        if backend.can_run(Bucket(rows)):
            found.append(outcome(model, functools.partial(backend.replay, Bucket(rows))))
        for out, cache, seen in found:
            assert torch.equal(out, expected[0])
            assert torch.equal(cache, expected[1])
            assert seen == expected[2]


@eager_on_graph
def add_to(x: torch.Tensor, by: int) -> None:
    x.add_(by)


def sum_of_zeros_and_input(x: torch.Tensor) -> torch.Tensor:
    """Inductor makes x itself of zeros + x, which the next piece would overwrite."""
    total = torch.zeros_like(x)
    total.add_(x)
    add_to(total, 1)
    total.mul_(3)
    return total + x


def twice_the_same(x: torch.Tensor) -> torch.Tensor:
    """Equal expressions are one value, but two tensors."""
    first, second = x * 2, x * 2
    add_to(first, 1)
    first.mul_(5)
    return first - second


def input_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    add_to(y, 1)
    y.add_(x)
    return y


def view_of_an_intermediate(x: torch.Tensor) -> torch.Tensor:
    """What a break writes through a view must show in the whole."""
    whole = x * 2
    half = whole[:, :2]
    add_to(half, 1)
    return whole * 3


PROGRAMS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    sum_of_zeros_and_input, twice_the_same, input_in_place, view_of_an_intermediate,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_pieces_share_memory_exactly_where_the_forward_does(
    program: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    x, out = torch.arange(20.0).reshape(5, 4), torch.zeros(5, 4)

    def forward() -> torch.Tensor:
        return out.copy_(program(x))

    before, expected = x.clone(), forward().clone()
    found = TcPiecewise(RecordingCpuDevice(), "inductor").run(forward, 5)
    assert torch.equal(found, expected)
    assert torch.equal(x, before)


def test_compiled_code_goes_with_its_backend() -> None:
    """After cleanup nothing holds what the forward read, though Inductor compiled it."""
    model, inputs = Model.new(), Inputs.of(12)
    backend = TcPiecewise(RecordingCpuDevice(), "inductor")
    backend.capture_one(Bucket(8), inputs.forward(model, 8))
    backend.replay(Bucket(8))
    tensor = next(t for t in vars(model).values() if isinstance(t, torch.Tensor))
    held = weakref.ref(tensor)
    backend.cleanup()
    del model, inputs, tensor
    assert held() is None
