"""A decoder recorded once, whole, replays for any batch that its shape holds, bit for bit."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.attention.attention import using
from real_gpu.graphs.cpu import RecordingCpuDevice
from simcg.batch import Batch
from simcg.model.architecture import Architecture
from tests.decoders import CPU, FAMILIES, NAN, Engine, Padded, random_ids

torch.set_num_threads(1)
TOKENS, REQUESTS = 20, 4
STEPS = [
    (Batch((20,), (0,)), [1]),
    (Batch((3, 5), (0, 9)), [60, 90]),
    (Batch((1, 1, 1, 1), (30, 0, 7, 1)), [120, 100, 60, 30]),
]


@pytest.mark.parametrize("arch", FAMILIES, ids=lambda arch: arch.name)
def test_a_recording_of_the_whole_forward_serves_every_batch(arch: Architecture) -> None:
    """No host read and no shape of a value in any kernel: replay = eager at the same padded shape.

    The recording bakes the bounds of its shape; ids and metadata are rewritten before a replay.
    """
    captured, eager = Engine.of(arch, CPU, torch.float32), Engine.of(arch, CPU, torch.float32)
    metadata = captured.planner.metadata(TOKENS, REQUESTS)
    ids = torch.zeros(TOKENS, dtype=torch.int64)
    out = torch.full((TOKENS, arch.hidden), NAN)
    captured.attention.use(metadata, captured.planner.baked_bounds(TOKENS, REQUESTS))
    device = RecordingCpuDevice()
    with using(captured.attention), torch.no_grad():
        device.begin(device.new_pool())
        captured.decoder.forward(ids, metadata, out)
        segment = device.end()
    for step, (batch, starts) in enumerate(STEPS):
        n, new = batch.num_tokens, random_ids(batch.num_tokens, step, arch)
        expected = eager.step(batch, starts, new, Padded(TOKENS, REQUESTS))
        captured.planner.write(batch, starts, TOKENS, REQUESTS)
        ids.zero_()
        ids[:n] = new
        out.fill_(NAN)
        segment.replay()
        assert torch.isfinite(out[:n]).all()
        assert torch.equal(out[:n], expected[:n])
