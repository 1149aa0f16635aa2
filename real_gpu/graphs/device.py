"""The one protocol that every backend and runner is written against."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """Bytes now: allocated to tensors, held by the allocator, and in use on the device."""

    live: int
    reserved: int
    device: int


class Segment(Protocol):
    """A recorded stretch of work: baked addresses and baked host scalars, nothing else."""

    @property
    def nodes(self) -> int:
        """Kernels (CUDA) or recorded operators (CPU) in it."""

    def replay(self) -> None:
        """Run it again, reading and writing the addresses of the recording."""

    def release(self) -> None:
        """Free the graph; its pool's memory goes when the last segment of the pool has gone."""


class GraphDevice(Protocol):
    """Records segments into pools. One recording at a time; ``begin`` .. ``end`` or ``abandon``.

    Nothing that is recorded runs while it is recorded. Memory that recorded work allocates comes
    from the pool, is re-used when the tensor dies, and never returns to the device before the
    pool's last segment is released.
    """

    @property
    def device(self) -> torch.device:
        """Where tensors live."""

    @property
    def recording(self) -> bool:
        """Between ``begin`` and ``end``."""

    def new_pool(self, room: int = 0) -> Hashable:
        """A fresh private pool; graphs that never run at the same time may share one.

        ``room``: bytes that it reserves at once, in one free block.
        """

    def begin(self, pool: Hashable) -> None:
        """Start to record on the capture stream, which waits for the current stream."""

    def end(self) -> Segment:
        """Stop, and make the segment ready to replay.

        Raises ``CaptureError`` when a side stream was not joined or an operator cannot be
        recorded; the device is then as before ``begin``.
        """

    def abandon(self) -> None:
        """Stop and drop what was recorded since ``begin``; never raises."""

    def join(self) -> object:
        """Join the side streams of the recording into it; returns what ``fork`` takes."""

    def fork(self, joined: object) -> None:
        """Let the streams that ``join`` joined go on in the recording that has just begun."""

    def on_capture_stream(self) -> AbstractContextManager[None]:
        """Within it work runs on the capture stream, in order with the current stream."""

    def mark(self, pool: Hashable) -> object:
        """What is allocated in the pool now; see ``born_since``."""

    def born_since(self, mark: object, tensor: torch.Tensor) -> bool:
        """Whether the tensor's memory is in the mark's pool and was allocated after the mark."""

    def alias(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor at the same address that does not keep the memory alive."""

    def synchronize(self) -> None:
        """Wait for everything issued so far."""

    def peak_bytes(self, work: Callable[[], object]) -> int:
        """Run ``work``; the most bytes that it has allocated at once, outside any recording."""

    def memory(self) -> MemoryFigures:
        """Figures of the whole device."""

    def pool_bytes(self, pool: Hashable) -> int:
        """Bytes that the pool has reserved."""

    def fill_free(self, pool: Hashable, byte: int) -> None:
        """Overwrite the pool's free blocks: a sound replay does not notice."""


class CaptureError(RuntimeError):
    """A capture that cannot be: what was met, in which shape, and what to do about it."""


class ReplayError(RuntimeError):
    """A replay that cannot be right: what differs from the capture."""


class StaleAddressError(ReplayError):
    """A replay would use an address whose tensor is gone or has moved (CPU device only)."""
