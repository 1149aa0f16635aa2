"""Notes what this package's own graph devices and backends record."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import torch

from real_gpu.backends.backend import CaptureFigures, Forward
from real_gpu.backends.capture import Captured, GraphBackend
from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.graphs.cuda import CudaGraphDevice
from real_gpu.graphs.pool import CudaMark
from real_gpu.observe.cuda import born_since, kernels_so_far
from real_gpu.observe.patch import Patches
from real_gpu.observe.session import Capturing, Session, Whole
from simcg.ladder import Bucket


def watch_backends(session: Session, patches: Patches) -> None:
    """A bucket of a backend is one recording."""
    capture = GraphBackend.capture_one

    def capture_one(self: GraphBackend, key: Bucket, forward: Forward) -> CaptureFigures:
        mine = session.open(Whole(self.kind.name, key.num_tokens, key.slots or 0, self))
        try:
            figures = capture(self, key, forward)
        except BaseException as error:
            session.fail(str(error))
            raise
        if mine:
            captured = self._captured[key]
            session.close(captured.output, _life_of(self, key, captured))
        return figures

    patches.replace(GraphBackend, "capture_one", capture_one)


def _life_of(backend: GraphBackend, key: Bucket, captured: Captured) -> Callable[[], bool]:
    """Whether the backend and the bucket's graphs are there, without keeping them."""
    owner, graphs = weakref.ref(backend), [weakref.ref(s) for s in captured.segments]

    def alive() -> bool:
        found = owner()
        return found is not None and found.can_run(key) and all(graph() for graph in graphs)

    return alive


def watch_device(session: Session, patches: Patches, device: type[Any]) -> None:
    """A segment of a device of that class, ``RecordingCpuDevice`` or ``CudaGraphDevice``."""
    begin, end, abandon = device.begin, device.end, device.abandon
    marks: dict[str, object] = {}

    def watched_begin(self: Any, pool: Hashable) -> None:
        if session.deaf:
            begin(self, pool)
            return
        session.unwatch()
        with session.own_business():
            if session.log is None:
                marks["first"] = self.mark(pool)
            begin(self, pool)
        try:
            session.began(_capturing(self, pool, marks["first"]))
        except BaseException:
            with session.own_business():
                abandon(self)
            raise

    def watched_end(self: Any) -> Any:
        if session.deaf:
            return end(self)
        session.unwatch()
        with session.own_business():
            segment = end(self)
        session.ended(segment.nodes)
        return segment

    def watched_abandon(self: Any) -> None:
        session.unwatch()
        with session.own_business():
            abandon(self)
        if not session.deaf:
            session.abandoned()

    patches.replace(device, "begin", watched_begin)
    patches.replace(device, "end", watched_end)
    patches.replace(device, "abandon", watched_abandon)
    for name in ("alias", "new_pool", "fill_free"):
        patches.replace(device, name, _unwatched(session, getattr(device, name)))


def _unwatched(session: Session, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with session.own_business():
            return method(self, *args, **kwargs)

    return call


def _capturing(
    device: RecordingCpuDevice | CudaGraphDevice, pool: Hashable, mark: object
) -> Capturing:
    if isinstance(device, CudaGraphDevice):
        assert isinstance(mark, CudaMark)
        return Capturing(device.device, born_since(mark), kernels_so_far, mark.pool.handle)

    def in_pool(tensor: torch.Tensor) -> bool:
        return device.born_since(mark, tensor)

    def count() -> int:
        return len(device._recorder._calls) if device._recorder is not None else 0

    return Capturing(device.device, in_pool, count, pool)
