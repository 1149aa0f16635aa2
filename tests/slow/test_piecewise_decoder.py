"""The lean decoders of every family run under tc_piecewise as they run eagerly."""

from __future__ import annotations

import shutil
from itertools import accumulate

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.attention.cache import KvCache
from real_gpu.attention.plan import Planner
from real_gpu.backends.backend import Backend
from real_gpu.backends.breakable import breakable
from real_gpu.backends.piecewise.compilers import CompilerName
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.models.decoder import Decoder
from real_gpu.runners.prefill import PrefillRunner
from real_gpu.runners.runner import Runner
from simcg.batch import Batch
from simcg.ladder import AdmissionRule, Ladder
from simcg.model.architecture import Architecture
from tests.decoders import CPU, FAMILIES, LLAMA, SLOTS, random_ids

torch.set_num_threads(1)

STEPS = [(1,), (3,), (5, 6), (30,), (2, 2), (40,), (1,)]


def hidden_states(arch: Architecture, backend: Backend) -> list[torch.Tensor]:
    """What each of ``STEPS`` gives on a fresh decoder; the step of 40 tokens has no bucket."""
    decoder = Decoder(arch, CPU, torch.float32, seed=5)
    cache = KvCache.allocate(decoder.arch, SLOTS, CPU, torch.float32)
    decoder.bind(cache)
    runner = Runner(decoder, Planner(cache, 64, 8), backend, Ladder.of([1, 4, 16, 32]))
    runner.capture()
    steps = PrefillRunner(runner, AdmissionRule())
    out = []
    for queries in STEPS:
        batch = Batch(queries, (0,) * len(queries))
        starts = [1 + end for end in accumulate(queries, initial=0)][:-1]
        out.append(steps.step(batch, random_ids(batch.num_tokens, 3, arch), starts).hidden.clone())
    return out


@pytest.mark.parametrize("arch", FAMILIES, ids=lambda arch: arch.name)
def test_a_decoder_gives_the_rows_of_the_breakable_backend(arch: Architecture) -> None:
    compare(arch, "eager")


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor on a CPU needs g++")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_decoder_that_inductor_compiles_is_recorded_alike() -> None:
    compare(LLAMA, "inductor")


def compare(arch: Architecture, compiler: CompilerName) -> None:
    expected = hidden_states(arch, breakable(RecordingCpuDevice()))
    found = hidden_states(arch, TcPiecewise(RecordingCpuDevice(), compiler))
    for one, other in zip(found, expected, strict=True):
        assert torch.isfinite(one).all()
        assert torch.equal(one, other)
