"""More random cases on which model and real backends must agree than the fast tests have."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.conformance.report import BACKEND_NAMES, replays
from real_gpu.conformance.run import run_cases
from real_gpu.graphs.cpu import RecordingCpuDevice
from simcg.formal.program import KINDS

torch.set_num_threads(1)
CASES = {"eager": 100, "full": 60, "breakable": 90, "tc_piecewise": 14}
FIRST = 5000


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_model_and_backend_agree_on_many_random_cases(backend: str) -> None:
    """Every operator is met in replays of full buckets and of padded ones."""
    seeds = range(FIRST, FIRST + CASES[backend])
    report, failures = run_cases(RecordingCpuDevice(), backend, seeds, lambda _: None)
    assert not [what for _, what in failures]
    met = [
        report.covered[kind, backend, where]
        for kind in KINDS
        if replays(kind, backend)
        for where in ("exact", "padded")
    ]
    assert min(met) >= (1 if backend == "tc_piecewise" else 8)
