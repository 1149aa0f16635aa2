"""Turns tensors into storages and regions, and what happens to them into events, in order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from msgspec.structs import replace
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from real_gpu.backends.watch import Arguments
from real_gpu.observe.effects import Effects, as_baked, is_baked
from simcg.formal.recording import (
    Allocate,
    Argument,
    Break,
    Event,
    Free,
    Item,
    Op,
    Part,
    Place,
    Region,
    Role,
    Segment,
    Signal,
    Storage,
    Wait,
)

Declared = Mapping[str, tuple[Role, torch.Tensor]]
"""What tensors outside the pool are for, by name."""
PARTS = "parts"
UNMARKED = "eager code between graphs"
"""The function of a break that nobody announced."""


@dataclass
class Log:
    """What a capture did so far. Holds no tensor, so that memory ends when it would without it.

    ``storages`` are as they were met; ``storages_now`` tells which of them are gone since.
    """

    device: torch.device
    declared: InitVar[Declared]
    in_pool: Callable[[torch.Tensor], bool]
    storages: list[Storage] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    _alive: dict[int, tuple[StorageWeakRef, int]] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)
    _streams: dict[int, int] = field(default_factory=dict)
    _signals: dict[int, int] = field(default_factory=dict)
    _labels: int = 0
    _in_segment: bool = False

    def __post_init__(self, declared: Declared) -> None:
        by_storage: dict[int, list[tuple[str, Role, torch.Tensor]]] = {}
        for name, (role, tensor) in declared.items():
            key = tensor.untyped_storage()._cdata
            by_storage.setdefault(key, []).append((name, role, tensor))
        for found in by_storage.values():
            self._declare(found)

    def _declare(self, found: Sequence[tuple[str, Role, torch.Tensor]]) -> None:
        """Tensors of one storage: one that fills it gives it its role, others are its parts."""
        for name, role, tensor in found:
            if region_in(0, tensor) == Region(0, 0, tensor.untyped_storage().nbytes()):
                self._enter(tensor, role, name)
                return
        index = self._enter(found[0][2], name=PARTS)
        places = [(name, role, region_in(index, tensor)) for name, role, tensor in found]
        parts = tuple(
            Part(role, name, at.offset, at.bytes, at.shape, at.strides)
            for name, role, at in places
            if at.bytes
        )
        self.storages[index] = replace(self.storages[index], name="", parts=parts)

    @property
    def in_segment(self) -> bool:
        """Whether a graph is being recorded."""
        return self._in_segment

    def op(self, effects: Effects, result: Any, nodes: int) -> None:
        """An operator ran and left so many kernels in the graph; memory of its result is new."""
        self._notice_ends()
        reads = [self.region(tensor) for tensor in effects.reads]
        writes = [self.region(tensor) for tensor in effects.writes]
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and not self._knows(tensor):
                fresh = not self._in_segment
                writes.append(self.region(tensor, fresh))
        if effects.touches_nothing or not any(region.bytes for region in writes):
            return  # views and allocations touch no memory
        self._events.append(
            Op(
                effects.name,
                tuple(dict.fromkeys(reads)),
                tuple(dict.fromkeys(writes)),
                effects.baked,
                self._stream(),
                effects.decided,
                nodes if self._in_segment else 1,
                _line_of_program(),
            )
        )

    def host_value(self, tensor: torch.Tensor) -> None:
        """A tensor was made from a value of the host."""
        self._notice_ends()
        self._enter(tensor, place="host")

    def seen(self) -> int:
        """Events of the item under way."""
        return len(self._events)

    def nodes_since(self, seen: int) -> int:
        """Kernels of operators noted since then."""
        return sum(event.nodes for event in self._events[seen:] if isinstance(event, Op))

    def signal(self, event: int, stream: int) -> None:
        """An event was recorded on the stream with that handle."""
        if self._in_segment:
            self._labels += 1
            self._signals[event] = self._labels
            self._events.append(Signal(self._index(stream), self._labels))

    def wait(self, event: int, stream: int) -> None:
        """The stream with that handle waits for the event."""
        if self._in_segment and event in self._signals:
            self._events.append(Wait(self._index(stream), self._signals[event]))

    def begin_segment(self) -> None:
        """The capture stream is the current one from now on."""
        self._end_break()
        self._begin_streams()
        self._in_segment = True

    def end_segment(self, nodes: int) -> None:
        """The device has made a graph of so many kernels of what happened since it began."""
        self._notice_ends()
        self.items.append(Segment(nodes, tuple(self._events)))
        self._events.clear()
        self._begin_streams()
        self._in_segment = False

    def settle(self) -> None:
        """What happened since the last item was noted belongs to it."""
        self._notice_ends()
        if self.items:
            last = self.items[-1]
            self.items[-1] = replace(last, events=last.events + tuple(self._events))
        self._events.clear()

    def on_break(
        self, function: Callable[..., Any], given: Arguments, held: Arguments, runs: bool
    ) -> None:
        """See ``BreakWatcher``; what a break does comes after."""
        self.settle()
        names = [*map(str, range(len(given[0]))), *given[1]]
        pairs = zip((*given[0], *given[1].values()), (*held[0], *held[1].values()), strict=True)
        arguments = tuple(
            argument
            for name, (now, kept) in zip(names, pairs, strict=True)
            for argument in self._arguments(name, now, kept)
        )
        self.items.append(Break(_name(function), arguments, ran=runs))

    def after_break(
        self, function: Callable[..., Any], held: Arguments, given: Mapping[int, Region]
    ) -> None:
        """A break has run, and a replay passes ``held``.

        ``given``: by ``id`` of what is held weakly, where the tensor lies that the break got.
        """
        self._notice_ends()
        named = [(str(index), value) for index, value in enumerate(held[0])]
        arguments = tuple(
            self._argument(place, leaf, given.get(id(leaf)))
            for name, value in (*named, *held[1].items())
            for place, leaf in _leaves(name, value)
        )
        self.items.append(Break(_name(function), arguments, events=tuple(self._events)))
        self._events.clear()

    def on_result(self, result: Any, buffers: Any) -> None:
        """See ``BreakWatcher``; the buffers were allocated in the segment that has begun."""
        returns, results = (
            tuple(
                self.region(leaf) for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)
            )
            for value in (buffers, result)
        )
        self.items[-1] = replace(self.items[-1], returns=returns, results=results)

    def region(self, tensor: torch.Tensor, fresh: bool = False) -> Region:
        """Where a tensor's bytes lie; its storage is noted if it is new."""
        return region_in(self._enter(tensor, fresh=fresh), tensor)

    def region_at(self, tensor: torch.Tensor) -> Region:
        """The same by address, for a tensor that may be an alias of one that was met."""
        if not self._knows(tensor):
            address = tensor.untyped_storage().data_ptr()
            for index in reversed(range(len(self.storages))):
                if self.storages[index].address == address:
                    return region_in(index, tensor)
        return self.region(tensor)

    def storages_now(self) -> tuple[Storage, ...]:
        """The storages; those from outside whose last tensor has died are gone."""
        alive = {index for weak, index in self._alive.values() if not weak.expired()}
        return tuple(
            replace(storage, gone=storage.place == "outside" and index not in alive)
            for index, storage in enumerate(self.storages)
        )

    def _end_break(self) -> None:
        """What happened between two segments belongs to a break, announced or not."""
        ran = any(isinstance(event, Op) for event in self._events)
        if ran and self.items and isinstance(self.items[-1], Segment):
            self.items.append(Break(UNMARKED))
        if self.items:
            self.settle()
        else:
            self._notice_ends()

    def _notice_ends(self) -> None:
        """Note the storages that have died since; before one is looked up, always."""
        for key, (weak, index) in list(self._alive.items()):
            if weak.expired():
                del self._alive[key]
                if self.storages[index].place == "pool":
                    self._events.append(Free(index))

    def _knows(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._alive

    def _enter(
        self,
        tensor: torch.Tensor,
        role: Role = "unknown",
        name: str = "",
        fresh: bool = False,
        place: Place | None = None,
    ) -> int:
        storage = tensor.untyped_storage()
        found = self._alive.get(storage._cdata)
        if found is not None:
            return found[1]
        index = len(self.storages)
        if place is None:
            place = "outside" if tensor.device == self.device else "host"
            if place == "outside" and not name and self.in_pool(tensor):
                place = "pool"
        fresh = fresh and place != "pool"
        address = storage.data_ptr()
        described = "" if name else f"{_type_name(tensor)}{list(tensor.shape)}"
        self.storages.append(
            Storage(storage.nbytes(), address, place, role, name, described, fresh=fresh)
        )
        self._alive[storage._cdata] = StorageWeakRef(storage), index
        if place == "pool":
            self._events.append(Allocate(index))
        return index

    def _arguments(self, name: str, given: Any, held: Any) -> Iterator[Argument]:
        """One for each tensor in an argument; one for a value."""
        for (place, leaf), keeper in zip(_leaves(name, given), tree_leaves(held), strict=True):
            weak = isinstance(leaf, torch.Tensor) and keeper is not leaf
            yield self._argument(place, leaf, self.region(leaf) if weak else None)

    def _argument(self, place: str, leaf: Any, weak: Region | None) -> Argument:
        held: Literal["strong", "weak"] = "strong" if weak is None else "weak"
        if isinstance(leaf, torch.Tensor):
            return Argument(place, held, self.region(leaf) if weak is None else weak)
        if leaf is None or is_baked(leaf):
            return Argument(place, "value", None, None if leaf is None else as_baked(leaf))
        return Argument(place, "object", None, type(leaf).__qualname__)

    def _begin_streams(self) -> None:
        """The current stream is the first of the item."""
        self._streams.clear()
        self._signals.clear()
        self._stream()

    def _stream(self) -> int:
        if self.device.type != "cuda":
            return 0
        return self._index(torch.cuda.current_stream(self.device).cuda_stream)

    def _index(self, handle: int) -> int:
        return self._streams.setdefault(handle, len(self._streams))


def _type_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _line_of_program() -> str:
    """The innermost line outside torch and outside what captures and watches."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_NOT_THE_PROGRAM) and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


_NOT_THE_PROGRAM = (
    str(Path(torch.__file__).parent),
    str(Path(torch.__file__).parent.with_name("triton")),
    *(str(Path(__file__).parent.parent / part) for part in ("observe", "graphs", "backends")),
)


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of an argument with their names."""
    leaves = tree_leaves(value)
    for index, leaf in enumerate(leaves):
        yield (name if len(leaves) == 1 else f"{name}.{index}"), leaf


def region_in(index: int, tensor: torch.Tensor) -> Region:
    """The bytes of a tensor in the storage with that number."""
    item = tensor.element_size()
    offset = tensor.storage_offset() * item
    if not tensor.numel():
        return Region(index, offset, 0)
    # dimensions of one element, and those that repeat one, add no bytes
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    kept = [(size, stride * item) for size, stride in sizes if size > 1 and stride]
    length = item + sum((size - 1) * stride for size, stride in kept)
    elements = 1
    for size, _ in kept:
        elements *= size
    if length == elements * item:
        return Region(index, offset, length)
    shape, strides = zip(*kept, strict=True)
    return Region(index, offset, length, shape, strides)
