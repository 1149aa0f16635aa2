"""What the capturing backends must do; each function is a law and takes a kit to do it with.

``tests/fast`` runs them on the CPU device, ``tests/gpu`` on a GPU, ``tests/power`` on mutants.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from real_gpu.backends.breaks import eager_on_graph
from real_gpu.backends.eager import Eager
from real_gpu.graphs.arena import Arena
from simcg.ladder import Bucket
from tests.backend_error_laws import ERROR_LAWS
from tests.backend_kit import MIB, Kit, Law, Make, add_into, block_of
from tests.backend_memory_laws import MEMORY_LAWS
from tests.programs import EVERY_STEP, Buffers, Step, forward_of


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


def an_output_in_the_pool_is_what_a_replay_yields(kit: Kit) -> None:
    source = kit.ones(8)
    for make in (kit.full, kit.breakable):
        backend = make(kit.device)
        backend.capture_one(Bucket(2), lambda: source * 3)
        backend.capture_one(Bucket(1), lambda: source * 5)
        assert backend.replay(Bucket(2)).tolist() == [3.0] * 8
        assert backend.replay(Bucket(1)).tolist() == [5.0] * 8


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


REPLAY_LAWS: tuple[Law, ...] = (
    breakable_replays_equal_eager,
    full_replays_equal_eager,
    the_whole_forward_as_a_break_equals_eager,
    debug_graph_captures_no_operator,
    segments_and_breaks_are_counted,
    an_argument_from_outside_outlives_its_owner,
    an_argument_of_another_bucket_is_held,
    an_output_in_the_pool_is_what_a_replay_yields,
    a_result_outlives_the_capture,
    breaks_run_once_a_replay_and_see_live_host_values,
)

LAWS: dict[str, Law] = {law.__name__: law for law in (*REPLAY_LAWS, *MEMORY_LAWS, *ERROR_LAWS)}
