"""PyTorch's caching allocator again, as plainly as it can be written: lists, searched in full.

Best fit, split and coalesce within a segment of one pool and one stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simcg.model.activations import Lifetime, lifetimes
from simcg.model.ops import ForwardPass

KIB, MIB = 1 << 10, 1 << 20
GRANULE = 512


@dataclass
class Block:
    """A stretch of a segment; segments are numbered in the order they were reserved."""

    segment: int
    offset: int
    size: int
    free: bool = True


class Allocator:
    """One private pool: nothing goes back to the device."""

    def __init__(self) -> None:
        self.reserved = 0
        self._segments = 0
        self._small: list[Block] = []
        self._large: list[Block] = []

    def take(self, nbytes: int) -> Block:
        """The smallest free block that fits, split where the allocator splits."""
        size = -(-max(nbytes, 1) // GRANULE) * GRANULE
        blocks = self._small if size <= MIB else self._large
        fitting = [block for block in blocks if block.free and block.size >= size]
        if not fitting:
            fitting = [self._segment(size, blocks)]
        block = min(fitting, key=lambda b: (b.size, b.segment, b.offset))
        rest = block.size - size
        if rest >= GRANULE if size <= MIB else rest > MIB:
            tail = Block(block.segment, block.offset + size, rest)
            blocks.insert(blocks.index(block) + 1, tail)
            block.size = size
        block.free = False
        return block

    def give(self, block: Block) -> None:
        """Free it, and merge it with free neighbours of its segment."""
        blocks = self._small if any(block is b for b in self._small) else self._large
        block.free = True
        index = next(i for i, b in enumerate(blocks) if b is block)
        for left in (index, index - 1):
            if not 0 <= left < len(blocks) - 1:
                continue
            one, after = blocks[left], blocks[left + 1]
            if one.free and after.free and one.segment == after.segment:
                one.size += after.size
                del blocks[left + 1]

    def trim(self) -> None:
        """Give segments without a block in use back to the device."""
        for blocks in (self._small, self._large):
            used = {block.segment for block in blocks if not block.free}
            self.reserved -= sum(block.size for block in blocks if block.segment not in used)
            blocks[:] = [block for block in blocks if block.segment in used]

    def _segment(self, size: int, blocks: list[Block]) -> Block:
        if size <= MIB:
            total = 2 * MIB
        elif size < 10 * MIB:
            total = 20 * MIB
        else:
            total = -(-size // (2 * MIB)) * 2 * MIB
        block = Block(self._segments, 0, total)
        self.reserved += total
        self._segments += 1
        blocks.append(block)
        return block


def run_in(pool: Allocator, forward: ForwardPass, rows: int, outside: Iterable[str] = ()) -> None:
    """Allocate and free what a forward of so many rows does.

    ``outside``: tensors that something outside the pool allocates.
    """
    lives = [life for life in lifetimes(forward) if life.tensor.rows == "tokens"]
    lives = [life for life in lives if life.tensor.name not in set(outside)]
    born: dict[int, list[Lifetime]] = {}
    for life in lives:
        born.setdefault(life.written, []).append(life)
    held: list[tuple[int, Block]] = []
    for index in range(len(forward.ops)):
        for life in born.get(index, []):
            held.append((life.last_held, pool.take(rows * life.tensor.row_bytes)))
        for last, block in held:
            if last <= index:
                pool.give(block)
        held = [(last, block) for last, block in held if last > index]
    for _, block in held:
        pool.give(block)
