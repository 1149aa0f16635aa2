"""An LRU prefix cache over blocks of tokens: how much of a prompt needs no computing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence


class PrefixCache:
    """Holds up to ``capacity_blocks`` block hashes (None: no limit), least recently used out first.

    A block's hash stands for the whole prefix up to its end, so hits are a leading run. Blocks of
    one prompt are touched last to first: its tail goes before its head, as in engines, where a
    block is useless without those before it.
    """

    def __init__(self, capacity_blocks: int | None) -> None:
        self._capacity = capacity_blocks
        self._unbounded: set[int] = set()
        self._recent: OrderedDict[int, None] = OrderedDict()

    def hit_blocks(self, hashes: Sequence[int]) -> int:
        """How many leading blocks are held; afterwards the prompt's blocks are held too."""
        if self._capacity is None:
            hits = _leading(hashes, self._unbounded)
            self._unbounded.update(hashes[hits:])
            return hits
        recent = self._recent
        hits = _leading(hashes, recent)
        for block in reversed(hashes):
            recent[block] = None
            recent.move_to_end(block)
        while len(recent) > self._capacity:
            recent.popitem(last=False)
        return hits


def _leading(hashes: Iterable[int], held: set[int] | OrderedDict[int, None]) -> int:
    """Length of the leading run of ``hashes`` that are held."""
    hits = 0
    for block in hashes:
        if block not in held:
            break
        hits += 1
    return hits
