"""An LRU prefix cache over blocks of tokens: how much of a prompt needs no computing."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Sequence


class PrefixCache:
    """Holds up to ``capacity_blocks`` block hashes (None: no limit), least recently used out first.

    A block's hash stands for the whole prefix up to its end, so hits are a leading run. Blocks of
    one prompt are touched last to first: its tail goes before its head, as in engines, where a
    block is useless without those before it.
    """

    def __init__(self, capacity_blocks: int | None) -> None:
        self._capacity = capacity_blocks
        self._unbounded: set[int] = set()
        self._last_use: dict[int, int] = {}
        # tuples of integers, which the garbage collector need not walk over
        self._prompts: deque[tuple[int, tuple[int, ...]]] = deque()
        self._time = 0

    def hit_blocks(self, hashes: Sequence[int]) -> int:
        """How many leading blocks are held; afterwards the prompt's blocks are held too."""
        if self._capacity is None:
            hits = _leading(hashes, self._unbounded)
            self._unbounded.update(hashes[hits:])
            return hits
        hits = _leading(hashes, self._last_use)
        self._time += 1
        touched = dict.fromkeys(hashes, self._time)
        self._last_use.update(touched)
        self._prompts.append((self._time, tuple(touched)))
        self._evict(self._capacity)
        return hits

    def _evict(self, capacity: int) -> None:
        """Drops blocks, oldest prompt first and its tail first, until ``capacity`` are held.

        A block that a later prompt has touched again is passed over: its later entry counts.
        """
        last_use = self._last_use
        while len(last_use) > capacity:
            time, blocks = self._prompts.popleft()
            left = len(blocks)
            while left and len(last_use) > capacity:
                left -= 1
                if last_use.get(blocks[left]) == time:
                    del last_use[blocks[left]]
            if left:
                self._prompts.appendleft((time, blocks[:left]))


def _leading(hashes: Iterable[int], held: Container[int]) -> int:
    """Length of the leading run of ``hashes`` that are held."""
    hits = 0
    for block in hashes:
        if block not in held:
            break
        hits += 1
    return hits
