"""A private pool of PyTorch's CUDA allocator, read from its snapshot."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(slots=True, eq=False)
class CudaPool:
    """``handle`` is PyTorch's; ``anchors`` are empty graphs that keep its memory from being freed.

    Without one a pool would be gone for good once its last graph is released, also when that was
    a failed capture. PyTorch cannot record into a pool again whose capture broke: it goes on under
    a fresh handle, with ``room`` bytes as it began; a handle that it had holds the memory of the
    graphs recorded under it, until the last of them is released. ``grown``: a recording ran since
    the segments were read.
    """

    handle: tuple[int, int]
    device: int
    room: int = 0
    anchors: dict[tuple[int, int], torch.cuda.CUDAGraph] = field(default_factory=dict)
    grown: bool = True
    _graphs: Counter[tuple[int, int]] = field(default_factory=Counter)
    _ranges: list[tuple[int, int]] = field(default_factory=list)
    _reserved_ever: int = -1

    def joined(self, handle: tuple[int, int]) -> None:
        """A graph was recorded under that handle."""
        self._graphs[handle] += 1

    def left(self, handle: tuple[int, int]) -> None:
        """Such a graph was released."""
        self._graphs[handle] -= 1
        self._drop_unused()

    def renew(self) -> None:
        """Go on with a fresh handle."""
        self.handle = torch.cuda.graph_pool_handle()
        self._drop_unused()

    def _drop_unused(self) -> None:
        """Let PyTorch free the memory of handles that no graph will use again."""
        for handle in [h for h in self.anchors if h != self.handle and not self._graphs[h]]:
            self.anchors.pop(handle).reset()
            self.grown, self._reserved_ever, self._ranges = True, -1, []

    def holds(self, address: int) -> bool:
        """Whether the address lies in one of the pool's segments."""
        if within(self._ranges, address):
            return True
        if self.grown:
            self.grown = False
            self._read()
        return within(self._ranges, address)

    def blocks(self) -> Iterator[tuple[int, int, bool]]:
        """(address, bytes, in use) of every block now."""
        for segment in self._segments():
            for block in segment["blocks"]:
                yield block["address"], block["size"], block["state"] != "inactive"

    def reserved(self) -> int:
        """Bytes of all segments."""
        return sum(segment["total_size"] for segment in self._segments())

    def _read(self) -> None:
        """Read the segments, unless the allocator has reserved nothing since the last time."""
        # A snapshot takes milliseconds in a process with many tensors; this counter does not.
        # torch.cuda.memory_stats would spell out all its counters for each break's argument.
        stats = torch._C._cuda_memoryStats(self.device)
        ever = stats["reserved_bytes"]["all"]["allocated"]
        if ever != self._reserved_ever:
            self._reserved_ever = ever
            self._ranges = sorted(
                (segment["address"], segment["address"] + segment["total_size"])
                for segment in self._segments()
            )

    def _segments(self) -> list[dict[str, Any]]:
        mine = {tuple(handle) for handle in (self.handle, *self.anchors)}
        return [
            segment
            for segment in torch.cuda.memory_snapshot()
            if tuple(segment["segment_pool_id"]) in mine and segment["device"] == self.device
        ]


@dataclass(frozen=True, slots=True)
class CudaMark:
    """A pool and the address ranges that were in use in it, ascending."""

    pool: CudaPool
    in_use: list[tuple[int, int]]

    def was_in_use(self, address: int) -> bool:
        """Whether the address was in a block in use."""
        return within(self.in_use, address)


def within(ranges: list[tuple[int, int]], address: int) -> bool:
    """Whether one of the ascending, disjoint half-open ranges holds the address."""
    index = bisect_right(ranges, address, key=lambda pair: pair[0]) - 1
    return index >= 0 and address < ranges[index][1]
