"""The real planner writes the offsets that the lemmas about padding speak of."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import z3

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.attention.cache import KvCache
from real_gpu.attention.plan import Planner
from simcg.batch import Batch
from simcg.formal.lemmas.padding import owns
from tests.decoders import CPU, LLAMA

TOKENS, SLOTS = 8, 4


def test_offsets_are_prefix_sums_and_then_n_and_rows_have_the_owners_of_the_lemma() -> None:
    """All batches of up to 4 requests of 1..3 tokens, padded to 8 rows and 4 slots."""
    planner = Planner(KvCache.allocate(LLAMA, 64, CPU, torch.float32), TOKENS, SLOTS)
    batches = (x for count in range(1, SLOTS + 1) for x in product(range(1, 4), repeat=count))
    for lengths in (x for x in batches if sum(x) <= TOKENS):
        m, n = len(lengths), sum(lengths)
        starts = [1 + TOKENS * j for j in range(m)]
        planner.write(Batch(lengths, (0,) * m), starts, TOKENS, SLOTS)
        ends = planner.metadata(TOKENS, SLOTS).query_ends.tolist()
        assert ends == [0, *np.cumsum(lengths).tolist(), *[n] * (SLOTS - m)]
        for row in range(TOKENS):
            owned = [z3.simplify(owns(row, *ends[j : j + 2])) for j in range(SLOTS)]
            owners = [j for j, own in enumerate(owned) if z3.is_true(own)]
            assert len(owners) == (row < n)
            assert all(j < m for j in owners)
