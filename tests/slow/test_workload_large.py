"""Large inputs and long fuzzing."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simcg.workload.read import read_requests
from simcg.workload.requests import Requests
from simcg.workload.scheduler import prefill_steps
from simcg.workload.step_sets import aggregate
from tests.workload_files import check_mutated, valid_files
from tests.workloads import requests

LIMIT_S = 60
"""Generous: on an idle machine this takes some 6 s; the benchmark measures, this only guards."""


def test_million_requests(tmp_path: Path) -> None:
    """A million requests become steps without losing a token, well within a minute."""
    random = np.random.default_rng(7)
    count = 1_000_000
    times = np.cumsum(random.integers(0, 60_000_000, count)).tolist()
    sizes = random.integers(1, 4000, count).tolist()
    rows = "\n".join(f"{t},{n}" for t, n in zip(times, sizes, strict=True))
    path = tmp_path / "trace.gz"
    path.write_bytes(gzip.compress(f"arrival_ns,input_tokens\n{rows}\n".encode(), 1))
    begin = time.perf_counter()
    steps = prefill_steps(read_requests(path), max_chunk=8192, step_ns=lambda n, _p: 5_000_000 + n)
    counted = aggregate(steps)
    assert time.perf_counter() - begin < LIMIT_S
    assert (counted.tokens * counted.count).sum() == sum(sizes)
    assert counted.total == steps.total


@settings(max_examples=500)
@given(requests())
def test_more_chunk_shapes(traffic: Requests) -> None:
    """Counting pairs by prefix sums gives the same total for every chunk size."""
    totals = {
        int(prefill_steps(traffic, max_chunk=chunk, step_ns=lambda n, _p: n).pairs.sum())
        for chunk in (1, 2, 3, 7, 16, 64, 10_000)
    }
    assert len(totals) == 1


@settings(max_examples=800)
@given(valid_files(), st.data())
def test_mutated_files_long(file: tuple[bytes, int, int], data: st.DataObject) -> None:
    """As the fast test of mutated files, with many more of them."""
    check_mutated(file, data)
