"""The real server on a GPU: graphs of prompts and decodes, events, and the simulator's steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcg.des.serving.policy import Policy

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from real_gpu.graphs.cuda import CudaGraphDevice  # noqa: E402  # needs torch
from real_gpu.measure.bench import Bench, Room  # noqa: E402
from real_gpu.measure.setting import TINY  # noqa: E402
from real_gpu.serving.model import ServedModel  # noqa: E402
from simcg.batch import Batch  # noqa: E402
from simcg.ladder import AdmissionRule  # noqa: E402
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


@pytest.mark.parametrize("contexts", [(1,), (500, 3), (0, 511, 64), (700, 1, 33, 250)])
def test_a_decode_graph_gives_what_eager_gives(contexts: tuple[int, ...]) -> None:
    """Padded with sentinels and launched for the longest context that the cache permits; the
    kernel splits keys by that bound, so that rounding may differ.
    """
    m, arch = len(contexts), replace(TINY, heads=8, kv_heads=2, head_dim=64)
    bench = Bench(arch, CudaGraphDevice(), torch.bfloat16, Room(64, 8, 1 + 4 * 1024))
    _, decode = bench.served((64,), AdmissionRule(), (1, 2, 8))
    decode.runner.capture()
    ids, starts = torch.arange(m), [1 + 1024 * at for at in range(m)]
    step = decode.step(contexts, ids, starts)
    assert step.bucket is not None
    assert step.bucket.num_tokens == (m if m < 3 else 8)
    found, runner = step.hidden.float(), decode.runner
    batch = Batch((1,) * m, contexts)
    eager = runner.run(runner.plan(batch, ids, starts, None)).float()
    assert torch.isfinite(eager).all()
    assert float((found - eager).norm() / eager.norm()) < 0.02
    bench.close()
