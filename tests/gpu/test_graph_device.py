"""The CUDA graph device obeys the laws of graph devices, and two of streams."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from real_gpu.graphs.cuda import CudaGraphDevice
from real_gpu.graphs.device import CaptureError
from tests.graph_laws import LAWS, captured, numbers


@pytest.fixture(scope="module")
def device() -> CudaGraphDevice:
    return CudaGraphDevice()


@pytest.mark.parametrize("law", LAWS)
def test_a_law_holds_on_cuda(law: str, device: CudaGraphDevice) -> None:
    LAWS[law](device)


def test_the_current_stream_is_restored(device: CudaGraphDevice) -> None:
    """After an end, an abandoned and an invalid capture alike."""
    pool, x, before = device.new_pool(), numbers(device, 1, 2), torch.cuda.current_stream()
    captured(device, pool, lambda: x.add_(1))
    with pytest.raises(RuntimeError):
        captured(device, pool, lambda: x.sum().item())
    device.begin(pool)
    device.abandon()
    assert torch.cuda.current_stream() == before


def test_random_numbers_are_drawn_after_a_broken_capture(device: CudaGraphDevice) -> None:
    """The generator does not stay in capture."""
    pool, x = device.new_pool(), numbers(device, 1, 2)
    with pytest.raises(RuntimeError):
        captured(device, pool, lambda: (torch.rand_like(x), x.sum().item()))
    assert torch.rand(1000, device="cuda").std() > 0.2


def test_a_side_stream_that_is_not_joined_is_named(device: CudaGraphDevice) -> None:
    pool, x, side = device.new_pool(), numbers(device, 1, 2), torch.cuda.Stream()

    def forks() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.add_(1)

    device.begin(pool)
    forks()
    with pytest.raises(CaptureError, match=f"side stream was not joined.*{side.cuda_stream:#x}"):
        device.end()
    assert not device.recording
    captured(device, pool, lambda: x.add_(1)).replay()
    assert x.tolist() == [2, 3]


def test_a_joined_side_stream_is_part_of_the_graph(device: CudaGraphDevice) -> None:
    pool, x, out = device.new_pool(), numbers(device, 1, 2), numbers(device, 0, 0)
    side = torch.cuda.Stream()

    def forks_and_joins() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 10
        torch.cuda.current_stream().wait_stream(side)
        out.copy_(y + 1)

    segment = captured(device, pool, forks_and_joins)
    x.fill_(3)
    segment.replay()
    assert out.tolist() == [31, 31]
    assert segment.nodes == 3


def test_nodes_are_the_kernels_of_the_graph(device: CudaGraphDevice) -> None:
    x = numbers(device, 1, 2)

    def five() -> None:
        for _ in range(5):
            x.add_(1)

    assert captured(device, device.new_pool(), five).nodes == 5
    assert captured(device, device.new_pool(), lambda: None).nodes == 0


def test_a_pool_gives_its_memory_back_when_all_is_released(device: CudaGraphDevice) -> None:
    torch.cuda.empty_cache()
    before = device.memory().reserved
    pool = device.new_pool()
    segment = captured(device, pool, lambda: torch.ones(8 << 20, device="cuda"))
    assert device.pool_bytes(pool) >= 32 << 20
    segment.release()
    del pool, segment
    torch.cuda.empty_cache()
    assert device.memory().reserved <= before
