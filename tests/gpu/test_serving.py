"""The real server on a GPU: graphs of prompts and decodes, events, and the simulator's steps."""

from __future__ import annotations

import pytest

from simcg.des.serving.policy import Policy

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from real_gpu.graphs.cuda import CudaGraphDevice  # noqa: E402  # needs torch
from real_gpu.serving.model import ServedModel  # noqa: E402
from tests.served import (  # noqa: E402
    CHUNK,
    POLICIES,
    RUNNING,
    RecordedTimes,
    conserved,
    run,
    same_run,
    simulated,
    tiny_model,
)


@pytest.fixture(scope="module")
def tiny() -> ServedModel:
    """On the GPU."""
    return tiny_model(CudaGraphDevice(), torch.bfloat16)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_a_served_run_is_whole_and_its_times_are_within_its_steps(
    tiny: ServedModel, policy: Policy
) -> None:
    """Replayed or eager, every token is computed once; the GPU's time is part of the step's."""
    asked, served = run(tiny, policy)
    conserved(asked, served)
    assert {step.ran.bucket > 0 for step in served.steps} == {True, False}
    assert all(0 < s.ran.device_ns < s.end_ns - s.start_ns for s in served.steps)


def test_recorded_times_give_the_recorded_steps(tiny: ServedModel) -> None:
    """A real run's step times, played through the simulator, give that run."""
    pytest.importorskip("simpy", reason="the simulator needs simpy")
    for policy in POLICIES:
        asked, served = run(tiny, policy)
        same_run(served, *simulated(RecordedTimes(served), policy, CHUNK, RUNNING, asked))
