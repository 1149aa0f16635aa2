"""What kernels without a curve compute and move: sums by hand, and what more work may do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.arrays import Ints
from simcg.cost.demand import DemandShape, decode_demand, prefill_demand
from simcg.model.ops import (
    BatchedGemm,
    CausalConv,
    GatedDelta,
    IndexLogits,
    LatentAttention,
    SelectKeys,
)

EXPANDED = LatentAttention(16, 512, 128, 64, 128)
ABSORBED = LatentAttention(16, 512, 128, 64, 128, absorbed=True)
SPARSE = LatentAttention(16, 512, 192, 64, 256, absorbed=True, top_k=2048)
SHAPES: tuple[DemandShape, ...] = (
    BatchedGemm(16, 128, 512), EXPANDED, ABSORBED, SPARSE, IndexLogits(32, 128),
    SelectKeys(2048), CausalConv(3072, 4), GatedDelta(4, 16, 128, 128),
)  # fmt: skip
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: repr(shape)[:40])


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def test_decode_reads_each_cached_row_once_for_all_heads() -> None:
    """8 requests of 1,000 keys: 576 16-bit values a key, 1,088 multiply-adds a head and key."""
    found = decode_demand(ABSORBED, ints(8), ints(8000))
    queries = 8 * 16 * (576 + 512) * 2
    assert found.moved_bytes.tolist() == [8000 * 576 * 2 + queries]
    assert found.flops.tolist() == [2 * 16 * (576 + 512) * 8000]


def test_prefill_multiplies_every_pair_by_its_heads_widths() -> None:
    """100 tokens from the start: 5,050 pairs of 192 and 128 wide, or absorbed 576 and 512."""
    pairs = ints(5050)
    for shape, width in ((EXPANDED, 192 + 128), (ABSORBED, 576 + 512)):
        assert prefill_demand(shape, ints(100), pairs).flops.tolist() == [2 * 16 * width * 5050]


def test_sparse_attention_sees_at_most_the_chosen_keys() -> None:
    """Beyond 2,048 keys a token more keys cost it nothing; the indexer scores them all."""
    rows = ints(10, 10, 10)
    pairs = 10 * ints(1000, 2048, 90_000)
    for demand in (prefill_demand, decode_demand):
        flops = demand(SPARSE, rows, pairs).flops
        assert flops[0] < flops[1] == flops[2]
        scores = demand(IndexLogits(32, 128), rows, pairs).flops
        assert scores.tolist() == [2 * 32 * 128 * n for n in pairs.tolist()]


def test_absorbed_products_are_one_product_a_head() -> None:
    """16 heads of 128 x 512 over 10 rows, weights and rows streamed once."""
    found = prefill_demand(BatchedGemm(16, 128, 512, "fp8", "fp8"), ints(10), ints(10))
    assert found.flops.tolist() == [2 * 16 * 128 * 512 * 10]
    assert found.moved_bytes.tolist() == [16 * (128 * 512 + 2 * 10 * (128 + 512))]
    assert found.dtype == "fp8"


def test_linear_decode_reads_and_writes_the_state_of_each_request() -> None:
    """16 states of 128 x 128 in fp32, however many keys a request has seen."""
    rule = GatedDelta(4, 16, 128, 128)
    found = decode_demand(rule, ints(8, 8), ints(8, 800_000))
    assert found.moved_bytes.tolist() == [2 * 4 * 16 * 128 * 128 * 8] * 2


@every_shape
@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(0, 100), st.integers(0, 100))
def test_more_tokens_or_keys_never_demand_less(
    shape: DemandShape, rows: int, keys: int, more_rows: int, more_keys: int
) -> None:
    """Operations and bytes grow with rows at the same keys a row, and with keys."""
    at = ints(rows, rows + more_rows, rows)
    seen = ints(rows * keys, (rows + more_rows) * keys, rows * (keys + more_keys))
    for demand in (prefill_demand, decode_demand):
        found = demand(shape, at, seen)
        for column in (found.flops, found.moved_bytes):
            assert column[0] >= 0
            assert column[1] >= column[0]
            assert column[2] >= column[0]
