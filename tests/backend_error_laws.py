"""What the capturing backends refuse and survive; see ``backend_laws``."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch

from real_gpu.backends.breaks import eager_on_graph
from real_gpu.backends.eager import Eager
from real_gpu.graphs.device import CaptureError, ReplayError
from simcg.ladder import Bucket
from tests.backend_kit import Kit, Law, add_into


def _state(kit: Kit) -> tuple[object, ...]:
    generator = torch.get_rng_state()
    return kit.device.recording, gc.isenabled(), torch.is_grad_enabled(), generator.tolist()


def a_failed_capture_leaves_all_as_it_was(kit: Kit) -> None:
    """Earlier buckets replay, later captures work, the error names bucket and place.

    The pool goes on too. On CUDA a broken capture (not one that the forward's own exception ends)
    costs a second pool of the same size, as the first one's handle records no more.
    """

    @eager_on_graph
    def broken(_: torch.Tensor) -> torch.Tensor:
        raise KeyError("no such layer")

    source, out = kit.ones(4), kit.zeros(4)
    fails = [False]

    def forward() -> torch.Tensor:
        torch.rand(3)
        x = source + 1
        y = torch.empty_like(x)
        add_into(x, source, y)
        if fails[0] and kit.device.recording:
            broken(y)
        out.copy_(y * 2)
        return out

    def reads_the_host() -> torch.Tensor:
        return source * float(source.sum() if kit.device.recording else 1.0)

    backend = kit.breakable(kit.device)
    before = _state(kit)
    figures = backend.capture_one(Bucket(4, 2), forward)
    fails[0] = True
    for key, bad, text in (
        (
            Bucket(3, 2),
            forward,
            r"bucket of 3 tokens, 2 request slots.*no such layer.*raise KeyError",
        ),
        (Bucket(2, 2), reads_the_host, r"bucket of 2 tokens.*_laws.py:\d+: return source"),
    ):
        with pytest.raises(CaptureError, match=text):
            backend.capture_one(key, bad)
        assert not backend.can_run(key)
        assert _state(kit) == before
    assert backend.replay(Bucket(4, 2)).tolist() == [6.0] * 4
    fails[0] = False
    again = backend.capture_one(Bucket(1, 2), forward)
    pools = 2 if kit.device.device.type == "cuda" else 1
    assert figures.pool_bytes <= again.pool_bytes <= pools * figures.pool_bytes
    source.fill_(2)
    for key in (Bucket(1, 2), Bucket(4, 2)):
        assert backend.replay(key).tolist() == [10.0] * 4


def a_swallowed_exception_of_a_break_is_refused(kit: Kit) -> None:
    @eager_on_graph
    def fails(_: torch.Tensor) -> None:
        raise ValueError("not one")

    source = kit.ones(4)

    def forward() -> torch.Tensor:
        x = source + 1
        try:
            fails(x)
        except ValueError:
            x = x * 2
        return x + 1

    backend = kit.breakable(kit.device)
    with pytest.raises(CaptureError, match=r"caught an exception of a break.*not one"):
        backend.capture_one(Bucket(1), forward)
    assert not kit.device.recording
    backend.capture_one(Bucket(1), lambda: source + 1)
    assert backend.replay(Bucket(1)).tolist() == [2.0] * 4


def an_exception_of_a_break_at_replay_leaves_the_backend_usable(kit: Kit) -> None:
    angry = [False]
    source, out = kit.ones(4), kit.zeros(4)

    @eager_on_graph
    def moody(x: torch.Tensor) -> None:
        if angry[0]:
            raise ValueError("angry")
        x.add_(1)

    def forward() -> torch.Tensor:
        x = source * 2
        moody(x)
        out.copy_(x)
        return out

    backend = kit.breakable(kit.device)
    backend.capture_one(Bucket(1), forward)
    angry[0] = True
    with pytest.raises(ValueError, match="angry"):
        backend.replay(Bucket(1))
    angry[0] = False
    assert backend.replay(Bucket(1)).tolist() == [3.0] * 4


def keys_are_captured_once_and_replayed_after(kit: Kit) -> None:
    source = kit.ones(4)
    for backend in (kit.full(kit.device), kit.breakable(kit.device), Eager()):
        with pytest.raises(CaptureError, match="bucket of 8 tokens is not captured"):
            backend.replay(Bucket(8))
        backend.capture_one(Bucket(8), lambda: source + 1)
        with pytest.raises(CaptureError, match="captured already"):
            backend.capture_one(Bucket(8), lambda: source + 2)
        assert [backend.can_run(Bucket(size)) for size in (8, 4)] == [True, False]
        assert backend.replay(Bucket(8)).tolist() == [2.0] * 4
        backend.cleanup()
        assert not backend.can_run(Bucket(8))
        backend.capture_one(Bucket(8), lambda: source + 3)
        assert backend.replay(Bucket(8)).tolist() == [4.0] * 4


def a_result_that_changes_at_replay_is_an_error(kit: Kit) -> None:
    """Another shape, dtype, nesting or plain value: the next segment has the old one baked in."""
    source = kit.ones(4)
    result: list[Any] = [None]

    @eager_on_graph
    def gives(_: torch.Tensor) -> Any:
        return result[0]

    def forward() -> torch.Tensor:
        got = gives(source)
        return (got["x"] if isinstance(got, dict) else got) + 1

    for first, then in (
        (kit.ones(4), kit.ones(3)),
        (kit.ones(4), kit.ones(4).double()),
        (kit.ones(4), None),
        (7, 8),
        ({"x": kit.ones(4), "k": 1}, {"x": kit.ones(4), "k": 2}),
        ({"x": kit.ones(4), "k": 1}, {"x": kit.ones(4), "n": 1}),
    ):
        backend = kit.breakable(kit.device)
        result[0] = first
        if isinstance(first, int):
            backend.capture_one(Bucket(1), lambda: source + gives(source))
        else:
            backend.capture_one(Bucket(1), forward)
        backend.replay(Bucket(1))
        result[0] = then
        with pytest.raises(ReplayError, match=r"a break returned .*at capture"):
            backend.replay(Bucket(1))


def what_cannot_cross_a_break_is_refused(kit: Kit) -> None:
    source = kit.ones(4)
    pooled: list[torch.Tensor] = []

    @eager_on_graph
    def same(x: Any, give: Callable[[Any], Any]) -> Any:
        return give(x)

    both = torch.ones(2, 2, device=kit.device.device)
    with torch.sparse.check_sparse_tensor_invariants(enable=True):
        sparse = torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1), (2,))
    cases: list[tuple[Callable[[torch.Tensor], Any], Any, str]] = [
        (lambda x: x, None, "returns one of its arguments or a view"),
        (lambda x: x[1:], None, "returns one of its arguments or a view"),
        (lambda _: (both, both), None, "the same memory twice"),
        (lambda _: {1, 2}, None, "returns a set"),
        (lambda _: pooled[-1], None, "memory of the graph's pool"),
        (lambda _: sparse, None, "only strided"),
        (lambda _: torch.ones(2, device="meta"), None, "a tensor on meta"),
        (lambda _: None, sparse, "argument has layout"),
    ]
    for give, argument, text in cases:

        def forward(give: Any = give, argument: Any = argument) -> torch.Tensor:
            x = source + 1
            pooled.append(source + 2)
            same(x if argument is None else argument, give)
            return x

        with pytest.raises(CaptureError, match=text):
            kit.breakable(kit.device).capture_one(Bucket(1), forward)
        assert not kit.device.recording
        pooled.clear()


def a_forward_must_return_a_tensor(kit: Kit) -> None:
    for make in (kit.full, kit.breakable):
        backend = make(kit.device)
        with pytest.raises(CaptureError, match="must return a tensor on"):
            backend.capture_one(Bucket(1), lambda: None)
        assert not kit.device.recording


ERROR_LAWS: tuple[Law, ...] = (
    a_failed_capture_leaves_all_as_it_was,
    a_swallowed_exception_of_a_break_is_refused,
    an_exception_of_a_break_at_replay_leaves_the_backend_usable,
    keys_are_captured_once_and_replayed_after,
    a_result_that_changes_at_replay_is_an_error,
    what_cannot_cross_a_break_is_refused,
    a_forward_must_return_a_tensor,
)
