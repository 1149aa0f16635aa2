"""Attention as a model calls it: one marked function, on whatever attention is in use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import torch

from real_gpu.attention.cache import KvCache
from real_gpu.attention.metadata import AttentionMetadata, LaunchBounds
from real_gpu.backends.breaks import eager_on_graph
from simcg.model.architecture import Architecture


class AttentionKernel(Protocol):
    """Causal grouped-query attention of new tokens over their requests' stretches of a cache."""

    def __call__(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        metadata: AttentionMetadata,
        bounds: LaunchBounds,
        window: int | None,
        /,
    ) -> torch.Tensor:
        """Results [rows, heads, dim] of q [rows, heads, dim]; keys, values [slots, kv heads, dim].

        The last row of a request sees all its ``key_lengths``, each row before it one key fewer,
        and only the last ``window`` of them if there is one. Rows of no request come out as
        anything, NaN included. No value is read on the host.
        """


class Attention:
    """Runs a planned step on its cache, layer by layer.

    ``use`` before each step; what ``run`` is given then must agree with it.
    """

    def __init__(self, arch: Architecture, cache: KvCache, kernel: AttentionKernel) -> None:
        self.cache = cache
        self._kernel = kernel
        self._heads, self._kv, self._dim = arch.heads, arch.kv_heads, arch.head_dim
        self._windows = [kind.window for kind in arch.layer_kinds]

    def use(self, metadata: AttentionMetadata, bounds: LaunchBounds) -> None:
        """Look at the first ``bounds.requests`` requests of ``metadata`` from now on."""
        self._bounds = bounds
        self._metadata = metadata.first(bounds.rows, bounds.requests)

    def run(self, qkv: torch.Tensor, out: torch.Tensor, layer: int) -> None:
        """Writes the first ``bounds.rows`` rows of out[T, heads * dim]; leaves the rest alone.

        qkv [T, (heads + 2 kv heads) * dim], whose keys and values the cache holds already.
        """
        rows, heads, dim = self._bounds.rows, self._heads, self._dim
        size, width = (rows, heads, dim), (heads + 2 * self._kv) * dim
        # one view each: this is the host time of a break
        q = qkv.as_strided(size, (width, dim, 1), qkv.storage_offset())
        target = out.as_strided(size, (heads * dim, dim, 1), out.storage_offset())
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        window = self._windows[layer]
        target.copy_(self._kernel(q, keys, values, self._metadata, self._bounds, window))


_active: ContextVar[Attention] = ContextVar("active attention")


@contextmanager
def using(attention: Attention) -> Iterator[None]:
    """Within it, ``attend`` runs on ``attention``."""
    token = _active.set(attention)
    try:
        yield
    finally:
        _active.reset(token)


def active() -> Attention:
    """The attention in use; ``LookupError`` outside ``using``."""
    return _active.get()


@eager_on_graph
def attend(qkv: torch.Tensor, out: torch.Tensor, layer: int) -> None:
    """Attention of one layer, written into ``out``; see ``Attention.run``."""
    active().run(qkv, out, layer)
