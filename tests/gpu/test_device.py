"""The device does what simcg's model of a graph assumes."""

from __future__ import annotations

import pytest


def test_a_replay_reads_its_static_input_again() -> None:
    """A captured graph, replayed after its input was rewritten, computes on the new input."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    static = torch.zeros(4, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        static + 1  # warm-up on the side stream
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        out = static + 1
    static.fill_(41)
    graph.replay()
    assert out.tolist() == [42.0] * 4
