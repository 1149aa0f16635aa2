"""The caching allocator of PyTorch as an executable model, private pools included.

Sizes and rules are those of PyTorch 2.11's CUDACachingAllocator with its default settings: its
constants, best fit, when a block is split, when neighbours are joined, and that memory of a
private pool goes back to the device only with the pool. Expandable segments, which keep one
growing segment a stream, are another allocator and not modelled.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from simcg.errors import SimcgError, require

KIB, MIB = 1 << 10, 1 << 20
GRANULE = 512
"""Blocks are multiples of it (kMinBlockSize)."""
SMALL = MIB
"""Up to here a block is small, and small and large blocks never share a segment (kSmallSize)."""
SMALL_SEGMENT, MIDDLE_SEGMENT = 2 * MIB, 20 * MIB
"""Reserved for a small block, and for a large one below LARGE (kSmallBuffer, kLargeBuffer)."""
LARGE = 10 * MIB
"""From here a block has a segment of its own size (kMinLargeAlloc)."""
ROUND_LARGE = 2 * MIB
"""rounded up to a multiple of this (kRoundLarge)."""
ORDINARY = 0
"""The pool of all memory that no graph's private pool owns."""


class OutOfMemoryError(SimcgError):
    """The device has no room for a segment: says what was asked, what is free, what is short."""

    def __init__(self, asked: int, free: int, total: int) -> None:
        self.asked, self.free, self.total = asked, free, total
        super().__init__(
            f"out of GPU memory: {asked} bytes more are asked, {free} of {total} are free, "
            f"{asked - free} are short"
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """Memory reserved from the device at once, for the blocks of one pool and one stream."""

    address: int
    nbytes: int
    pool: int
    stream: int
    small: bool


@dataclass(slots=True, eq=False)
class Block:
    """A stretch of a segment, with its neighbours there."""

    segment: Segment
    address: int
    nbytes: int
    free: bool = True
    before: Block | None = None
    after: Block | None = None


@dataclass(slots=True)
class Usage:
    """Bytes now, as PyTorch's statistics count them.

    ``allocated``: of blocks in use, rounding included (no tensor here is used by two streams, so
    active is the same).  ``inactive_split``: of free blocks beside others in their segment.
    """

    reserved: int = 0
    allocated: int = 0
    inactive_split: int = 0


class Allocator:
    """Serves blocks from segments; ``capacity``: most bytes to reserve, None for no limit.

    Free blocks are kept by pool, stream and size class, and are used by no other.
    ``usage``: of all pools together.  ``segments``: every segment that was reserved (True) or
    returned (False), in that order.
    """

    def __init__(self, capacity: int | None = None) -> None:
        good = capacity is None or capacity >= 0
        require(good, "Allocator", "capacity", capacity, "bytes >= 0 or None")
        self.capacity = capacity
        self.usage = Usage()
        self.segments: list[tuple[Segment, bool]] = []
        self._pools: dict[int, Usage] = {}
        self._in_use: dict[int, Block] = {}
        self._free: dict[tuple[int, int, bool], list[tuple[int, int]]] = {}
        self._free_blocks: dict[int, Block] = {}
        self._next_address = 0

    def allocate(self, nbytes: int, pool: int = ORDINARY, stream: int = 0) -> int:
        """Address of a new block; raises ``OutOfMemoryError``."""
        size = rounded(nbytes)
        small = size <= SMALL
        block = self._best_fit(size, (pool, stream, small)) or self._reserve(size, pool, stream)
        rest = block.nbytes - size
        if rest >= GRANULE if small else rest > SMALL:
            tail = Block(block.segment, block.address + size, rest, True, block, block.after)
            if block.after is not None:
                block.after.before = tail
            block.nbytes, block.after = size, tail
            self._keep(tail)
        block.free = False
        self._in_use[block.address] = block
        self._count(block, allocated=block.nbytes)
        return block.address

    def release(self, address: int) -> None:
        """Give a block back to its pool; it is joined with free neighbours of its segment."""
        block = self._in_use.pop(address, None)
        if block is None:
            raise SimcgError(f"no block in use begins at {address}: freed twice or never given")
        self._count(block, allocated=-block.nbytes)
        block.free = True
        before, after = block.before, block.after
        if after is not None and after.free:
            self._forget(after)
            self._join(block, after)
        if before is not None and before.free:
            self._forget(before)
            self._join(before, block)
            block = before
        self._keep(block)

    def release_cached(self) -> None:
        """Return to the device all ordinary segments without a block in use."""
        for block in list(self._free_blocks.values()):
            segment = block.segment
            if segment.pool == ORDINARY and block.nbytes == segment.nbytes:
                self._forget(block)
                self.segments.append((segment, False))
                self._reserved(segment, -segment.nbytes)

    def block_bytes(self, address: int) -> int:
        """Bytes of the block in use there."""
        return self._in_use[address].nbytes

    def of_pool(self, pool: int) -> Usage:
        """What one pool holds: one object a pool, which follows it."""
        return self._pools.setdefault(pool, Usage())

    def _best_fit(self, size: int, key: tuple[int, int, bool]) -> Block | None:
        """The smallest free block that is large enough, the lowest of equal ones."""
        free = self._free.get(key, [])
        at = bisect_left(free, (size, 0))
        if at == len(free):
            return None
        block = self._free_blocks[free[at][1]]
        self._forget(block)
        return block

    def _reserve(self, size: int, pool: int, stream: int) -> Block:
        nbytes = segment_bytes(size)
        if self.capacity is not None and self.usage.reserved + nbytes > self.capacity:
            if pool == ORDINARY:
                self.release_cached()  # a recording cannot
            free = self.capacity - self.usage.reserved
            if nbytes > free:
                raise OutOfMemoryError(nbytes, free, self.capacity)
        segment = Segment(self._next_address, nbytes, pool, stream, size <= SMALL)
        self._next_address += nbytes
        self.segments.append((segment, True))
        self._reserved(segment, nbytes)
        return Block(segment, segment.address, nbytes)

    def _join(self, left: Block, right: Block) -> None:
        left.nbytes += right.nbytes
        left.after = right.after
        if right.after is not None:
            right.after.before = left

    def _keep(self, block: Block) -> None:
        segment = block.segment
        key = (segment.pool, segment.stream, segment.small)
        insort(self._free.setdefault(key, []), (block.nbytes, block.address))
        self._free_blocks[block.address] = block
        if block.nbytes < segment.nbytes:
            self._count(block, split=block.nbytes)

    def _forget(self, block: Block) -> None:
        segment = block.segment
        free = self._free[segment.pool, segment.stream, segment.small]
        del free[bisect_left(free, (block.nbytes, block.address))]
        del self._free_blocks[block.address]
        if block.nbytes < segment.nbytes:
            self._count(block, split=-block.nbytes)

    def _reserved(self, segment: Segment, nbytes: int) -> None:
        self.usage.reserved += nbytes
        self.of_pool(segment.pool).reserved += nbytes

    def _count(self, block: Block, allocated: int = 0, split: int = 0) -> None:
        every, own = self.usage, self._pools[block.segment.pool]
        every.allocated += allocated
        own.allocated += allocated
        every.inactive_split += split
        own.inactive_split += split


def rounded(nbytes: int) -> int:
    """Bytes of the block that so many bytes are given."""
    return max(GRANULE, -(-nbytes // GRANULE) * GRANULE)


def segment_bytes(block_bytes: int) -> int:
    """Bytes reserved for a block of that size when no free one fits."""
    if block_bytes <= SMALL:
        return SMALL_SEGMENT
    if block_bytes < LARGE:
        return MIDDLE_SEGMENT
    return -(-block_bytes // ROUND_LARGE) * ROUND_LARGE
