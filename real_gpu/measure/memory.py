"""Memory of a captured ladder, and the activation peak of an eager step."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from real_gpu.graphs.device import MemoryFigures
from real_gpu.measure.runner import Way
from simcg.runs.schema import Bytes, MemoryCell


def memory_cell(
    model: str, way: Way, before: MemoryFigures, after: MemoryFigures, eager_peak: int
) -> MemoryCell:
    """What all buckets of a way took together; figures of the last capture hold the pool."""
    figures = way.runner.figures
    buckets = sorted(figures)
    return MemoryCell(
        model=model, backend=way.backend, compiler=way.compiler,
        buckets=tuple(b.num_tokens for b in buckets), slots=buckets[-1].slots or 0,
        before=_bytes(before), after=_bytes(after),
        pool=max(f.pool_bytes for f in figures.values()), eager_peak=eager_peak,
        nodes=sum(f.nodes for f in figures.values()),
    )  # fmt: skip


def _bytes(figures: MemoryFigures) -> Bytes:
    return Bytes(figures.live, figures.reserved, figures.device)


def eager_peak(run: Callable[[], object], device: torch.device) -> int:
    """The most bytes that ``run`` has allocated at once beside what was there before."""
    if device.type == "cuda":
        run()  # workspaces of libraries are not activations
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - before)
    with _counted() as count:
        run()
    return count.peak


class _Count(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """Bytes of the storages that were born within it and are alive, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._known: set[int] = set()

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


@contextmanager
def _counted() -> Iterator[_Count]:
    count = _Count()
    with count:
        yield count


def _tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [tensor for one in value for tensor in _tensors(one)]
    return []
