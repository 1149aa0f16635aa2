"""The default ladders have their published counts and shapes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.engines import (
    LADDER_RULES,
    Deployment,
    ladder_rule_named,
    ladder_rule_sizes,
)
from simcg.engines.sizes import sglang_prefill_sizes, tensorrt_llm_prefill_sizes, vllm_sizes
from simcg.errors import InputError
from simcg.ladder import EAGER_INDEX, AdmissionRule, Ladder, dispatch

COUNTS = {
    "sglang-prefill": {2048: 42, 4096: 50, 8192: 58, 16384: 74},
    "sglang-decode": {256: 36, 512: 52},
    "sglang-decode-speculative": {256: 51, 512: 67},
    "tensorrt-llm-decode": {128: 19, 256: 21, 1024: 33, 2048: 49},
    "tensorrt-llm-prefill": {8192: 20},
    "tokenspeed-prefill": {2048: 40, 4096: 48, 8192: 56, 16384: 72},
}


@pytest.mark.parametrize(
    ("name", "limit", "count"),
    [(name, limit, count) for name, row in COUNTS.items() for limit, count in row.items()],
)
def test_published_count(name: str, limit: int, count: int) -> None:
    """The rule gives as many sizes as the engine is known to capture, the limit on top."""
    sizes = ladder_rule_sizes(name, limit)
    assert len(sizes) == count
    assert sizes[-1] == (3072 if name == "tensorrt-llm-prefill" else limit)


@pytest.mark.parametrize(("max_num_seqs", "count"), [(16, 7), (64, 19), (128, 35), (256, 51)])
def test_vllm_count(max_num_seqs: int, count: int) -> None:
    """vLLM's count follows max_num_seqs."""
    deployment = Deployment(max_num_seqs=max_num_seqs)
    sizes = ladder_rule_sizes("vllm", 8192, deployment)
    assert len(sizes) == count
    assert sizes[-1] == 2 * max_num_seqs


def test_vllm_ceiling_doubles_on_datacenter_blackwell() -> None:
    """512 tokens elsewhere, 1024 there."""
    assert vllm_sizes(8192, 1024)[-1] == 512
    assert vllm_sizes(8192, 1024, is_datacenter_blackwell=True)[-1] == 1024


def test_vllm_appends_both_limits_within_its_maximum() -> None:
    """max_num_seqs 100 and a token budget of 150 are captured although off the grid."""
    sizes = vllm_sizes(150, 100)
    assert {100, 150} <= set(sizes)
    assert sizes[-1] == 150


@given(st.integers(1, 4096), st.integers(1, 512), st.integers(1, 8))
def test_vllm_sizes_are_multiples_of_the_query_length(
    budget: int, max_num_seqs: int, query_len: int
) -> None:
    """With speculative decoding each size is a multiple of qlen, and none exceeds M."""
    sizes = vllm_sizes(budget, max_num_seqs, query_len)
    assert all(size % query_len == 0 for size in sizes)
    assert all(size <= min(2 * max_num_seqs * query_len, 512, budget) for size in sizes)


@pytest.mark.parametrize("name", LADDER_RULES)
@given(limit=st.integers(1, 20_000))
def test_every_rule_gives_an_ascending_ladder_within_its_limit(name: str, limit: int) -> None:
    """Sizes ascend strictly, are positive and stay within the limit."""
    sizes = ladder_rule_sizes(name, limit)
    assert Ladder.of(sizes).sizes == sizes
    assert all(1 <= size <= limit for size in sizes)


@given(st.integers(4, 20_000))
def test_sglang_does_not_append_an_off_grid_maximum(limit: int) -> None:
    """The list for a limit is the long list cut there, nothing added."""
    expected = tuple(size for size in sglang_prefill_sizes(20_480) if size <= limit)
    assert sglang_prefill_sizes(limit) == expected


def test_tensorrt_prefill_cap_is_appended_where_it_cuts() -> None:
    """A cap of 1000 ends the list with 1000; a cap beyond the list adds nothing."""
    assert tensorrt_llm_prefill_sizes(1000)[-2:] == (768, 1000)
    assert tensorrt_llm_prefill_sizes(10**6)[-1] == 3072


def test_unpadded_tensorrt_replays_exact_matches_only() -> None:
    """Without padding a batch of 33..63 runs eager, 32 and 64 replay."""
    ladder = Ladder.of(ladder_rule_sizes("tensorrt-llm-decode-unpadded", 256))
    assert ladder.sizes == (*range(1, 33), 64, 128, 256)
    requests = np.arange(1, 257, dtype=np.int64)
    chosen = dispatch(ladder, AdmissionRule(Fraction(1)), requests, requests)
    replayed = requests[chosen != EAGER_INDEX]
    assert replayed.tolist() == list(ladder.sizes)


@given(st.integers(16, 20_000))
def test_tokenspeed_pads_by_an_eighth_at_most(limit: int) -> None:
    """From 128 tokens on, the gap to the next size is at most size / 8."""
    sizes = np.array(ladder_rule_sizes("tokenspeed-prefill", limit))
    lower, gaps = sizes[:-1], np.diff(sizes)
    assert np.all(8 * gaps[lower >= 128] <= lower[lower >= 128])


def test_an_unknown_rule_lists_the_known_ones() -> None:
    """The error names every rule."""
    with pytest.raises(InputError, match=r"sglang-prefill, .*tokenspeed-prefill"):
        ladder_rule_named("nano")
    with pytest.raises(InputError, match="max_tokens: got 0, expected an integer >= 1"):
        ladder_rule_sizes("tokenspeed-prefill", 0)
