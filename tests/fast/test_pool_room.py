"""A pool that starts as one block takes little more than the peak, for the models at hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcg.cost.memory import POOL_HEADROOM
from simcg.model.activations import peak_activation_bytes
from simcg.model.catalog import architecture_named
from simcg.model.lean import lean_pass
from tests.allocator import MIB, Allocator, run_in

SIZES = (8192, 4096, 3000, 1024, 520, 100, 16)
LAYERS = 5
MOST = 1.15
"""Reserved bytes of a ladder's pool over the activation peak of its largest bucket."""
BREAKS = ("flash_out", "flash_sums")
"""What only the attention allocates, in a break outside the pool."""
MODELS = ("qwen3-8b", "llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b")


def pool_over_peak(name: str, headroom: float, outside: tuple[str, ...]) -> float:
    """Captured largest first; a few layers, as every layer leaves the pool as it found it."""
    forward = lean_pass(architecture_named(name))
    forward = replace(forward, layers=forward.layers[:LAYERS])
    pool, peak = Allocator(), peak_activation_bytes(forward, SIZES[0])
    if headroom:
        pool.give(pool.take(int(headroom * peak)))
    for rows in SIZES:
        run_in(pool, forward, rows, outside)
    return pool.reserved / peak


@pytest.mark.parametrize("outside", [(), BREAKS], ids=["full", "breakable"])
@pytest.mark.parametrize("name", MODELS)
def test_a_ladders_pool_is_little_more_than_the_peak(name: str, outside: tuple[str, ...]) -> None:
    assert pool_over_peak(name, POOL_HEADROOM, outside) <= MOST
    assert pool_over_peak(name, 0, outside) > MOST


def test_the_allocator_keeps_small_and_large_apart_and_joins_what_lay_together() -> None:
    """Small tensors share 2 MiB, middle ones 20 MiB, large ones have segments of their own; free
    neighbours of one segment are one block, those of two segments never are.
    """
    pool = Allocator()
    small = [pool.take(700 << 10), pool.take(700 << 10)]
    assert pool.reserved == 2 * MIB
    middle = [pool.take(8 * MIB), pool.take(9 * MIB)]
    assert pool.reserved == 22 * MIB
    large = pool.take(11 * MIB + 1)
    assert pool.reserved == 34 * MIB
    for block in (*small, *middle, large):
        pool.give(block)
    whole = pool.take(20 * MIB)
    assert (whole.segment, whole.offset, pool.reserved) == (middle[0].segment, 0, 34 * MIB)
    pool.take(13 * MIB)
    assert pool.reserved == 48 * MIB
