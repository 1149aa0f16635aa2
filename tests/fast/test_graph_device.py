"""The CPU graph device obeys the laws of graph devices, and adds clear errors of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch
from hypothesis import given
from hypothesis import strategies as st

from real_gpu.graphs.arena import GRANULE, POISON, Arena
from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.graphs.device import CaptureError, ReplayError, StaleAddressError
from real_gpu.graphs.recorder import storing
from tests.graph_laws import LAWS, captured, numbers


@pytest.mark.parametrize("law", LAWS)
def test_a_law_holds_on_the_cpu(law: str) -> None:
    LAWS[law](RecordingCpuDevice())


def test_a_replay_after_a_static_input_was_freed_says_so() -> None:
    device = RecordingCpuDevice()
    held, out = [numbers(device, 1, 2)], numbers(device, 0, 0)
    segment = captured(device, device.new_pool(), lambda: out.copy_(held[0]))
    held.clear()
    with pytest.raises(StaleAddressError, match=r"shape \(2,\)\) was freed after capture"):
        segment.replay()


def test_a_replay_after_a_static_input_moved_says_so() -> None:
    device = RecordingCpuDevice()
    static, out = numbers(device, 1, 2), numbers(device, 0, 0)
    segment = captured(device, device.new_pool(), lambda: out.copy_(static))
    static.untyped_storage().resize_(1 << 22)
    with pytest.raises(StaleAddressError, match="moved since capture"):
        segment.replay()


def test_a_tensor_from_outside_that_dies_in_capture_is_refused_there() -> None:
    device = RecordingCpuDevice()
    out = numbers(device, 0, 0)
    # numpy's memory reaches torch without an operator
    array = torch.ones(2).numpy()
    with pytest.raises(CaptureError, match="cannot be replayed"):
        captured(
            device,
            device.new_pool(),
            lambda: out.copy_(torch.frombuffer(array.copy(), dtype=torch.float32)),
        )


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (lambda x: x.sum().item(), "aten._local_scalar_dense.*@eager_on_graph"),
        (lambda x: x.tolist(), "tolist reads a value.*@eager_on_graph"),
        (lambda x: x.numpy(), "numpy reads a value"),
        (lambda x: x.cpu(), "cpu reads a value"),
        (torch.nonzero, "aten.nonzero.*shape depends on values"),
        (lambda x: torch.equal(x, x), "aten.equal"),
        (lambda _: torch.tensor([1.0, 2.0]), "made from host data"),
        (lambda x: torch.add(x, x, out=torch.empty(0)), "resizes its output from .0,. to .2,."),
        (lambda _: torch.rand(2, generator=torch.Generator()), "generator of its own"),
    ],
)
def test_what_a_graph_cannot_record_is_named(work: object, text: str) -> None:
    device = RecordingCpuDevice()
    x = numbers(device, 1, 2)
    with pytest.raises(CaptureError, match=text):
        captured(device, device.new_pool(), lambda: work(x))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("work", "bit"),
    [
        (lambda z: z * z.conj(), "conjugate"),
        (lambda z: z.view(1, 2).mH + 0, "conjugate"),
        (lambda z: z.conj().imag + 0, "negative"),
        (lambda z: torch.stack([z, z.conj()]), "conjugate"),
        (lambda z: z.conj().resolve_conj(), "conjugate"),
    ],
)
@pytest.mark.parametrize("inference", [False, True])
def test_a_conjugate_or_negative_view_is_refused(
    work: Callable[[torch.Tensor], object], bit: str, inference: bool
) -> None:
    """A replay by address would read the memory without the bit."""
    device, z = RecordingCpuDevice(), torch.tensor([1 + 2j, 3 - 1j])
    with (
        torch.inference_mode(inference),
        pytest.raises(CaptureError, match=f"{bit} view.*resolve_conj"),
    ):
        captured(device, device.new_pool(), lambda: work(z))


def test_conjugates_made_in_memory_replay() -> None:
    device, z, out = RecordingCpuDevice(), torch.tensor([1 + 2j, 3 - 1j]), torch.zeros(2)
    pool = device.new_pool()
    segment = captured(device, pool, lambda: out.copy_((z * z.conj_physical()).real))
    segment.replay()
    assert out.tolist() == [5, 10]


@pytest.mark.parametrize(
    "write",
    [
        lambda c, x: c.add_(x.sum()),
        lambda c, x: c.view(1).copy_(x[:1]),
        lambda c, x: torch.sum(x, (0,), out=c),
        lambda c, x: torch._foreach_add_([x, c], 1),
    ],
)
def test_a_scalar_made_from_host_data_is_not_written(
    write: Callable[[torch.Tensor, torch.Tensor], object],
) -> None:
    """It is baked once, so that a write would pile up over replays."""
    device = RecordingCpuDevice()
    x = numbers(device, 1, 2)
    with pytest.raises(CaptureError, match=r"writes to a scalar.*torch.zeros\(\(\)\)"):
        captured(device, device.new_pool(), lambda: write(torch.tensor(0.0), x))


def test_a_scalar_made_on_the_device_starts_anew_at_each_replay() -> None:
    device = RecordingCpuDevice()
    x, out = numbers(device, 1, 2), numbers(device, 0)
    segment = captured(device, device.new_pool(), lambda: out.copy_(torch.zeros(()).add_(x.sum())))
    for _ in range(2):
        segment.replay()
        assert out.tolist() == [3]


@pytest.mark.parametrize("module", [torch.nn.BatchNorm1d(8), torch.nn.LSTM(8, 8)], ids=repr)
def test_results_that_a_kernel_leaves_out_are_not_stored(module: torch.nn.Module) -> None:
    """In evaluation, statistics and workspaces come back empty or as None."""
    device, x, out = RecordingCpuDevice(), torch.zeros(4, 8), torch.zeros(4, 8)
    module.eval()

    def work() -> torch.Tensor:
        result = module(x)
        return result[0] if isinstance(result, tuple) else result

    with torch.inference_mode():
        segment = captured(device, device.new_pool(), lambda: out.copy_(work()))
        x.copy_(torch.arange(32.0).view(4, 8))
        segment.replay()
        assert torch.equal(out, work())


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ((torch.ones(2), torch.ones(1)), r"result 1 has shape \(1,\), recorded was \(2,\)"),
        ((torch.ones(()), torch.ones(2)), r"result 0 has shape \(\), recorded was \(2,\)"),
        ((None, torch.ones(2)), "result 0 has shape NoneType"),
    ],
)
def test_a_result_of_another_shape_than_recorded_is_refused(results: object, text: str) -> None:
    """Broadcast, it would be wrong in silence."""
    targets = [(0, torch.zeros(2)), (1, torch.zeros(2))]
    call = functools.partial(lambda: results)
    with pytest.raises(ReplayError, match=f"lambda.*: {text}"):
        storing(call, targets)()


def test_an_error_of_the_program_stays_what_it_is() -> None:
    device = RecordingCpuDevice()
    with pytest.raises(RuntimeError, match="broadcast"):
        captured(device, device.new_pool(), lambda: torch.ones(3) + torch.ones(4))


def test_memory_is_poisoned_when_it_is_allocated() -> None:
    storage = Arena().storage(100)
    assert list(storage) == [POISON] * 100


def test_a_recording_ends_outside_other_dispatch_modes() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415

    device = RecordingCpuDevice()
    with pytest.raises(CaptureError, match="outside other torch dispatch modes"):
        _end_inside(device, TorchDispatchMode())
    device.abandon()
    assert not device.recording


def _end_inside(device: RecordingCpuDevice, mode: object) -> None:
    device.begin(device.new_pool())
    with mode:  # type: ignore[attr-defined]
        device.end()


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3_000_000)), max_size=60))
def test_blocks_never_overlap_and_all_come_back(moves: list[tuple[bool, int]]) -> None:
    """Live storages are disjoint, the figures add up, and an empty arena is whole again."""
    arena = Arena()
    live: list[Any] = []
    for drop, size in moves:
        if drop and live:
            live.pop(size % len(live))
        else:
            live.append(arena.storage(size))
        spans = sorted((s.data_ptr(), s.data_ptr() + s.nbytes()) for s in live)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
        assert arena.live >= sum(-(-s.nbytes() // GRANULE) * GRANULE for s in live)
        assert arena.live <= arena.reserved
    reserved = arena.reserved
    del live[:]
    assert arena.live == 0
    if any(not drop for drop, _ in moves):
        again = arena.storage(1)
        assert arena.reserved in {reserved, reserved + 2 * 2**20}
        del again


@given(st.integers(1, 40_000_000))
def test_a_block_that_came_back_is_given_out_again(size: int) -> None:
    """Two live blocks and then two more of the same size need no new memory."""
    arena = Arena()
    pair = [arena.storage(size), arena.storage(size)]
    places, reserved = {s.data_ptr() for s in pair}, arena.reserved
    del pair[:]
    pair = [arena.storage(size), arena.storage(size)]
    assert arena.reserved == reserved
    assert {s.data_ptr() for s in pair} == places


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_the_cuda_device_says_what_still_works() -> None:
    from real_gpu.graphs.cuda import CudaGraphDevice  # noqa: PLC0415
    from simcg.errors import SimcgError  # noqa: PLC0415

    with pytest.raises(SimcgError, match=r"no CUDA device here: .* on the CPU device"):
        CudaGraphDevice()


def test_the_peak_counts_what_is_alive_at_once() -> None:
    """Two of three buffers live together; a view and an op in place allocate nothing."""

    def work() -> None:
        a = torch.zeros(1000)
        b = a.view(10, 100).add_(1) + 1
        del a
        c = b * 2
        del b, c

    assert RecordingCpuDevice().peak_bytes(work) == 8000
