"""Ways to get compiled pieces wrong, each of which a law of the fast tests must notice."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.backends.piecewise import execute
from real_gpu.backends.piecewise.split import Break, Program
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.graphs.device import ReplayError
from simcg.ladder import Bucket
from tests.pieces import Inputs, Model, mix, outcome

torch.set_num_threads(1)
Patch = Callable[[pytest.MonkeyPatch], None]


def replays_equal_eager() -> None:
    """Two buckets, in both orders, with poison in free memory."""
    device, model, inputs = RecordingCpuDevice(), Model.new(), Inputs.of(6)
    backend = TcPiecewise(device)
    for rows in (6, 3):
        backend.capture_one(Bucket(rows), inputs.forward(model, rows))
    for rows in (6, 3, 6):
        inputs.rewrite(rows)
        device.fill_free(backend.pool, 0xFF)
        found = outcome(model, functools.partial(backend.replay, Bucket(rows)))
        expected = outcome(model, inputs.forward(model, rows))
        assert torch.equal(found[0], expected[0])
        assert torch.equal(found[1], expected[1])
        assert found[2] == expected[2]


def the_pool_holds_what_is_alive_at_once() -> None:
    x, weight, out = torch.ones(4096, 256), torch.ones(256, 256), torch.zeros(4096, 256)

    def forward() -> torch.Tensor:
        hidden = x
        for index in range(4):
            q = torch.mm(hidden, weight)
            mixed = torch.empty_like(q)
            mix(q, mixed, index)
            del q
            hidden = torch.relu(torch.mm(mixed, weight))
        return out.copy_(hidden)

    figures = TcPiecewise(RecordingCpuDevice()).capture_one(Bucket(4096), forward)
    assert figures.pool_bytes <= 20 * 2**20  # tensors are 4 MiB, and the allocator's steps 20


def a_moved_input_is_refused() -> None:
    model, inputs = Model.new(), Inputs.of(4)
    backend = TcPiecewise(RecordingCpuDevice())
    backend.capture_one(Bucket(4), inputs.forward(model, 4))
    model.weights[1] = model.weights[1].clone()
    with pytest.raises(ReplayError, match="moved"):
        backend.replay(Bucket(4))


def an_outside_argument_lives_as_long_as_its_break() -> None:
    """Whoever made the break's table drops it after the capture."""
    x, out = torch.ones(4, 8), torch.zeros(4, 8)
    tables = [torch.full((4, 8), 3.0)]

    def forward() -> torch.Tensor:
        mixed = torch.empty_like(x)
        mix(tables[0], mixed, 1)
        return out.copy_(mixed + x)

    backend = TcPiecewise(RecordingCpuDevice())
    backend.capture_one(Bucket(4), forward)
    gone = weakref.ref(tables[0].untyped_storage())
    tables[0] = torch.full((4, 8), 5.0)  # its guards hold: only its address tells
    with pytest.raises(ReplayError, match="moved"):
        backend.replay(Bucket(4))
    assert gone() is not None


LAWS: dict[str, Callable[[], None]] = {
    law.__name__: law
    for law in (
        replays_equal_eager,
        the_pool_holds_what_is_alive_at_once,
        a_moved_input_is_refused,
        an_outside_argument_lives_as_long_as_its_break,
    )
}


def with_items(change: Callable[[Program], Program]) -> Patch:
    """A mutant of what is recorded."""
    record = execute.record

    def mutant(device: Any, pool: Any, program: Program, values: Any) -> Any:
        return record(device, pool, change(program), values)

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("real_gpu.backends.tc_piecewise.record", mutant)

    return patch


def without_last_break(program: Program) -> Program:
    last = max(i for i, item in enumerate(program.items) if isinstance(item, Break))
    return replace(program, items=(*program.items[:last], *program.items[last + 1 :]))


def keeps_all(program: Program) -> Program:
    return replace(program, items=tuple(replace(item, drops=()) for item in program.items))


def steps_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    record = execute.record

    def mutant(*args: Any) -> Any:
        pieces = record(*args)
        first, second, *rest = pieces.steps
        return replace(pieces, steps=(second, first, *rest))

    monkeypatch.setattr("real_gpu.backends.tc_piecewise.record", mutant)


def arguments_held_strongly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordingCpuDevice, "alias", lambda _self, tensor: tensor)


def addresses_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute.Pieces, "_check_addresses", lambda _self, _tensors: None)


def inputs_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    record = execute.record

    def mutant(*args: Any) -> Any:
        return replace(record(*args), inputs=(), are_tensors=())

    monkeypatch.setattr("real_gpu.backends.tc_piecewise.record", mutant)


MUTANTS: dict[str, tuple[Patch, str]] = {
    "forgets the last break": (with_items(without_last_break), "replays_equal_eager"),
    "keeps every value": (
        with_items(keeps_all),
        "the_pool_holds_what_is_alive_at_once",
    ),
    "replays in another order": (steps_swapped, "replays_equal_eager"),
    "holds the pool's memory": (
        arguments_held_strongly,
        "the_pool_holds_what_is_alive_at_once",
    ),
    "does not look at addresses": (addresses_unchecked, "a_moved_input_is_refused"),
    "lets inputs go": (inputs_not_held, "an_outside_argument_lives_as_long_as_its_break"),
}


@pytest.mark.parametrize("law", LAWS)
def test_a_law_holds_without_a_mutant(law: str) -> None:
    LAWS[law]()


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_killed(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, law = MUTANTS[mutant]
    patch(monkeypatch)
    with pytest.raises((AssertionError, ReplayError, pytest.fail.Exception)):
        LAWS[law]()
