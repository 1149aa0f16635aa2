"""Records what a backend's capture does, on any graph device, for simcg's checker.

    device = ObservingDevice(RecordingCpuDevice())
    backend = breakable(device)
    recording = observed_capture(device, backend, bucket, forward, {"ids": ("static", ids)})

Kernels that are no operators of torch are seen where Triton launches them by name; what a
compiler launches shows only in a segment's number of nodes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from real_gpu.backends.backend import Backend, Forward
from real_gpu.backends.watch import watching_breaks
from real_gpu.graphs.device import GraphDevice, MemoryFigures, Segment
from real_gpu.observe.effects import effects_of, kernel_effects
from real_gpu.observe.log import Declared, Log
from simcg.formal.recording import Recording, Region
from simcg.ladder import Bucket


def observed_capture(
    device: ObservingDevice,
    backend: Backend,
    key: Bucket,
    forward: Forward,
    declared: Declared,
) -> Recording:
    """Capture a bucket on a backend of ``device``, and say what was done.

    ``declared``: what tensors outside the pool are for, by name; one may be the "output". Raises
    ``CaptureError`` as the capture does.
    """
    with device.watching(declared) as log:
        backend.capture_one(key, forward)
        outputs = [tensor for role, tensor in declared.values() if role == "output"]
        output: Region | None = log.region(outputs[0]) if outputs else None
    slots = key.slots or 0
    return Recording(
        backend.kind.name, key.num_tokens, slots, tuple(log.storages), tuple(log.items), output
    )


class Watcher(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """While entered, operators are noted in the log as they are dispatched."""

    supports_higher_order_operators = True

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def __torch_dispatch__(
        self, func: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        kwargs = kwargs or {}
        effects, before = effects_of(func, args, kwargs), self._log.seen()
        result = func(*args, **kwargs)
        if isinstance(func, OpOverload) or self._log.seen() == before:
            # one of higher order, around a kernel, has been noted as that kernel
            self._log.op(effects, result)
        return result


class ObservingDevice:
    """A ``GraphDevice`` that passes everything on to another, and can watch what is recorded."""

    def __init__(self, inner: GraphDevice) -> None:
        self._inner = inner
        self._log: Log | None = None
        self._marks: list[object] = []  # of the pool, before the first segment under watch
        self._watcher: Watcher | None = None

    @contextmanager
    def watching(self, declared: Declared) -> Iterator[Log]:
        """Within it, captures are noted in a log; it is for one capture."""
        marks = self._marks = []

        def in_pool(tensor: torch.Tensor) -> bool:
            return any(self._inner.born_since(mark, tensor) for mark in marks)

        log = self._log = Log(self.device, declared, in_pool)
        try:
            with watching_breaks(log), watching_kernels(log):
                yield log
        finally:
            self._unwatch()
            self._log = None
            log.settle()

    @property
    def device(self) -> torch.device:
        """See ``GraphDevice``."""
        return self._inner.device

    @property
    def recording(self) -> bool:
        """See ``GraphDevice``."""
        return self._inner.recording

    def new_pool(self, room: int = 0) -> Hashable:
        """See ``GraphDevice``."""
        return self._inner.new_pool(room)

    def begin(self, pool: Hashable) -> None:
        """See ``GraphDevice``."""
        self._unwatch()
        if self._log is not None and not self._marks:
            self._marks.append(self._inner.mark(pool))
        self._inner.begin(pool)
        if self._log is not None:
            self._log.begin_segment()
            self._watch(self._log)

    def end(self) -> Segment:
        """See ``GraphDevice``."""
        self._unwatch()
        segment = self._inner.end()
        if self._log is not None:
            self._log.end_segment(segment.nodes)
            self._watch(self._log)  # what runs between segments too
        return segment

    def abandon(self) -> None:
        """See ``GraphDevice``."""
        self._unwatch()
        self._inner.abandon()

    def join(self) -> object:
        """See ``GraphDevice``."""
        return self._inner.join()

    def fork(self, joined: object) -> None:
        """See ``GraphDevice``."""
        self._inner.fork(joined)

    def on_capture_stream(self) -> AbstractContextManager[None]:
        """See ``GraphDevice``."""
        return self._inner.on_capture_stream()

    def mark(self, pool: Hashable) -> object:
        """See ``GraphDevice``."""
        return self._inner.mark(pool)

    def born_since(self, mark: object, tensor: torch.Tensor) -> bool:
        """See ``GraphDevice``."""
        return self._inner.born_since(mark, tensor)

    def alias(self, tensor: torch.Tensor) -> torch.Tensor:
        """See ``GraphDevice``; how it is made is no part of the capture."""
        watched, log = self._watcher is not None, self._log
        self._unwatch()
        try:
            return self._inner.alias(tensor)
        finally:
            if watched and log is not None:
                self._watch(log)

    def synchronize(self) -> None:
        """See ``GraphDevice``."""
        self._inner.synchronize()

    def peak_bytes(self, work: Callable[[], object]) -> int:
        """See ``GraphDevice``."""
        return self._inner.peak_bytes(work)

    def memory(self) -> MemoryFigures:
        """See ``GraphDevice``."""
        return self._inner.memory()

    def pool_bytes(self, pool: Hashable) -> int:
        """See ``GraphDevice``."""
        return self._inner.pool_bytes(pool)

    def fill_free(self, pool: Hashable, byte: int) -> None:
        """See ``GraphDevice``."""
        self._inner.fill_free(pool, byte)

    def _watch(self, log: Log) -> None:
        self._watcher = Watcher(log)
        self._watcher.__enter__()

    def _unwatch(self) -> None:
        if self._watcher is not None:
            self._watcher.__exit__(None, None, None)
            self._watcher = None


@contextmanager
def watching_kernels(log: Log) -> Iterator[None]:
    """Within it, launches of Triton's own kernels are noted: torch does not dispatch them."""
    if importlib.util.find_spec("triton") is None:
        yield
        return
    from triton.runtime.jit import JITFunction  # noqa: PLC0415 - absent without CUDA

    launch = JITFunction.run

    def noted(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("warmup"):
            log.op(kernel_effects(f"triton.{kernel.fn.__name__}", args, kwargs), None)
        return launch(kernel, *args, **kwargs)

    JITFunction.run = noted
    try:
        yield
    finally:
        JITFunction.run = launch
