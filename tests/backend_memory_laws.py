"""What the capturing backends hold and give back; see ``backend_laws``."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch

from real_gpu.backends.breaks import eager_on_graph
from real_gpu.graphs.device import CaptureError
from simcg.ladder import Bucket
from tests.backend_kit import MIB, Kit, Law


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


def a_pool_is_little_more_than_the_peak(kit: Kit) -> None:
    """A tensor that fits where two others died together takes no memory of its own."""

    def forward() -> torch.Tensor:
        wide = kit.ones(6 * MIB)
        total = (wide + 1).sum()
        del wide
        return (kit.ones(10 * MIB).sum() + total).reshape(1)

    for make in (kit.full, kit.breakable):
        peak = kit.device.peak_bytes(forward)
        pool = make(kit.device).capture_one(Bucket(1), forward).pool_bytes
        assert 48 * MIB <= peak <= 49 * MIB
        assert peak <= pool <= 1.15 * peak + 2 * MIB  # small tensors have a segment of their own


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


def a_released_ladder_gives_its_memory_back(kit: Kit) -> None:
    gc.collect()  # what other tests left behind may go at any moment
    backend, source = kit.full(kit.device), kit.ones(MIB)
    before = kit.device.memory().live
    kept = backend.capture_one(Bucket(1), lambda: source + 1)
    backend.cleanup()
    assert kept.pool_bytes >= 4 * MIB
    assert kit.device.memory().live <= before


MEMORY_LAWS: tuple[Law, ...] = (
    pool_memory_is_that_of_eager,
    a_pool_is_little_more_than_the_peak,
    smaller_buckets_need_no_more_memory,
    outputs_of_all_buckets_share_memory,
    a_failed_capture_keeps_no_memory_while_its_error_lives,
    a_released_ladder_gives_its_memory_back,
)
