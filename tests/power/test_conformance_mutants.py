"""Wrong versions of the real backends, each told apart from the model by a case of the corpus."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.conformance.run import disagreement, load
from real_gpu.graphs.cpu import RecordingCpuDevice
from simcg.formal.mutants import MUTANTS as MODEL_MUTANTS
from tests.conformance_mutants import CORPUS, MUTANTS, by_results_alone, case_file

torch.set_num_threads(1)


@pytest.mark.parametrize("name", MUTANTS)
def test_the_model_tells_a_wrong_backend(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a wrong result or an error; where only padding differs, by the metadata."""
    mutant = MUTANTS[name]
    if not mutant.metadata:
        by_results_alone(monkeypatch)
    mutant.patch(monkeypatch)
    assert disagreement(load(case_file(name)), RecordingCpuDevice())


def test_every_case_of_a_mutant_is_that_of_one_there_is() -> None:
    kept = {path.name for path in CORPUS.glob("*.json")}
    assert {case_file(name).name for name in MUTANTS} <= kept


def test_classes_have_the_names_of_the_model_s_mutants() -> None:
    """What the model and the real backends can both get wrong is called the same."""
    assert len(set(MUTANTS) & set(MODEL_MUTANTS)) >= 15
