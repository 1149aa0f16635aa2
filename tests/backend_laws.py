"""What the capturing backends must do; each function is a law and takes a kit to do it with.

``tests/fast`` runs them on the CPU device, ``tests/gpu`` on a GPU, ``tests/power`` on mutants.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from real_gpu.backends.breaks import eager_on_graph
from real_gpu.backends.capture import GraphBackend
from real_gpu.backends.eager import Eager
from real_gpu.graphs.arena import Arena
from real_gpu.graphs.device import CaptureError, GraphDevice, ReplayError
from simcg.ladder import Bucket
from tests.programs import EVERY_STEP, Buffers, Step, forward_of

MIB = 1 << 20


@dataclass(frozen=True)
class Kit:
    """A graph device and the backends on it."""

    device: GraphDevice
    full: Callable[[GraphDevice], GraphBackend]
    breakable: Callable[[GraphDevice], GraphBackend]
    debug_graph: Callable[[GraphDevice], GraphBackend]

    def zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros(*shape, device=self.device.device)

    def ones(self, *shape: int) -> torch.Tensor:
        return torch.ones(*shape, device=self.device.device)


Law = Callable[[Kit], None]
Make = Callable[[GraphDevice], GraphBackend]


def replays_equal_eager(
    kit: Kit,
    make: Make,
    program: list[Step],
    buckets: Sequence[Bucket],
    order: Sequence[int],
) -> None:
    """Every replay equals eager at the same padded size bit for bit, whatever ran before.

    Free pool blocks and the output hold poison before each replay.
    """
    buffers = Buffers.on(kit.device.device, max(b.num_tokens for b in buckets))
    graphs, eager = make(kit.device), Eager()
    for bucket in buckets:
        forward = forward_of(program, buffers, bucket.num_tokens)
        graphs.capture_one(bucket, forward)
        eager.capture_one(bucket, forward)
    for epoch, pick in enumerate(order):
        bucket = buckets[pick % len(buckets)]
        buffers.rewrite(seed=epoch + pick)
        expected = eager.replay(bucket).clone()
        buffers.out.fill_(-1)
        kit.device.fill_free(graphs.pool, 0x7F if epoch % 2 else 0xFF)
        assert torch.equal(graphs.replay(bucket), expected)
    graphs.cleanup()


THREE = (Bucket(9), Bucket(4), Bucket(1))
ORDER = (0, 2, 1, 1, 0, 2, 2, 0)


def breakable_replays_equal_eager(kit: Kit) -> None:
    replays_equal_eager(kit, kit.breakable, EVERY_STEP, THREE, ORDER)


def full_replays_equal_eager(kit: Kit) -> None:
    """Without breaks, as a break reads a host value."""
    steps = [step for step in EVERY_STEP if not step[0].startswith("break")]
    replays_equal_eager(kit, kit.full, steps, THREE, ORDER)


def the_whole_forward_as_a_break_equals_eager(kit: Kit) -> None:
    replays_equal_eager(kit, kit.debug_graph, EVERY_STEP, THREE, ORDER)


def debug_graph_captures_no_operator(kit: Kit) -> None:
    buffers = Buffers.on(kit.device.device, 4)
    figures = kit.debug_graph(kit.device).capture_one(Bucket(4), forward_of(EVERY_STEP, buffers, 4))
    assert (figures.nodes, figures.segments, figures.breaks) == (0, 0, 1)


def segments_and_breaks_are_counted(kit: Kit) -> None:
    """A break inside a break is a plain call, and an empty segment is no segment."""
    buffers = Buffers.on(kit.device.device, 4)
    steps = [("break returns", 0, 0), ("break into", 0, 0), ("add", 0, 1)]
    figures = kit.breakable(kit.device).capture_one(Bucket(4), forward_of(steps, buffers, 4))
    assert (figures.segments, figures.breaks) == (2, 2)
    assert figures.nodes >= 4
    assert figures.pool_bytes >= 2 * MIB
    assert figures.compile_ns == 0
    assert min(figures.warm_up_ns, figures.capture_ns) > 0


@eager_on_graph
def add_into(source: torch.Tensor, addend: torch.Tensor, out: torch.Tensor) -> None:
    torch.add(source, addend, out=out)


def block_of(kit: Kit, arena: Arena, value: float, count: int) -> torch.Tensor:
    """A tensor outside the pool whose block goes to the next such tensor when it is dropped."""
    if kit.device.device.type == "cuda":
        return torch.full((count,), value, device=kit.device.device)
    storage = arena.storage(4 * count)
    return torch.empty(0).set_(storage, 0, (count,), (1,)).fill_(value)


def an_argument_from_outside_outlives_its_owner(kit: Kit) -> None:
    """Dropped after capture, its block would get another owner, whose data the break would read."""
    arena, backend = Arena(), kit.breakable(kit.device)
    source, out = kit.ones(1000), kit.zeros(1000)
    held = [block_of(kit, arena, 3.0, 1000)]

    def forward() -> torch.Tensor:
        between = torch.empty_like(source)
        add_into(source, held[0], between)
        out.copy_(between)
        return out

    backend.capture_one(Bucket(1), forward)
    held.clear()
    new_owner = block_of(kit, arena, -7.0, 1000)
    assert backend.replay(Bucket(1)).tolist() == [4.0] * 1000
    assert new_owner.tolist() == [-7.0] * 1000


def an_argument_of_another_bucket_is_held(kit: Kit) -> None:
    """A tensor that an earlier capture left in the pool is not defined by this one's replay."""
    backend, source, out = kit.breakable(kit.device), kit.ones(1000), kit.zeros(1000)
    shared: list[torch.Tensor] = []

    def first() -> torch.Tensor:
        shared.append(source + 4)
        return out

    def second() -> torch.Tensor:
        between = torch.empty_like(source)
        add_into(source, shared[-1], between)
        out.copy_(between)
        return out

    def third() -> torch.Tensor:
        out.copy_((source + 10) * 2)
        return out

    for size, forward in ((3, first), (2, second)):
        backend.capture_one(Bucket(size), forward)
    shared.clear()
    backend.capture_one(Bucket(1), third)
    for size in (3, 1, 2):
        backend.replay(Bucket(size))
    assert out.tolist() == [6.0] * 1000


def _chain(kit: Kit, rows: int, layers: int, returns: bool) -> Callable[[], torch.Tensor]:
    """Layers of 4 KiB a row, each with a break that reads and makes one activation."""
    source, out = kit.ones(1024, 1024), kit.zeros(1024, 1024)

    @eager_on_graph
    def into(x: torch.Tensor, y: torch.Tensor) -> None:
        torch.add(x, 1, out=y)

    @eager_on_graph
    def of(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def forward() -> torch.Tensor:
        x = source[:rows] + 0
        for _ in range(layers):
            x = x * 1
            if returns:
                x = of(x)
            else:
                y = torch.empty_like(x)
                into(x, y)
                x = y
        out[:rows].copy_(x)
        return out[:rows]

    return forward


def pool_memory_is_that_of_eager(kit: Kit) -> None:
    """However many breaks, the pool is at most 1.15 times that of the same forward in one graph.

    For returned tensors too: their boundary buffers are among the activations.
    """
    for returns in (False, True):
        whole, broken = kit.full(kit.device), kit.breakable(kit.device)
        forward = _chain(kit, 1024, 12, returns)
        peak = whole.capture_one(Bucket(1024), forward).pool_bytes
        figures = broken.capture_one(Bucket(1024), forward)
        assert figures.breaks == 12
        assert figures.pool_bytes <= 1.15 * peak
        assert broken.replay(Bucket(1024)).eq(13).all()


def smaller_buckets_need_no_more_memory(kit: Kit) -> None:
    """Captured largest first, a ladder's pool is that of its largest bucket."""
    backend = kit.breakable(kit.device)
    sizes = (1024, 700, 512, 300)
    reserved, pools = [], []
    for size in sizes:
        figures = backend.capture_one(Bucket(size), _chain(kit, size, 3, returns=True))
        reserved.append(figures.pool_bytes)
        pools.append(backend.pool)
    assert all(pool is pools[0] for pool in pools)
    assert set(reserved) == {reserved[0]}
    for size in (300, 1024, 512, 700):
        assert backend.replay(Bucket(size)).eq(4).all()


def an_output_in_the_pool_is_what_a_replay_yields(kit: Kit) -> None:
    source = kit.ones(8)
    for make in (kit.full, kit.breakable):
        backend = make(kit.device)
        backend.capture_one(Bucket(2), lambda: source * 3)
        backend.capture_one(Bucket(1), lambda: source * 5)
        assert backend.replay(Bucket(2)).tolist() == [3.0] * 8
        assert backend.replay(Bucket(1)).tolist() == [5.0] * 8


def outputs_of_all_buckets_share_memory(kit: Kit) -> None:
    """An output in the pool is valid until the next replay, so it takes no memory of its own."""
    source = kit.ones(1024, 1024)
    for make in (kit.full, kit.breakable):
        backend = make(kit.device)
        reserved = [
            backend.capture_one(Bucket(size), lambda: source * 2 + 1).pool_bytes
            for size in range(9, 0, -1)
        ]
        assert set(reserved) == {reserved[0]}


def a_result_outlives_the_capture(kit: Kit) -> None:
    """What a break returned lies in a buffer of the pool, not where the break had put it."""
    arena, backend = Arena(), kit.breakable(kit.device)
    source, out = kit.ones(1000), kit.zeros(1000)

    @eager_on_graph
    def gives(x: torch.Tensor) -> torch.Tensor:
        return block_of(kit, arena, 0.0, 1000).copy_(x)

    def forward() -> torch.Tensor:
        out.copy_(gives(source * 2) + 1)
        return out

    backend.capture_one(Bucket(1), forward)
    new_owner = block_of(kit, arena, -7.0, 1000)
    assert backend.replay(Bucket(1)).tolist() == [3.0] * 1000
    assert new_owner.tolist() == [-7.0] * 1000


def a_failed_capture_keeps_no_memory_while_its_error_lives(kit: Kit) -> None:
    source = kit.ones(MIB)

    def forward() -> torch.Tensor:
        x = source + 1
        y = x * 2
        if kit.device.recording:
            raise ValueError(f"no {len(y)}")
        return y

    backend = kit.full(kit.device)
    backend.capture_one(Bucket(9), lambda: source + 0)
    before = kit.device.memory().live
    with pytest.raises(CaptureError) as caught:
        backend.capture_one(Bucket(8), forward)
    assert caught.value.__cause__ is not None
    assert kit.device.memory().live == before


def _state(kit: Kit) -> tuple[object, ...]:
    generator = torch.get_rng_state()
    return kit.device.recording, gc.isenabled(), torch.is_grad_enabled(), generator.tolist()


def a_failed_capture_leaves_all_as_it_was(kit: Kit) -> None:
    """Earlier buckets replay, later captures work, the error names bucket and place."""

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
        (Bucket(2, 2), reads_the_host, r"bucket of 2 tokens.*backend_laws.py:\d+: return source"),
    ):
        with pytest.raises(CaptureError, match=text):
            backend.capture_one(key, bad)
        assert not backend.can_run(key)
        assert _state(kit) == before
    assert backend.replay(Bucket(4, 2)).tolist() == [6.0] * 4
    fails[0] = False
    again = backend.capture_one(Bucket(1, 2), forward)
    assert again.pool_bytes == figures.pool_bytes
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


def a_released_ladder_gives_its_memory_back(kit: Kit) -> None:
    backend, source = kit.full(kit.device), kit.ones(MIB)
    before = kit.device.memory().live
    kept = backend.capture_one(Bucket(1), lambda: source + 1)
    backend.cleanup()
    assert kept.pool_bytes >= 4 * MIB
    assert kit.device.memory().live == before


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
    sparse = torch.sparse_coo_tensor(
        torch.tensor([[0]]), torch.ones(1), (2,), check_invariants=False
    )
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


def breaks_run_once_a_replay_and_see_live_host_values(kit: Kit) -> None:
    calls: list[int] = []
    live = {"n": 1}
    source, out = kit.ones(4), kit.zeros(4)

    @eager_on_graph
    def rows(x: torch.Tensor) -> None:
        calls.append(live["n"])
        x[: live["n"]].zero_()

    def forward() -> torch.Tensor:
        x = source + 0
        rows(x)
        out.copy_(x)
        return out

    backend = kit.breakable(kit.device)
    backend.capture_one(Bucket(4), forward)
    assert calls == [1, 1, 1]
    for n in (3, 0, 2):
        live["n"] = n
        assert backend.replay(Bucket(4)).tolist() == [0.0] * n + [1.0] * (4 - n)
    assert calls == [1, 1, 1, 3, 0, 2]


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (
        breakable_replays_equal_eager,
        full_replays_equal_eager,
        the_whole_forward_as_a_break_equals_eager,
        debug_graph_captures_no_operator,
        segments_and_breaks_are_counted,
        an_argument_from_outside_outlives_its_owner,
        an_argument_of_another_bucket_is_held,
        pool_memory_is_that_of_eager,
        smaller_buckets_need_no_more_memory,
        an_output_in_the_pool_is_what_a_replay_yields,
        outputs_of_all_buckets_share_memory,
        a_result_outlives_the_capture,
        a_failed_capture_keeps_no_memory_while_its_error_lives,
        a_failed_capture_leaves_all_as_it_was,
        a_swallowed_exception_of_a_break_is_refused,
        an_exception_of_a_break_at_replay_leaves_the_backend_usable,
        keys_are_captured_once_and_replayed_after,
        a_released_ladder_gives_its_memory_back,
        a_result_that_changes_at_replay_is_an_error,
        what_cannot_cross_a_break_is_refused,
        a_forward_must_return_a_tensor,
        breaks_run_once_a_replay_and_see_live_host_values,
    )
}
