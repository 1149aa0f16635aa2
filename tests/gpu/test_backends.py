"""The capturing backends obey their laws on a GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from hypothesis import given, settings
from hypothesis import strategies as st

from real_gpu.backends.breakable import breakable, debug_graph
from real_gpu.backends.breaks import eager_on_graph
from real_gpu.backends.full import full
from real_gpu.graphs.cuda import CudaGraphDevice
from real_gpu.graphs.device import CaptureError
from simcg.ladder import Bucket
from tests.backend_kit import Kit
from tests.backend_laws import LAWS, replays_equal_eager
from tests.programs import Step, ladders, programs

DEVICE = CudaGraphDevice()
KIT = Kit(DEVICE, full, breakable, debug_graph)


@pytest.mark.parametrize("law", LAWS)
def test_a_law_holds_on_cuda(law: str) -> None:
    LAWS[law](KIT)


@settings(max_examples=40)
@given(programs, ladders, st.lists(st.integers(0, 3), max_size=6))
def test_any_program_replays_as_eager(
    program: list[Step], buckets: list[Bucket], order: list[int]
) -> None:
    replays_equal_eager(KIT, KIT.breakable, program, buckets, order)


@eager_on_graph
def double(x: torch.Tensor) -> None:
    x.mul_(2)


def test_a_side_stream_lives_on_over_a_break() -> None:
    """Forked before a break and joined after it: ordered before the break, and used after."""
    source, out = torch.ones(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    side = torch.cuda.Stream()

    def forward() -> torch.Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = source * 3
        double(y)
        with torch.cuda.stream(side):
            y.add_(1)
        torch.cuda.current_stream().wait_stream(side)
        out.copy_(y)
        return out

    backend = breakable(DEVICE)
    backend.capture_one(Bucket(1), forward)
    for value in (2, 5):
        source.fill_(value)
        assert backend.replay(Bucket(1)).eq(6 * value + 1).all()


def test_a_break_inside_a_side_stream_leaves_it_current() -> None:
    source, out = torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")
    side, seen = torch.cuda.Stream(), []

    def forward() -> torch.Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = source + 1
            double(y)
            seen.append(torch.cuda.current_stream() == side)
            y.add_(1)
        torch.cuda.current_stream().wait_stream(side)
        out.copy_(y)
        return out

    backend = breakable(DEVICE)
    backend.capture_one(Bucket(1), forward)
    assert all(seen)
    source.fill_(4)
    assert backend.replay(Bucket(1)).tolist() == [11.0] * 8


def test_out_of_memory_in_capture_names_shape_and_bytes() -> None:
    """Earlier buckets stay usable, and so does the pool."""
    source = torch.ones(8, device="cuda")
    free, _ = torch.cuda.mem_get_info()
    backend = full(DEVICE)
    backend.capture_one(Bucket(8), lambda: source + 1)

    def too_large() -> torch.Tensor:
        size = 2 * free if DEVICE.recording else 8
        return torch.empty(size, dtype=torch.uint8, device="cuda").fill_(1)

    with pytest.raises(CaptureError, match=r"bucket of 4 tokens.*out of memory asking for [\d.]+ "):
        backend.capture_one(Bucket(4), too_large)
    assert backend.replay(Bucket(8)).tolist() == [2.0] * 8
    backend.capture_one(Bucket(2), lambda: source + 2)
    assert backend.replay(Bucket(2)).tolist() == [3.0] * 8
