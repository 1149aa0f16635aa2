"""Turns tensors into storages and regions, and what happens to them into events, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

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
    Place,
    Region,
    Role,
    Segment,
    Storage,
)

Declared = Mapping[str, tuple[Role, torch.Tensor]]
"""What tensors outside the pool are for, by name."""


@dataclass
class Log:
    """What a capture did so far. Holds no tensor, so that memory ends when it would without it."""

    device: torch.device
    declared: Declared
    in_pool: Callable[[torch.Tensor], bool]
    storages: list[Storage] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    _alive: dict[int, tuple[StorageWeakRef, int]] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)
    _streams: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (role, tensor) in self.declared.items():
            self._enter(tensor, role, name)

    def op(self, effects: Effects, result: Any) -> None:
        """An operator ran; memory that its result brings is new."""
        self._notice_ends()
        reads = [self.region(tensor) for tensor in effects.reads]
        writes = [self.region(tensor) for tensor in effects.writes]
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and not self._knows(tensor):
                writes.append(self.region(tensor))
        if effects.only_allocates or not writes:
            return  # views and allocations touch no memory
        self._events.append(
            Op(
                effects.name,
                tuple(dict.fromkeys(reads)),
                tuple(dict.fromkeys(writes)),
                effects.baked,
                self._stream(),
                effects.decided,
            )
        )

    def seen(self) -> int:
        """Events of the item under way."""
        return len(self._events)

    def begin_segment(self) -> None:
        """The capture stream is the current one from now on."""
        self.settle()
        self._streams.clear()
        self._stream()

    def end_segment(self, nodes: int) -> None:
        """The device has made a graph of so many kernels of what happened since it began."""
        self._notice_ends()
        self.items.append(Segment(nodes, tuple(self._events)))
        self._events.clear()

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
        """See ``BreakWatcher``."""
        self.settle()
        names = [*map(str, range(len(given[0]))), *given[1]]
        pairs = zip((*given[0], *given[1].values()), (*held[0], *held[1].values()), strict=True)
        arguments = tuple(
            argument
            for name, (now, kept) in zip(names, pairs, strict=True)
            for argument in self._arguments(name, now, kept)
        )
        name = f"{function.__module__}.{function.__qualname__}"
        self.items.append(Break(name, arguments, ran=runs))

    def on_result(self, value: Any) -> None:
        """See ``BreakWatcher``; the buffers were allocated in the segment that has begun."""
        last = self.items[-1]
        buffers = [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        self.items[-1] = replace(last, returns=tuple(map(self.region, buffers)))

    def region(self, tensor: torch.Tensor) -> Region:
        """Where a tensor's bytes lie; its storage is noted if it is new."""
        index = self._enter(tensor)
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

    def _notice_ends(self) -> None:
        """Note the storages that have died since; before one is looked up, always."""
        for key, (weak, index) in list(self._alive.items()):
            if weak.expired():
                del self._alive[key]
                if self.storages[index].place == "pool":
                    self._events.append(Free(index))

    def _knows(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._alive

    def _enter(self, tensor: torch.Tensor, role: Role = "unknown", name: str = "") -> int:
        storage = tensor.untyped_storage()
        found = self._alive.get(storage._cdata)
        if found is not None:
            return found[1]
        index = len(self.storages)
        pool = not name and self.in_pool(tensor)
        place: Place = "host" if tensor.device != self.device else "pool" if pool else "outside"
        self.storages.append(Storage(storage.nbytes(), storage.data_ptr(), place, role, name))
        self._alive[storage._cdata] = StorageWeakRef(storage), index
        if place == "pool":
            self._events.append(Allocate(index))
        return index

    def _arguments(self, name: str, given: Any, held: Any) -> Iterator[Argument]:
        """One for each tensor in an argument; one for a value."""
        leaves, kept = tree_leaves(given), tree_leaves(held)
        for index, (leaf, keeper) in enumerate(zip(leaves, kept, strict=True)):
            place = name if len(leaves) == 1 else f"{name}.{index}"
            if isinstance(leaf, torch.Tensor):
                region = self.region(leaf)
                yield Argument(place, "strong" if keeper is leaf else "weak", region)
            else:
                yield Argument(
                    place, "value", None, as_baked(leaf) if is_baked(leaf) else str(leaf)
                )

    def _stream(self) -> int:
        if self.device.type != "cuda":
            return 0
        handle = torch.cuda.current_stream(self.device).cuda_stream
        return self._streams.setdefault(handle, len(self._streams))
