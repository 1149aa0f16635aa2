"""What is being watched: recordings one after the other, each from its first segment to its end."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from real_gpu.backends.watch import Arguments
from real_gpu.observe.effects import Effects, effects_of
from real_gpu.observe.log import Declared, Log
from simcg.backend import BackendName
from simcg.formal.recording import Failure, Recording, Region


@dataclass(frozen=True, slots=True)
class Taken:
    """A finished recording; ``now`` tells which of its tensors are gone.

    ``alive``: whether its graphs are still there, as far as anybody knows.
    """

    backend: BackendName
    tokens: int
    slots: int
    log: Log
    output: Region | None
    group: int
    alive: Callable[[], bool]

    def now(self) -> Recording:
        """The recording as of now."""
        return Recording(
            self.backend, self.tokens, self.slots, self.log.storages_now(), tuple(self.log.items),
            self.output, self.group, released=not self.alive(),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Capturing:
    """What a device tells when it begins a segment.

    ``in_pool``: whether a tensor's memory is in the pool and was allocated since the recording
    began; ``count``: kernels in the segment so far; ``pool`` tells pools apart.
    """

    device: torch.device
    in_pool: Callable[[torch.Tensor], bool]
    count: Callable[[], int]
    pool: object


@dataclass(frozen=True, slots=True)
class Whole:
    """Segments of one recording: of a bucket, and of a backend if one is known."""

    backend: BackendName
    tokens: int
    slots: int
    owner: object = None


@dataclass
class Session:
    """At most one recording is under way; it is dropped if its capture fails.

    ``declared``: what tensors outside the pool are for. Inside ``whole`` all segments belong to
    one recording; elsewhere each is one.
    """

    declared: Declared
    taken: list[Taken] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    _log: Log | None = None
    _watcher: Watcher | None = None
    _whole: Whole | None = None
    _pool: object = None
    _groups: dict[object, int] = field(default_factory=dict)
    _count: Callable[[], int] | None = None
    _deaf: int = 0

    @property
    def log(self) -> Log | None:
        """Of the recording under way."""
        return self._log

    @property
    def deaf(self) -> bool:
        """Whether segments that begin now are a device's own business."""
        return self._deaf > 0

    @contextmanager
    def own_business(self) -> Iterator[None]:
        """Within it nothing is watched or noted."""
        watched, self._deaf = self._watcher is not None, self._deaf + 1
        self.unwatch()
        try:
            yield
        finally:
            self._deaf -= 1
            if watched and not self._deaf:
                self.watch()

    def open(self, whole: Whole) -> bool:
        """Segments are one recording from now on; False if they are already."""
        if self._whole is not None:
            return False
        self._whole = whole
        return True

    def close(
        self, output: torch.Tensor | None = None, alive: Callable[[], bool] = lambda: True
    ) -> None:
        """The recording is complete; ``output``: what its forward returned, if that is known."""
        self.unwatch()
        log, whole = self._log, self._whole or UNKNOWN
        self._log = self._whole = None
        if log is None:
            return
        log.settle()
        if output is None:
            outputs = [tensor for role, tensor in self.declared.values() if role == "output"]
            output = outputs[0] if len(outputs) == 1 else None
        region = None if output is None else log.region_at(output)
        group = self._group_of(self._pool if whole.owner is None else whole.owner)
        self.taken.append(
            Taken(whole.backend, whole.tokens, whole.slots, log, region, group, alive)
        )

    def fail(self, reason: str) -> None:
        """The capture failed."""
        if self._whole is not None or self._log is not None:
            whole, line = self._whole or UNKNOWN, reason.split("\n", 1)[0]
            self.failed.append(Failure(whole.backend, whole.tokens, whole.slots, line))
        self.drop()

    def drop(self) -> None:
        """Forget what is under way."""
        self.unwatch()
        self._log = self._whole = None

    def _group_of(self, owner: object) -> int:
        """The number of a backend's or a pool's captures; a weak reference is its own key."""
        key = owner if isinstance(owner, tuple) else weakref.ref(owner)
        return self._groups.setdefault(key, len(self._groups) + 1)

    def began(self, found: Capturing) -> None:
        """A segment has begun; the recording begins with its first."""
        if self._log is None:
            self._log = Log(found.device, self.declared, found.in_pool)
            self._pool = found.pool
        self._count = found.count
        self._log.begin_segment()
        self.watch()

    def abandoned(self) -> None:
        """The segment failed; of several the capture may go on."""
        if self._whole is None:
            self.fail("the recording was abandoned")

    def nodes(self) -> int:
        """Kernels in the segment under way, as far as it has come."""
        return self._count() if self._count and self._log and self._log.in_segment else 0

    def ended(self, nodes: int) -> None:
        """The segment has so many kernels."""
        if self._log is None:
            return
        self._log.end_segment(nodes)
        if self._whole is None:
            self.close()
        else:
            self.watch()  # what runs between segments too

    def watch(self) -> None:
        """Note operators from now on."""
        if self._log is not None and self._watcher is None:
            self._watcher = Watcher(self)
            self._watcher.__enter__()

    def unwatch(self) -> None:
        """Note none."""
        if self._watcher is not None:
            self._watcher.__exit__(None, None, None)
            self._watcher = None

    @contextmanager
    def noting(self, effects: Effects) -> Iterator[Callable[[Any], None]]:
        """Around a call: what it yields notes the call with its result."""
        log, before = self._log, self.nodes()
        seen = log.seen() if log is not None else 0

        def note(result: Any) -> None:
            if log is not None and log is self._log:
                nodes = self.nodes() - before - log.nodes_since(seen)
                log.op(effects, result, max(nodes, 0))

        yield note

    def on_break(
        self, function: Callable[..., Any], given: Arguments, held: Arguments, runs: bool
    ) -> None:
        """See ``BreakWatcher``."""
        if self._log is not None:
            self._log.on_break(function, given, held, runs)

    def on_result(self, result: Any, buffers: Any) -> None:
        """See ``BreakWatcher``."""
        if self._log is not None:
            self._log.on_result(result, buffers)


UNKNOWN = Whole("full", 0, 0)
"""Segments that nobody said belong together."""


class Watcher(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """While entered, operators are noted as they are dispatched."""

    supports_higher_order_operators = True

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled code stays compiled within it: it only looks."""
        return True

    def __torch_dispatch__(
        self, func: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        kwargs = kwargs or {}
        if isinstance(func, OpOverload) and func._can_decompose():
            with self:  # in inference mode, composite operators come whole
                return func.decompose(*args, **kwargs)
        log = self._session.log
        if log is None:
            return func(*args, **kwargs)
        seen = log.seen()
        with self._session.noting(effects_of(func, args, kwargs)) as note:
            result = func(*args, **kwargs)
            if func is torch.ops.aten.lift_fresh.default:
                log.host_value(result)
            elif isinstance(func, OpOverload) or log.seen() == seen:
                # one of higher order, around a kernel, has been noted as that kernel
                note(result)
        return result
