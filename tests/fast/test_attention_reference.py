"""The reference attention against a loop over requests, and what must not reach a real row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.attention.cache import KvCache
from real_gpu.attention.metadata import LaunchBounds
from real_gpu.attention.plan import Planner
from real_gpu.attention.reference import reference_attention
from simcg.batch import Batch
from tests.decoders import CPU, LLAMA

HEADS, KV, DIM = LLAMA.heads, LLAMA.kv_heads, LLAMA.head_dim
SLOTS = 200


@dataclass(frozen=True)
class Case:
    """A batch in a cache, and how its attention is launched.

    ``poison``: NaN wherever no real row looks.
    """

    batch: Batch
    starts: list[int]
    window: int | None
    padding: int
    sentinels: int
    in_graph: bool
    poison: bool


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """One to four requests in any order of the cache, with gaps between their stretches."""
    sizes = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 12)), min_size=1, max_size=4))
    starts, slot = [0] * len(sizes), 1
    for i in draw(st.permutations(range(len(sizes)))):
        starts[i] = slot + draw(st.integers(0, 5))
        slot = starts[i] + sum(sizes[i])
    return Case(
        Batch(tuple(q for q, _ in sizes), tuple(c for _, c in sizes)),
        starts,
        draw(st.sampled_from([None, 1, 3, 50])),
        draw(st.integers(0, 5)),
        draw(st.integers(0, 3)),
        draw(st.booleans()),
        draw(st.booleans()),
    )


def random_values(seed: int, *shape: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=source, dtype=torch.float64)


def naive(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, case: Case) -> torch.Tensor:
    """Softmax attention, one query, one head and one key at a time."""
    out = torch.zeros_like(q)
    row, batch = 0, case.batch
    requests = zip(batch.query_tokens, batch.context_tokens, case.starts, strict=True)
    for new, context, start in requests:
        for position in range(context, context + new):
            first = 0 if case.window is None else max(0, position + 1 - case.window)
            for head in range(HEADS):
                kv = head // (HEADS // KV)
                span = range(start + first, start + position + 1)
                scores = [float(q[row, head] @ keys[s, kv]) / math.sqrt(DIM) for s in span]
                shares = [math.exp(score - max(scores)) for score in scores]
                for share, s in zip(shares, span, strict=True):
                    out[row, head] += share / sum(shares) * values[s, kv]
            row += 1
    return out


def poison(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, case: Case) -> None:
    """NaN in rows of padding and in every slot that no request owns."""
    foreign = torch.ones(SLOTS, dtype=torch.bool)
    requests = zip(case.batch.query_tokens, case.batch.context_tokens, case.starts, strict=True)
    for new, context, start in requests:
        foreign[start : start + context + new] = False
    q[case.batch.num_tokens :] = float("nan")
    keys[foreign] = values[foreign] = float("nan")


@settings(max_examples=60)
@given(cases())
def test_it_is_softmax_attention_request_by_request(case: Case) -> None:
    """With contexts, windows and grouped heads it equals a loop over single keys, to 1e-12.

    Padded rows, sentinels, baked bounds and NaN in padding and foreign slots change nothing.
    """
    n, m = case.batch.num_tokens, case.batch.num_requests
    tokens, requests = n + case.padding, m + case.sentinels
    planner = Planner(KvCache.allocate(LLAMA, SLOTS, CPU, torch.float64), tokens, requests)
    bounds = planner.write(case.batch, case.starts, tokens, requests)
    if case.in_graph:
        bounds = LaunchBounds(tokens, requests, tokens, 40)
    metadata = planner.metadata(tokens, requests).first(bounds.rows, bounds.requests)
    q = random_values(0, tokens, HEADS, DIM)
    keys, values = random_values(1, SLOTS, KV, DIM), random_values(2, SLOTS, KV, DIM)
    expected = naive(q[:n], keys, values, case)
    if case.poison:
        poison(q, keys, values, case)
    q = q[: bounds.rows]
    found = reference_attention(q, keys, values, metadata, bounds, case.window)
    assert found.shape == q.shape
    assert torch.allclose(found[:n], expected, rtol=0, atol=1e-12)


def test_a_foreign_nan_stays_out_but_an_own_one_does_not() -> None:
    """NaN in a slot that a request owns reaches its rows from there on: nothing is hidden."""
    batch, starts = Batch((4,), (2,)), [3]
    cache = KvCache.allocate(LLAMA, SLOTS, CPU, torch.float64)
    planner = Planner(cache, 4, 1)
    bounds = planner.write(batch, starts, 4, 1)
    q, keys = random_values(0, 4, HEADS, DIM), random_values(1, SLOTS, KV, DIM)
    values = random_values(2, SLOTS, KV, DIM)
    values[3 + 4] = float("nan")  # the key of the third new token
    out = reference_attention(q, keys, values, planner.metadata(4, 1), bounds, None)
    assert out.isnan().flatten(1).any(1).tolist() == [False, False, True, True]


def test_rows_of_no_request_are_nan() -> None:
    """Padding that leaks into a real row is found out, as its result is no number."""
    batch = Batch((2, 1), (0, 3))
    cache = KvCache.allocate(LLAMA, SLOTS, CPU, torch.float64)
    planner = Planner(cache, 6, 4)
    planner.write(batch, [1, 20], 6, 4)
    q, keys = random_values(0, 6, HEADS, DIM), random_values(1, SLOTS, KV, DIM)
    bounds = planner.baked_bounds(6, 4)
    out = reference_attention(q, keys, keys, planner.metadata(6, 4), bounds, None)
    assert out.isnan().flatten(1).all(1).tolist() == [False] * 3 + [True] * 3


@given(st.integers(1, 12), st.integers(0, 20))
def test_a_bound_that_is_too_small_shows(new: int, context: int) -> None:
    """A longest key below the batch's own loses keys, as a launch that baked it in would."""
    batch, length = Batch((new,), (context,)), new + context
    cache = KvCache.allocate(LLAMA, SLOTS, CPU, torch.float64)
    planner = Planner(cache, new, 1)
    good = planner.write(batch, [1], new, 1)
    assert good == LaunchBounds(new, 1, new, length)
    q, keys = random_values(0, new, HEADS, DIM), random_values(1, SLOTS, KV, DIM)
    values = random_values(2, SLOTS, KV, DIM)
    bounds = [good, LaunchBounds(new, 1, new, length + 7), LaunchBounds(new, 1, new, length - 1)]
    if length == 1:
        bounds.pop()
    metadata = planner.metadata(new, 1)
    results = [reference_attention(q, keys, values, metadata, b, None) for b in bounds]
    equal = [torch.allclose(a, b, rtol=0, atol=1e-12) for a, b in pairwise(results)]
    assert equal == [True, False][: len(equal)]
