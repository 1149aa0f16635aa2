"""What every graph device must do; each function is a law and takes the device.

``tests/fast`` runs them on the CPU device, ``tests/gpu`` on a GPU, ``tests/power`` on mutants.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import pytest
import torch

from real_gpu.graphs.device import CaptureError, GraphDevice, Segment

Law = Callable[[GraphDevice], None]


def captured(device: GraphDevice, pool: Hashable, work: Callable[[], object]) -> Segment:
    """``work`` as a segment."""
    device.begin(pool)
    try:
        work()
        return device.end()
    except BaseException:
        device.abandon()
        raise


def numbers(device: GraphDevice, *values: float) -> torch.Tensor:
    """A tensor of these values on the device."""
    return torch.tensor(values, dtype=torch.float32, device=device.device)


def a_replay_reads_its_static_input_again(device: GraphDevice) -> None:
    static, out = numbers(device, 1, 2), numbers(device, 0, 0)
    segment = captured(device, device.new_pool(), lambda: out.copy_(static * 2 + 1))
    static.copy_(numbers(device, 10, 20))
    segment.replay()
    assert out.tolist() == [21, 41]


def nothing_runs_at_capture(device: GraphDevice) -> None:
    static, out = numbers(device, 1, 2), numbers(device, 5, 5)

    def work() -> None:
        out.add_(static)
        out.zero_()

    captured(device, device.new_pool(), work)
    assert out.tolist() == [5, 5]


def a_host_scalar_is_baked(device: GraphDevice) -> None:
    factor = [2.0]
    static, out = numbers(device, 1, 2), numbers(device, 0, 0)

    def work() -> None:
        out.copy_(static * torch.tensor(factor[0]) + 1)
        out[0].fill_(factor[0])

    segment = captured(device, device.new_pool(), work)
    factor[0] = 7.0
    segment.replay()
    assert out.tolist() == [2, 5]


def a_replay_uses_the_old_address_of_a_tensor_that_was_rebuilt(device: GraphDevice) -> None:
    held = {"lengths": numbers(device, 1, 2)}
    out, old = numbers(device, 0, 0), held["lengths"]
    segment = captured(device, device.new_pool(), lambda: out.copy_(held["lengths"]))
    held["lengths"] = numbers(device, 3, 4)
    segment.replay()
    assert out.tolist() == [1, 2] == old.tolist()


def a_dropped_tensor_is_overwritten_by_a_later_capture(device: GraphDevice) -> None:
    pool, static, out = device.new_pool(), numbers(device, 1, 2), numbers(device, 0, 0)
    seen = []

    def first() -> None:
        seen.append(device.alias(static + 1))

    one = captured(device, pool, first)
    other = captured(device, pool, lambda: out.copy_(static + 10))
    one.replay()
    assert seen[0].tolist() == [2, 3]
    other.replay()
    assert seen[0].tolist() == [11, 12]
    assert out.tolist() == [11, 12]


def a_held_tensor_keeps_its_memory(device: GraphDevice) -> None:
    pool, static, out = device.new_pool(), numbers(device, 1, 2), numbers(device, 0, 0)
    kept = []
    one = captured(device, pool, lambda: kept.append(static + 1))
    other = captured(device, pool, lambda: out.copy_(static + 10))
    one.replay()
    other.replay()
    assert kept[0].tolist() == [2, 3]
    assert out.tolist() == [11, 12]


def memory_is_re_used_within_a_forward(device: GraphDevice) -> None:
    pool, static = device.new_pool(), torch.ones(1 << 20, device=device.device)

    def work() -> None:
        x = static + 0
        for _ in range(40):
            x = x + 1

    segment = captured(device, pool, work)
    assert segment.nodes >= 41
    assert device.pool_bytes(pool) <= 20 * 2**20


def free_blocks_may_hold_anything(device: GraphDevice) -> None:
    pool, static, out = device.new_pool(), numbers(device, 1, 2), numbers(device, 0, 0)

    def work() -> None:
        x = static
        for _ in range(5):
            x = torch.cat([x[1:], x[:1]]) + 1
        out.copy_(x)

    segment = captured(device, pool, work)
    for byte in (0x00, 0x7F, 0xFF):
        device.fill_free(pool, byte)
        segment.replay()
        assert out.tolist() == [7, 6]


def memory_that_nothing_wrote_is_no_part_of_a_result(device: GraphDevice) -> None:
    """The converse: a program that reads what it never wrote shows it."""
    pool, out = device.new_pool(), numbers(device, 0, 0)
    segment = captured(device, pool, lambda: out.copy_(torch.empty_like(out)))
    device.fill_free(pool, 0xFF)
    segment.replay()
    assert out.isnan().all()


def segments_replay_in_any_order(device: GraphDevice) -> None:
    pool, static, out = device.new_pool(), numbers(device, 1, 2), numbers(device, 0, 0)

    def work_of(k: int) -> Callable[[], object]:
        return lambda: out.copy_((static + k) * 2)

    segments = [captured(device, pool, work_of(k)) for k in range(3)]
    for order in ([2, 0, 1], [1, 1, 0], [0, 2, 2]):
        for k in order:
            segments[k].replay()
            assert out.tolist() == [2 * (1 + k), 2 * (2 + k)]


def a_value_cannot_be_read_on_the_host(device: GraphDevice) -> None:
    pool, static, out = device.new_pool(), numbers(device, 1, 2), numbers(device, 0, 0)
    for read in (
        lambda: static.sum().item(),
        static.tolist,
        lambda: bool(static[0] > 0),
        lambda: static[static > 1],
        lambda: str(static),
    ):
        with pytest.raises(RuntimeError):
            captured(device, pool, read)
        assert not device.recording
    captured(device, pool, lambda: out.copy_(static + 1)).replay()
    assert out.tolist() == [2, 3]


def an_abandoned_recording_leaves_nothing(device: GraphDevice) -> None:
    pool, static, out = device.new_pool(), numbers(device, 1, 2), numbers(device, 0, 0)
    before = captured(device, pool, lambda: out.copy_(static + 1))
    device.begin(pool)
    out.zero_()
    device.abandon()
    device.abandon()
    assert not device.recording
    out.copy_(static)
    assert out.tolist() == [1, 2]
    before.replay()
    assert out.tolist() == [2, 3]
    captured(device, pool, lambda: out.copy_(static + 2)).replay()
    assert out.tolist() == [3, 4]


def a_pool_outlives_a_first_capture_that_fails(device: GraphDevice) -> None:
    pool, static, out = device.new_pool(), numbers(device, 1, 2), numbers(device, 0, 0)
    with pytest.raises(ZeroDivisionError):
        captured(device, pool, lambda: (static + 1, 1 // 0))
    segment = captured(device, pool, lambda: out.copy_(static + 1))
    segment.replay()
    assert out.tolist() == [2, 3]
    segment.release()
    captured(device, pool, lambda: out.copy_(static + 5)).replay()
    assert out.tolist() == [6, 7]


def birth_in_the_pool_is_seen(device: GraphDevice) -> None:
    pool, static = device.new_pool(), numbers(device, 1, 2)
    kept: list[torch.Tensor] = []
    captured(device, pool, lambda: kept.append(static + 1))
    mark = device.mark(pool)
    captured(device, pool, lambda: kept.append(static + 2))
    other = device.new_pool()
    captured(device, other, lambda: kept.append(static + 3))
    born = [device.born_since(mark, tensor) for tensor in (*kept, static, kept[1][1:])]
    assert born == [False, True, False, False, True]


def an_alias_keeps_no_memory(device: GraphDevice) -> None:
    pool, static, made = device.new_pool(), torch.ones(300_000, device=device.device), []
    captured(device, pool, lambda: made.append(static + 1))
    held = device.memory().live
    alias = device.alias(made[0][10:20])
    assert alias.data_ptr() == made[0][10:20].data_ptr()
    made.clear()
    assert held - device.memory().live >= 1_200_000


def random_numbers_are_drawn_anew(device: GraphDevice) -> None:
    out = torch.zeros(1000, device=device.device)
    segment = captured(device, device.new_pool(), lambda: out.copy_(torch.rand_like(out)))
    draws = []
    for _ in range(2):
        segment.replay()
        draws.append(out.clone())
    assert (draws[0] != draws[1]).float().mean() > 0.9


def a_released_segment_does_not_replay(device: GraphDevice) -> None:
    out = numbers(device, 0, 0)
    segment = captured(device, device.new_pool(), lambda: out.add_(1))
    segment.release()
    with pytest.raises(RuntimeError):
        segment.replay()
    assert out.tolist() == [0, 0]


def a_recording_does_not_begin_in_a_recording(device: GraphDevice) -> None:
    pool, out = device.new_pool(), numbers(device, 0, 0)
    with pytest.raises(CaptureError, match="under way"):
        captured(device, pool, lambda: device.begin(pool))
    with pytest.raises(CaptureError, match="nothing is being recorded"):
        device.end()
    captured(device, pool, lambda: out.add_(1)).replay()
    assert out.tolist() == [1, 1]


def views_and_slices_write_through(device: GraphDevice) -> None:
    static, out = torch.arange(12.0, device=device.device), torch.zeros(12, device=device.device)

    def work() -> None:
        grid = (static + 0).view(3, 4)
        grid[1:, ::2].mul_(10)
        left, right = grid.t().split(2)
        right.add_(100)
        values, where = grid.sort(dim=1, descending=True)
        out.view(3, 4).copy_(values + where)
        out[:4] = left.reshape(-1)[:4]

    segment = captured(device, device.new_pool(), work)
    work()
    expected = out.clone()
    out.zero_()
    segment.replay()
    assert torch.equal(out, expected)


def inference_mode_changes_nothing(device: GraphDevice) -> None:
    """There torch hands composite operators over whole."""
    static, out = numbers(device, 1, 2), numbers(device, 0, 0)

    def work() -> None:
        wide = static.to(torch.float64).square().sum().expand(2)
        out.copy_(torch.full_like(out, 3.0) + torch.nn.functional.silu(static) * wide)

    segment = captured(device, device.new_pool(), work)
    with torch.inference_mode():
        inside = captured(device, device.new_pool(), work)
        inside.replay()
    first = out.clone()
    segment.replay()
    assert torch.equal(out, first)
    assert first.tolist() == pytest.approx([3 + 5 * 0.7310586, 3 + 5 * 1.7615942])


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (
        a_replay_reads_its_static_input_again,
        nothing_runs_at_capture,
        a_host_scalar_is_baked,
        inference_mode_changes_nothing,
        a_replay_uses_the_old_address_of_a_tensor_that_was_rebuilt,
        a_dropped_tensor_is_overwritten_by_a_later_capture,
        a_held_tensor_keeps_its_memory,
        memory_is_re_used_within_a_forward,
        free_blocks_may_hold_anything,
        memory_that_nothing_wrote_is_no_part_of_a_result,
        segments_replay_in_any_order,
        a_value_cannot_be_read_on_the_host,
        an_abandoned_recording_leaves_nothing,
        a_pool_outlives_a_first_capture_that_fails,
        birth_in_the_pool_is_seen,
        an_alias_keeps_no_memory,
        random_numbers_are_drawn_anew,
        a_released_segment_does_not_replay,
        a_recording_does_not_begin_in_a_recording,
        views_and_slices_write_through,
    )
}
