"""A plan rewrites every buffer of a shape, at addresses that stay, or is refused in one line."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.attention.cache import KvCache
from real_gpu.attention.metadata import AttentionMetadata, LaunchBounds
from real_gpu.attention.plan import Planner
from simcg.batch import Batch
from simcg.errors import InputError
from tests.decoders import CPU, LLAMA

TOKENS, REQUESTS, SLOTS = 40, 6, 300
FIELDS = ("query_ends", "key_starts", "key_lengths", "slots", "positions")
requests = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=6
)
"""New tokens, cached ones, and free slots before the request's stretch."""


def planner(slots: int = SLOTS) -> Planner:
    return Planner(KvCache.allocate(LLAMA, slots, CPU, torch.float32), TOKENS, REQUESTS)


def as_lists(metadata: AttentionMetadata) -> dict[str, list[int]]:
    return {name: getattr(metadata, name).tolist() for name in FIELDS}


def expected(batch: Batch, starts: list[int], tokens: int, slots: int) -> dict[str, list[int]]:
    """The contract of ``AttentionMetadata``, value by value."""
    n, m = batch.num_tokens, batch.num_requests
    rows = [
        (start + position, position)
        for new, context, start in zip(
            batch.query_tokens, batch.context_tokens, starts, strict=True
        )
        for position in range(context, context + new)
    ] + [(0, 0)] * (tokens - n)
    firsts = [sum(batch.query_tokens[:i]) for i in range(m)]
    lengths = [q + c for q, c in zip(batch.query_tokens, batch.context_tokens, strict=True)]
    return {
        "query_ends": firsts + [n] * (slots + 1 - m),
        "key_starts": starts + [0] * (slots + 1 - m),
        "key_lengths": lengths + [0] * (slots - m),
        "slots": [slot for slot, _ in rows],
        "positions": [position for _, position in rows],
    }


@given(st.lists(st.tuples(requests, st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=3))
def test_every_value_of_a_shape_is_rewritten_whatever_ran_before(
    steps: list[tuple[list[tuple[int, int, int]], int, int]],
) -> None:
    """After any sequence of steps the metadata is that of the last one: nothing is stale."""
    one = planner()
    for sizes, padding, sentinels in steps:
        batch = Batch(tuple(q for q, _, _ in sizes), tuple(c for _, c, _ in sizes))
        starts, end = [], 1
        for query, context, free in sizes:
            starts.append(end + free)
            end = starts[-1] + query + context
        tokens = min(TOKENS, batch.num_tokens + padding)
        slots = min(REQUESTS, batch.num_requests + sentinels)
        bounds = one.write(batch, starts, tokens, slots)
        found = one.metadata(tokens, slots)
        assert as_lists(found) == expected(batch, starts, tokens, slots)
        longest = max(q + c for q, c, _ in sizes)
        assert bounds == LaunchBounds(
            batch.num_tokens, batch.num_requests, max(batch.query_tokens), longest
        )
        baked = one.baked_bounds(tokens, slots)
        for field in ("rows", "requests", "longest_query", "longest_key"):
            assert getattr(bounds, field) <= getattr(baked, field)


@given(st.integers(1, TOKENS), st.integers(1, REQUESTS))
def test_a_shape_keeps_its_addresses_and_its_buffers_do_not_overlap(
    tokens: int, slots: int
) -> None:
    """The same shape is the same aligned memory each time, with the lengths of the contract."""
    one = planner()
    first, again = one.metadata(tokens, slots), one.metadata(tokens, slots)
    spans = []
    for name, length in zip(FIELDS, (slots + 1, slots + 1, slots, tokens, tokens), strict=True):
        a, b = getattr(first, name), getattr(again, name)
        assert a.data_ptr() == b.data_ptr()
        assert (a.shape, a.is_contiguous()) == ((length,), True)
        assert (a.data_ptr() - first.slots.data_ptr()) % 128 == 0
        spans.append((a.data_ptr(), a.data_ptr() + a.nbytes))
    spans.sort()
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


@pytest.mark.parametrize(
    ("batch", "starts", "shape", "message"),
    [
        (((5, 5), (0, 0)), [1, 20], (8, 2), "Planner, tokens: got 8, expected 10 to 40"),
        (((1, 1), (0, 0)), [1, 20], (8, 1), "Planner, requests: got 1, expected 2 to 6"),
        (((1,), (0,)), [1], (41, 1), "Planner, tokens: got 41, expected 1 to 40"),
        (((1, 1), (0, 0)), [1], (2, 2), "Planner, starts: got 1, expected one for each"),
        (((1, 2), (0, 5)), [1, 0], (4, 2), "KV cache, slots of request 1: got (0, 6), expected a"),
        (((1, 2), (0, 5)), [1, 294], (4, 2), "KV cache, slots of request 1: got (294, 300)"),
        (((2, 2), (0, 5)), [8, 2], (4, 2), "KV cache, start of request 0: got 8, expected a str"),
        (((1,), (128,)), [1], (4, 2), "KV cache, request 0: got 129, expected at most 128 tokens"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    batch: tuple[tuple[int, ...], tuple[int, ...]],
    starts: list[int],
    shape: tuple[int, int],
    message: str,
) -> None:
    """One line names the size or the request; the previous plan stays."""
    one = planner()
    before_batch, before_starts = Batch((3,), (2,)), [7]
    one.write(before_batch, before_starts, 4, 2)
    with pytest.raises(InputError) as error:
        one.write(Batch(*batch), starts, *shape)
    assert message in str(error.value)
    assert as_lists(one.metadata(4, 2)) == expected(before_batch, before_starts, 4, 2)


@given(st.integers(1, TOKENS), st.integers(1, REQUESTS), st.integers(2, 60))
def test_an_idle_plan_writes_the_sink_alone(tokens: int, slots: int, room: int) -> None:
    """Warm-ups run one request that reads inside the cache and writes slot 0 only."""
    one = planner(room)
    bounds = one.write_idle(tokens, slots)
    found = as_lists(one.metadata(tokens, slots))
    assert found["slots"] == [0] * tokens
    assert found["query_ends"] == [0] + [tokens] * slots
    assert found["key_starts"] == [0] * (slots + 1)
    assert found["key_lengths"] == [min(tokens, room - 1)] + [0] * (slots - 1)
    assert all(0 <= position < room for position in found["positions"])
    assert bounds == LaunchBounds(tokens, 1, tokens, min(tokens, room - 1))


def test_the_last_slot_is_usable_and_a_cache_needs_two() -> None:
    """A stretch may end at the last slot; slot 0 alone is no cache."""
    one = planner(slots=10)
    one.write(Batch((4,), (5,)), [1], 4, 1)
    assert one.metadata(4, 1).slots.tolist() == [6, 7, 8, 9]
    with pytest.raises(InputError, match="at least 2"):
        planner(slots=1)
