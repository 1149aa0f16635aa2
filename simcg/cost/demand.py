"""What a kernel must compute and move, for those that only the roofline prices without a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.model.ops import (
    DTYPE_BITS,
    BatchedGemm,
    CausalConv,
    Dtype,
    GatedDelta,
    IndexLogits,
    LatentAttention,
    SelectKeys,
)

DemandShape = BatchedGemm | LatentAttention | IndexLogits | SelectKeys | CausalConv | GatedDelta

VALUE_BYTES = 2
"""Activations and cached latents are 16 bit."""
SCORE_BYTES = 4
"""The indexer's scores are fp32, and chosen positions int32."""
STATE_BYTES = 4
"""The gated delta rule keeps its state in fp32."""
CHUNK = 64
"""Tokens that the gated delta rule treats as one product in prefill."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Operations and bytes of one kernel, one entry per work, and the type it multiplies in."""

    flops: Floats
    moved_bytes: Floats
    dtype: Dtype = "bf16"


def prefill_demand(shape: DemandShape, rows: Ints, pairs: Ints) -> Demand:
    """``rows`` of a dense kernel or query tokens, and the query-key ``pairs`` of the prompts."""
    n, seen = rows.astype(np.float64), pairs.astype(np.float64)
    match shape:
        case BatchedGemm(heads=heads, k=k, n=wide, weights=stored, activations=used):
            moved = heads * (k * wide * DTYPE_BITS[stored] / 8 + VALUE_BYTES * n * (k + wide))
            return Demand(2.0 * heads * k * wide * n, moved, used)
        case LatentAttention(heads=heads, key_dim=keys, value_dim=values):
            if shape.top_k is not None:
                seen = np.minimum(seen, n * shape.top_k)
            moved = VALUE_BYTES * n * heads * (keys + values)
            return Demand(2.0 * heads * (keys + values) * seen, moved)
        case IndexLogits(heads=heads, head_dim=dim):
            return Demand(2.0 * heads * dim * seen, n * heads * dim + SCORE_BYTES * seen, "fp8")
        case SelectKeys(top_k=chosen):
            return Demand(0 * n, SCORE_BYTES * (seen + n * chosen))
        case CausalConv(channels=channels, width=width):
            return Demand(2.0 * width * channels * n, 2.0 * VALUE_BYTES * channels * n)
        case GatedDelta(value_heads=heads, key_dim=keys, value_dim=values):
            # state in and out of each token, and the products within its chunk
            flops = 2.0 * heads * n * (3 * keys * values + 2 * CHUNK * (keys + values))
            moved = VALUE_BYTES * n * (2 * shape.key_heads * keys + 2 * heads * values)
            return Demand(flops, moved + STATE_BYTES * heads * keys * values * n / CHUNK)


def decode_demand(shape: DemandShape, requests: Ints, keys: Ints) -> Demand:
    """Requests that add one token each, and the ``keys`` they see, summed over them."""
    m, seen = requests.astype(np.float64), keys.astype(np.float64)
    match shape:
        case LatentAttention(heads=heads, kv_rank=rank, rope_dim=rope):
            if shape.top_k is not None:
                seen = np.minimum(seen, m * shape.top_k)
            moved = VALUE_BYTES * (seen * (rank + rope) + m * heads * (2 * rank + rope))
            return Demand(2.0 * heads * (2 * rank + rope) * seen, moved)
        case IndexLogits(heads=heads, head_dim=dim):
            # an fp8 key and its fp32 scale
            moved = seen * (dim + 4 + SCORE_BYTES) + m * heads * dim
            return Demand(2.0 * heads * dim * seen, moved, "fp8")
        case CausalConv(channels=channels, width=width):
            return Demand(2.0 * width * channels * m, 2.0 * VALUE_BYTES * channels * width * m)
        case GatedDelta(value_heads=heads, key_dim=dim, value_dim=values):
            states = 2.0 * STATE_BYTES * heads * dim * values * m
            return Demand(6.0 * heads * dim * values * m, states)
        case _:
            return prefill_demand(shape, requests, keys)
