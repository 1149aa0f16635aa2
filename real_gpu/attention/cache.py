"""The flat KV cache: a stretch of slots for each request, and the sink."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from simcg.arrays import Ints
from simcg.errors import InputError, require
from simcg.model.architecture import Architecture

SINK = 0
"""The slot that rows of padding write and no request reads."""


@dataclass(frozen=True, slots=True)
class KvCache:
    """Keys and values of each layer: [slots, kv heads, dim]; slot 0 is the sink.

    ``longest``: tokens that one request may have: the model's positions, or the slots if fewer.
    """

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    longest: int

    @staticmethod
    def allocate(
        arch: Architecture, slots: int, device: torch.device, dtype: torch.dtype
    ) -> KvCache:
        """A cache of zeros with room for ``slots`` - 1 tokens."""
        require(slots >= 2, "KvCache", "slots", slots, "at least 2: the sink and one token")
        # each with memory of its own: a compiler copies whole buffers that alias each other
        parts = [
            torch.zeros((slots, arch.kv_heads, arch.head_dim), device=device, dtype=dtype)
            for _ in range(2 * arch.layers)
        ]
        longest = min(slots - 1, arch.max_position)
        return KvCache(tuple(parts[::2]), tuple(parts[1::2]), longest)

    @property
    def slots(self) -> int:
        """Slots of each layer, the sink included."""
        return int(self.keys[0].shape[0])

    def check(self, starts: Ints, lengths: Ints) -> None:
        """``InputError`` names the first request that is too long, leaves the cache or overlaps."""
        outside = (starts <= SINK) | (starts + lengths > self.slots)
        wrong = np.flatnonzero(outside | (lengths > self.longest))
        if wrong.size == 0:
            self._check_apart(starts, lengths)
            return
        i = int(wrong[0])
        start, length = int(starts[i]), int(lengths[i])
        if length > self.longest:
            raise InputError("KV cache", f"request {i}", length, f"at most {self.longest} tokens")
        where = f"slots of request {i}"
        expected = f"a stretch within 1..{self.slots - 1}"
        raise InputError("KV cache", where, (start, start + length - 1), expected)

    @staticmethod
    def _check_apart(starts: Ints, lengths: Ints) -> None:
        """No two requests may have a slot in common: both would write it."""
        order = np.argsort(starts, kind="stable")
        ends = (starts + lengths)[order]
        touching = np.flatnonzero(ends[:-1] > starts[order][1:])
        if touching.size:
            first, second = (int(order[touching[0] + i]) for i in (0, 1))
            where, value = f"start of request {second}", int(starts[second])
            last = int(ends[touching[0]]) - 1
            expected = f"a stretch apart from request {first}'s, which ends at {last}"
            raise InputError("KV cache", where, value, expected)
