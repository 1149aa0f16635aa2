"""A graph device without a GPU: it fails where CUDA graphs fail, and says why."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from real_gpu.graphs.arena import Arena, borrowed, tensor_over
from real_gpu.graphs.device import CaptureError, MemoryFigures, StaleAddressError
from real_gpu.graphs.peak import peak_of
from real_gpu.graphs.recorder import HostReads, Recorder, Tape


class CpuSegment:
    """Recorded aten operators; see ``Tape``."""

    def __init__(self, tape: Tape, device: RecordingCpuDevice) -> None:
        self._tape: Tape | None = tape
        self._device = device

    @property
    def nodes(self) -> int:
        """Recorded operators; views and allocations are none."""
        return len(self._tape.calls) if self._tape else 0

    def replay(self) -> None:
        """Run them into the addresses of the recording."""
        if self._tape is None:
            raise CaptureError("this segment was released and cannot be replayed")
        if self._device.recording:
            raise CaptureError("a segment cannot be replayed inside a recording")
        self._tape.run()

    def release(self) -> None:
        """Forget the recording; the pool's memory goes with its last segment and tensor."""
        self._tape = None


class RecordingCpuDevice:
    """``GraphDevice`` on the CPU: records aten operators by dispatch, replays them by address.

    A pool is an ``Arena``. Memory is poisoned when it is allocated. There is one stream.
    """

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._host_reads = HostReads()
        self._arenas: weakref.WeakSet[Arena] = weakref.WeakSet()

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    @property
    def recording(self) -> bool:
        """Between ``begin`` and ``end``."""
        return self._recorder is not None

    def new_pool(self, room: int = 0) -> Hashable:
        """An arena, with a free block of ``room`` bytes."""
        arena = Arena()
        if room:
            arena.storage(room)
        self._arenas.add(arena)
        return arena

    def begin(self, pool: Hashable) -> None:
        """Record from now on; raises ``CaptureError`` in a recording."""
        if self._recorder is not None:
            raise CaptureError("a recording is under way: end it before the next begins")
        self._recorder = Recorder(arena_of(pool))
        self._recorder.__enter__()
        self._host_reads.__enter__()

    def end(self) -> CpuSegment:
        """Stop; see ``GraphDevice.end``."""
        if self._recorder is None:
            raise CaptureError("nothing is being recorded")
        if _get_current_dispatch_mode() is not self._recorder:
            raise CaptureError("a recording must end outside other torch dispatch modes")
        recorder = self._stop(self._recorder)
        try:
            return CpuSegment(recorder.tape(), self)
        except StaleAddressError as error:
            raise CaptureError(f"the recording cannot be replayed: {error}") from error

    def abandon(self) -> None:
        """Stop and drop what was recorded; nothing where nothing is recorded."""
        if self._recorder is not None:
            self._stop(self._recorder)

    def join(self) -> object:
        """Nothing: there is one stream."""
        return None

    def fork(self, joined: object) -> None:
        """Nothing: there is one stream."""

    def on_capture_stream(self) -> AbstractContextManager[None]:
        """Nothing: there is one stream."""
        return nullcontext()

    def mark(self, pool: Hashable) -> object:
        """The pool and how many storages it has allocated so far."""
        arena = arena_of(pool)
        return arena, arena.serial

    def born_since(self, mark: object, tensor: torch.Tensor) -> bool:
        """See ``GraphDevice.born_since``."""
        if not (isinstance(mark, tuple) and isinstance(mark[0], Arena)):
            raise TypeError(f"not a mark of this device: {mark!r}")
        arena, serial = mark
        return bool(arena.serial_at(tensor.untyped_storage().data_ptr()) > serial)

    def alias(self, tensor: torch.Tensor) -> torch.Tensor:
        """See ``GraphDevice.alias``."""
        return tensor_over(borrowed(tensor.untyped_storage()), tensor)

    def synchronize(self) -> None:
        """Nothing: operators have run when they return."""

    def peak_bytes(self, work: Callable[[], object]) -> int:
        """See ``GraphDevice.peak_bytes``."""
        return peak_of(work)

    def memory(self) -> MemoryFigures:
        """Live and reserved bytes of all pools, and the process's resident set."""
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return MemoryFigures(
            live=sum(arena.live for arena in self._arenas),
            reserved=sum(arena.reserved for arena in self._arenas),
            device=pages * os.sysconf("SC_PAGE_SIZE"),
        )

    def pool_bytes(self, pool: Hashable) -> int:
        """Bytes of the arena's regions."""
        return arena_of(pool).reserved

    def fill_free(self, pool: Hashable, byte: int) -> None:
        """Overwrite the arena's free blocks."""
        arena_of(pool).fill_free(byte)

    def _stop(self, recorder: Recorder) -> Recorder:
        self._host_reads.__exit__(None, None, None)
        recorder.__exit__(None, None, None)
        self._recorder = None
        return recorder


def arena_of(pool: Hashable) -> Arena:
    """The arena behind a pool handle."""
    if not isinstance(pool, Arena):
        raise TypeError(f"not a pool of this device: {pool!r}")
    return pool
