"""A private memory pool of the CPU device: blocks that come back when their storage dies.

Blocks are cut from regions as PyTorch's CUDA allocator cuts them from segments, so a captured
program re-uses memory here where it would re-use it there.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

import torch

MIB = 1 << 20
GRANULE = 512
SMALL_BYTES, SMALL_REGION = MIB, 2 * MIB
LARGE_BYTES, LARGE_REGION = 10 * MIB, 20 * MIB
POISON = 0xFF
"""Byte of memory that nothing has written: NaN in every float type, -1 in every integer type."""


@dataclass(slots=True, eq=False)
class Block:
    """A stretch of a region; ``serial`` counts allocations and is 0 while the block is free."""

    region: memoryview
    offset: int
    address: int
    size: int
    serial: int = 0

    @property
    def bytes(self) -> memoryview:
        """The block's memory."""
        return self.region[self.offset : self.offset + self.size]

    def fill(self, byte: int) -> None:
        """Overwrite all of it."""
        ctypes.memset(self.address, byte, self.size)


class Arena:
    """Best fit, 512-byte granules; small and large requests are served from separate regions."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []  # by address; neighbours in a region are neighbours here
        # Finalisers run wherever a tensor dies, also inside this class: they only leave a note.
        self._returned: deque[Block] = deque()
        self._serial = 0

    @property
    def serial(self) -> int:
        """How many storages were allocated so far."""
        return self._serial

    @property
    def live(self) -> int:
        """Bytes of blocks in use."""
        self._collect()
        return sum(block.size for block in self._blocks if block.serial)

    @property
    def reserved(self) -> int:
        """Bytes of all regions; they never shrink."""
        return sum(block.size for block in self._blocks)

    def storage(self, nbytes: int) -> torch.UntypedStorage:
        """A storage of ``nbytes`` > 0, full of poison; its block is free again when it dies."""
        block = self._take(nbytes)
        block.fill(POISON)
        buffer = block.bytes[:nbytes]
        weakref.finalize(buffer, self._returned.append, block).atexit = False
        return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()

    def serial_at(self, address: int) -> int:
        """Serial of the allocation that holds ``address``; 0 if it is free or not in the arena."""
        self._collect()
        index = bisect_right(self._blocks, address, key=lambda block: block.address) - 1
        if index < 0:
            return 0
        block = self._blocks[index]
        return block.serial if address < block.address + block.size else 0

    def fill_free(self, byte: int) -> None:
        """Overwrite every free block."""
        self._collect()
        for block in self._blocks:
            if not block.serial:
                block.fill(byte)

    def _take(self, nbytes: int) -> Block:
        self._collect()
        size = -(-nbytes // GRANULE) * GRANULE
        small = size <= SMALL_BYTES
        fitting = (
            block
            for block in self._blocks
            if not block.serial
            and block.size >= size
            and (len(block.region) == SMALL_REGION) == small
        )
        block = min(fitting, key=lambda block: (block.size, block.address), default=None)
        block = block or self._new_region(size)
        if block.size - size >= (GRANULE if small else SMALL_BYTES + 1):
            self._split(block, size)
        self._serial += 1
        block.serial = self._serial
        return block

    def _new_region(self, size: int) -> Block:
        if size <= SMALL_BYTES:
            total = SMALL_REGION
        elif size < LARGE_BYTES:
            total = LARGE_REGION
        else:
            total = -(-size // SMALL_REGION) * SMALL_REGION
        memory = mmap.mmap(-1, total)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        block = Block(memoryview(memory), 0, address, total)
        self._insert(block)
        return block

    def _split(self, block: Block, size: int) -> None:
        rest = Block(block.region, block.offset + size, block.address + size, block.size - size)
        block.size = size
        self._insert(rest)

    def _insert(self, block: Block) -> None:
        index = bisect_right(self._blocks, block.address, key=lambda other: other.address)
        self._blocks.insert(index, block)

    def _collect(self) -> None:
        """Free the blocks whose storages have died, and merge each with free neighbours."""
        while self._returned:
            block = self._returned.popleft()
            block.serial = 0
            index = bisect_right(self._blocks, block.address, key=lambda other: other.address)
            self._merge(index - 1)
            self._merge(index - 2)

    def _merge(self, index: int) -> None:
        """Merge block ``index`` with the next one if both are free and of one region."""
        if not 0 <= index < len(self._blocks) - 1:
            return
        block, after = self._blocks[index : index + 2]
        if block.region is after.region and not block.serial and not after.serial:
            block.size += after.size
            del self._blocks[index + 1]


def borrowed(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """A storage over the same bytes that does not keep them alive."""
    if not storage.nbytes():
        return torch.UntypedStorage(0)
    memory = (ctypes.c_ubyte * storage.nbytes()).from_address(storage.data_ptr())
    return torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()


def tensor_over(storage: torch.UntypedStorage, like: torch.Tensor) -> torch.Tensor:
    """The tensor over ``storage`` with dtype, shape, strides and offset of ``like``."""
    empty = torch.empty(0, dtype=like.dtype)
    return empty.set_(storage, like.storage_offset(), like.shape, like.stride())


def lazy_bit(tensor: torch.Tensor) -> str:
    """What a view leaves to its readers to apply: ``conjugate``, ``negative`` or nothing."""
    return "conjugate" if tensor.is_conj() else "negative" if tensor.is_neg() else ""
