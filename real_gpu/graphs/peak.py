"""The most bytes that a piece of work has allocated at once, on a device without statistics."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def peak_of(work: Callable[[], object]) -> int:
    """Run it; bytes of the storages that it made and that were alive together at the worst."""
    with _Count() as count:
        work()
    return int(count.peak)


class _Count(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """Bytes of the storages that were born within it and are alive, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._known: set[int] = set()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled code stays compiled within it: it only looks."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the op and look at what it returned."""
        del types
        known = {t.untyped_storage().data_ptr() for t in _tensors((args, kwargs))}
        out = func(*args, **(kwargs or {}))
        for tensor in _tensors(out):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in known | self._known and storage.nbytes():
                self._born(storage)
        return out

    def _born(self, storage: Any) -> None:
        address, size = storage.data_ptr(), storage.nbytes()
        self._known.add(address)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._dead, address, size)

    def _dead(self, address: int, size: int) -> None:
        self._known.discard(address)
        self.live -= size


def _tensors(value: Any) -> list[torch.Tensor]:
    """The strided tensors in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return [value] if value.layout is torch.strided else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [tensor for one in value for tensor in _tensors(one)]
    return []
