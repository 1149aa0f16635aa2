"""The formal model and the real backends agree on a GPU, and tell wrong versions there."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from real_gpu.conformance.check import check
from real_gpu.conformance.generate import case_of
from real_gpu.conformance.report import BACKEND_NAMES
from real_gpu.conformance.run import disagreement, load, run_cases
from real_gpu.graphs.cuda import CudaGraphDevice
from tests.conformance_mutants import (
    CORPUS,
    MUTANTS,
    by_results_alone,
    case_file,
    second_stream_is_never_joined,
)

DEVICE = CudaGraphDevice()
CASES = {"eager": 20, "full": 20, "breakable": 20, "tc_piecewise": 5}


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_model_and_backend_agree_on_random_cases(backend: str) -> None:
    report, failures = run_cases(DEVICE, backend, range(CASES[backend]), lambda _: None)
    assert not [what for _, what in failures]
    assert report.steps > 6 * report.cases


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.json")), ids=lambda path: path.stem)
def test_a_case_that_once_told_something_agrees(path: Path) -> None:
    assert check(load(path), DEVICE).steps


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.on_gpu])
def test_the_model_tells_a_wrong_backend(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the case that tells it on the CPU device."""
    if not MUTANTS[name].metadata:
        by_results_alone(monkeypatch)
    MUTANTS[name].patch(monkeypatch)
    assert disagreement(load(case_file(name)), DEVICE)


def test_a_second_stream_that_is_never_joined_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The capture fails, where the model's does not."""
    second_stream_is_never_joined(monkeypatch)
    cases = (case_of(seed, "full") for seed in range(100))
    case = next(case for case in cases if any(op.side for op in case.setting.program.ops))
    assert disagreement(case, DEVICE)
