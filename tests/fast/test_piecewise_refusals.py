"""What tc_piecewise cannot do is refused at once, by name, and leaves earlier buckets usable."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.backends.breaks import eager_on_graph
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.graphs.device import CaptureError, ReplayError
from simcg.ladder import Bucket

torch.set_num_threads(1)


@eager_on_graph
def returning(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@eager_on_graph
def silent(x, out):  # type: ignore[no-untyped-def]  # no annotation: what it returns is unknown
    out.copy_(x)


@eager_on_graph
def lying(x: torch.Tensor) -> None:
    return x.add_(1)  # type: ignore[no-any-return]


@eager_on_graph
def listing(xs: list[torch.Tensor]) -> None:
    xs[0].add_(1)


class Layer:
    """Has a marked method, whose first argument is no tensor."""

    @eager_on_graph
    def attend(self, x: torch.Tensor) -> None:
        x.add_(1)


LAYER = Layer()


def prints(x: torch.Tensor) -> torch.Tensor:
    print(x.sum().item())  # noqa: T201
    return x + 1


def branches(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sum() > 0 else x * 2


def wrong_shapes(x: torch.Tensor) -> torch.Tensor:
    return x @ torch.zeros(2, 2)


def selects(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].sum() + x


def reads(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum().item()


def passes_on(function: Callable[..., Any], *extra: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    def body(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        function(y, *extra)
        return y

    return body


def lists(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    listing([y])
    return y


REFUSED: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "a host read": (prints, r"print.*test_piecewise_refusals.py.*@eager_on_graph"),
    "a branch on values": (branches, r"branching.*test_piecewise_refusals.py.*@eager_on_graph"),
    "shapes that do not fit": (wrong_shapes, r"reduction dim.*test_piecewise_refusals.py:\d+"),
    "a shape that depends on values": (
        selects,
        r"depends on values.*in selects.*@eager_on_graph",
    ),
    "a value on the host": (reads, r"depends on values.*in reads.*@eager_on_graph"),
    "a break that returns": (passes_on(returning), r"returning may return.*-> None"),
    "a break without annotation": (passes_on(silent, torch.ones(1)), r"silent may return"),
    "a break that lies": (passes_on(lying), r"lying returned a value"),
    "a list of tensors": (lists, r"listing got a .*list.*tensors, numbers and strings"),
    "a method": (passes_on(LAYER.attend), r"as_proxy.*test_piecewise_refusals.py:\d+"),
}


def forward_of(
    body: Callable[[torch.Tensor], torch.Tensor], rows: int
) -> Callable[[], torch.Tensor]:
    x, out = torch.ones(rows, 3), torch.zeros(rows, 3)
    return lambda: out.copy_(body(x))


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_what_and_where_in_one_line_and_the_next_capture_works(case: str) -> None:
    body, expected = REFUSED[case]
    backend = TcPiecewise(RecordingCpuDevice())
    with pytest.raises(CaptureError, match=expected) as caught:
        backend.capture_one(Bucket(4), forward_of(body, 4))
    assert "bucket of 4 tokens" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not backend.can_run(Bucket(4))
    fresh = TcPiecewise(RecordingCpuDevice())
    fresh.capture_one(Bucket(4), forward_of(lambda x: x + 1, 4))
    assert fresh.replay(Bucket(4)).eq(2).all()


def test_a_number_that_is_baked_into_the_trace_is_named_when_it_changes() -> None:
    """Rows held as a number fix the trace; the first bucket stays usable."""
    x, out = torch.ones(8, 3), torch.zeros(8, 3)

    def forward(rows: int) -> Callable[[], torch.Tensor]:
        first, target = x[:rows], out[:rows]
        return lambda: target.copy_(first * rows)

    backend = TcPiecewise(RecordingCpuDevice())
    backend.capture_one(Bucket(8), forward(8))
    with pytest.raises(CaptureError, match=r"bucket of 4 tokens.*the trace does not hold.*== 8"):
        backend.capture_one(Bucket(4), forward(4))
    assert backend.replay(Bucket(8)).eq(8).all()


def test_a_branch_on_the_number_of_rows_is_named_when_it_goes_another_way() -> None:
    def branches_on_rows(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] == 8 else x * 2

    backend = TcPiecewise(RecordingCpuDevice())
    backend.capture_one(Bucket(8), forward_of(branches_on_rows, 8))
    with pytest.raises(CaptureError, match=r"does not hold here: .*size.*expected 8, actual 4"):
        backend.capture_one(Bucket(4), forward_of(branches_on_rows, 4))
    assert backend.replay(Bucket(8)).eq(2).all()


def test_a_forward_without_rows_is_refused() -> None:
    x, rows = torch.ones(8, 3), 4
    with pytest.raises(CaptureError, match="holds no tensor of 4 rows"):
        TcPiecewise(RecordingCpuDevice()).capture_one(Bucket(4), lambda: x[:rows] + 1)


def test_a_forward_without_operators_is_refused() -> None:
    x = torch.ones(4, 3)
    with pytest.raises(CaptureError, match="no operator"):
        TcPiecewise(RecordingCpuDevice()).capture_one(Bucket(4), lambda: x)


class Weights:
    """Held by the forward as a model is: Dynamo reads it, and guards what it finds."""

    def __init__(self) -> None:
        self.weight = torch.ones(3, 3)


def captured(weights: Weights) -> TcPiecewise:
    x, out = torch.ones(4, 3), torch.zeros(4, 3)
    backend = TcPiecewise(RecordingCpuDevice())
    backend.capture_one(Bucket(4), lambda: out.copy_(x @ weights.weight))
    return backend


def test_a_replay_whose_guard_fails_names_it_and_works_again_when_it_holds() -> None:
    weights = Weights()
    backend, old = captured(weights), weights.weight
    weights.weight = old.double()
    with pytest.raises(ReplayError, match=r"does not hold here.*weight.*dtype"):
        backend.replay(Bucket(4))
    weights.weight = old
    assert backend.replay(Bucket(4)).eq(3).all()


def test_a_replay_refuses_a_tensor_that_moved_although_its_guard_holds() -> None:
    weights = Weights()
    backend = captured(weights)
    weights.weight = weights.weight.clone()
    with pytest.raises(ReplayError, match=r"shape \(3, 3\)\) has moved since capture"):
        backend.replay(Bucket(4))


def test_a_bucket_is_captured_once_and_replayed_only_then() -> None:
    backend = captured(Weights())
    with pytest.raises(CaptureError, match="captured already"):
        backend.capture_one(Bucket(4), forward_of(lambda x: x, 4))
    with pytest.raises(CaptureError, match=re.escape("bucket of 8 tokens is not captured")):
        backend.replay(Bucket(8))
