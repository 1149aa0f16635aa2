"""A recording: what one capture of one bucket did, as data that a checker reads without torch.

A forward that was captured is a list of *items* in the order in which a replay runs them:
segments of graph, and breaks between them. An item is a list of *events*: operators, the
beginnings and ends of storages' lives, and how streams wait for each other, in the order in which
they happened at capture. An
operator reads and writes *regions* of *storages*; a storage is one allocation, so memory that is
used again is another storage at the same address. Sizes and offsets are bytes.

What a recording does not know, it says: an operator without a known set of reads and writes is
not ``decided``, a break that did not run at capture has not ``ran``, and a segment with more
``nodes`` than operators launched kernels that nobody saw. Of an object that a break is given its
type is known, and of a capture that failed that it did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from simcg.backend import BackendName
from simcg.errors import SimcgError

VERSION: Literal[2] = 2

Size = Annotated[int, Meta(ge=0, le=2**62)]
Positive = Annotated[int, Meta(ge=1, le=2**62)]
Address = Annotated[int, Meta(ge=0, le=2**62)]
Scalar = bool | int | float | str | None
Baked = Scalar | tuple[Scalar, ...]
"""A host value of a launch; numbers that JSON lacks are the strings "nan", "inf", "-inf"."""

Place = Literal["pool", "outside", "host"]
"""The graphs' private pool; the device outside it; the host, whose values a launch bakes in."""
Role = Literal["unknown", "static", "constant", "cache", "output", "scratch"]
"""What memory outside the pool is for: not declared; rewritten by the host before each replay;
never written; keys, values and state that steps hand on; rows that the forward returns; what each
step writes before it reads it."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A declared tensor that is not all of its storage; fields as those of ``Region``."""

    role: Role
    name: str
    offset: Size
    bytes: Size
    shape: tuple[Positive, ...] = ()
    strides: tuple[Size, ...] = ()


class Storage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One allocation. ``role``, ``name``: of the declared tensor that fills it, "" for none.

    ``parts``: declared tensors that do not. ``tensor``: type and shape of the first tensor that
    was met in it. ``fresh``: a break made it at capture, so each replay makes another. ``gone``:
    memory outside the pool whose last tensor had died when the recording was written.
    """

    bytes: Size
    address: Address
    place: Place
    role: Role = "unknown"
    name: str = ""
    tensor: str = ""
    parts: tuple[Part, ...] = ()
    fresh: bool = False
    gone: bool = False

    def __post_init__(self) -> None:
        if self.place == "pool" and self.declared:
            raise ValueError("roles are for memory outside the pool")
        if self.parts and self.role != "unknown":
            raise ValueError(f"role {self.role} is all of the storage's, and it has parts")

    @property
    def declared(self) -> bool:
        """Whether it is said what it is for, or a part of it."""
        return self.role != "unknown" or bool(self.parts)


class Region(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The bytes of a tensor in a storage, from its first to its last.

    ``storage`` is an index into the recording's. ``shape`` and ``strides`` (in bytes) are given
    where the tensor leaves some of these bytes out, and are empty where it has them all.
    """

    storage: Size
    offset: Size
    bytes: Size
    shape: tuple[Positive, ...] = ()
    strides: tuple[Size, ...] = ()

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.strides):
            raise ValueError(f"{len(self.strides)} strides for {len(self.shape)} dimensions")
        if self.shape and self.item_bytes < 1:
            raise ValueError(f"{self.bytes} bytes end before the last element begins")

    @property
    def item_bytes(self) -> int:
        """Bytes of one element; of all of them where the region has no gaps."""
        steps = zip(self.shape, self.strides, strict=True)
        return self.bytes - sum((size - 1) * stride for size, stride in steps)


class Op(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag="op"):
    """An operator. ``reads`` and ``writes`` are upper bounds where it is ``decided``.

    An operator that writes part of what its argument holds reads it too. ``baked``: host values
    among its arguments, by name. ``stream``: 0 is the capture stream. ``nodes``: kernels that
    the device recorded while it was called; in a break this says nothing. ``line``: of the
    program that called it, as ``file:number``.
    """

    name: str
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()
    baked: dict[str, Baked] = {}
    stream: Size = 0
    decided: bool = True
    nodes: Size = 1
    line: str = ""


class Allocate(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag="allocate"
):
    """A storage begins; what it holds is anything."""

    storage: Size


class Free(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag="free"):
    """The last tensor in a storage has gone: its memory may be used again."""

    storage: Size


class Signal(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag="signal"
):
    """What a stream was given so far is done when ``event`` happens."""

    stream: Size
    event: Size


class Wait(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag="wait"):
    """What a stream is given from now on begins after ``event``, of the same item."""

    stream: Size
    event: Size


Event = Op | Allocate | Free | Signal | Wait


class Segment(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag="segment"
):
    """A graph. ``nodes``: kernels that the device recorded in it."""

    nodes: Size
    events: tuple[Event, ...] = ()

    @property
    def launched(self) -> int:
        """Kernels that its operators account for."""
        return sum(event.nodes for event in self.events if isinstance(event, Op))


class Argument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An argument of a break: a tensor, and whether the replay keeps its memory, or a value.

    Of an object the value is its type, and nobody knows what it holds.
    """

    name: str
    held: Literal["strong", "weak", "value", "object"]
    region: Region | None = None
    value: Baked = None

    def __post_init__(self) -> None:
        if (self.held in ("value", "object")) == (self.region is not None):
            raise ValueError(f"{self.name} is held {self.held}: a region belongs to tensors alone")


class Break(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag="break"
):
    """A function that each replay calls between two segments.

    ``returns``: buffers into which a replay copies its result; empty where it writes into
    arguments. ``results``: what these are copies of. ``events``: what it did at capture, if it
    ``ran`` then.
    """

    function: str
    arguments: tuple[Argument, ...] = ()
    returns: tuple[Region, ...] = ()
    results: tuple[Region, ...] = ()
    ran: bool = True
    events: tuple[Event, ...] = ()


Item = Segment | Break


class Recording(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One bucket's capture. ``num_tokens``: 0 if unknown; ``slots``: request slots, 0 without.

    ``group``: captures of one backend, or where none is known in one pool, have the same number;
    only within a group is a bucket a key. ``released``: its graphs were gone when the recording
    was written. ``storages`` are numbered by their place in the list. Each of the pool's, and none
    else, begins with an ``Allocate`` event; others were there before, or are a break's own.
    ``output``: where the rows lie that the forward returns.
    """

    backend: BackendName
    num_tokens: Size
    slots: Size
    storages: tuple[Storage, ...]
    items: tuple[Item, ...]
    output: Region | None = None
    group: Size = 0
    released: bool = False

    def __post_init__(self) -> None:
        for region in regions(self):
            if region.storage >= len(self.storages):
                raise ValueError(f"storage {region.storage} of a region is not in the list")
            end, size = region.offset + region.bytes, self.storages[region.storage].bytes
            if end > size:
                raise ValueError(
                    f"a region ends at byte {end} of storage {region.storage}, which has {size}"
                )
        self._check_lives()

    def _check_lives(self) -> None:
        begun: set[int] = set()
        ended: set[int] = set()
        for event in (event for item in self.items for event in item.events):
            if not isinstance(event, Allocate | Free):
                continue
            if event.storage >= len(self.storages):
                raise ValueError(f"storage {event.storage} of an event is not in the list")
            if isinstance(event, Allocate):
                if event.storage in begun:
                    raise ValueError(f"storage {event.storage} is allocated twice")
                begun.add(event.storage)
            else:
                if event.storage not in begun or event.storage in ended:
                    raise ValueError(f"storage {event.storage} is freed while it is not allocated")
                ended.add(event.storage)
        for index, storage in enumerate(self.storages):
            if (storage.place == "pool") != (index in begun):
                raise ValueError(f"storage {index} is in the {storage.place}: only those of the "
                                 "pool are allocated by an event, and all of them are")  # fmt: skip


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A capture that failed, and in what words."""

    backend: BackendName
    num_tokens: Size
    slots: Size
    reason: str = ""


class Recordings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The captures of a process, in the order in which they were made, and those that failed.

    ``device`` "cpu" marks a recording device without a GPU. Addresses can be compared across
    recordings.
    """

    version: Literal[2]
    device: Literal["cuda", "cpu"]
    torch: str
    captures: tuple[Recording, ...]
    failed: tuple[Failure, ...] = ()


def parts_of(index: int, storage: Storage) -> list[Region]:
    """Where the parts of the storage with that number lie."""
    return [Region(index, p.offset, p.bytes, p.shape, p.strides) for p in storage.parts]


def regions(recording: Recording) -> Iterator[Region]:
    """Every region that the recording mentions."""
    for index, storage in enumerate(recording.storages):
        yield from parts_of(index, storage)
    for item in recording.items:
        if isinstance(item, Break):
            yield from (a.region for a in item.arguments if a.region is not None)
            yield from (*item.returns, *item.results)
        yield from accesses(event for event in item.events if isinstance(event, Op))
    if recording.output is not None:
        yield recording.output


def accesses(ops: Iterable[Op]) -> Iterator[Region]:
    """What the operators read and write."""
    for op in ops:
        yield from op.reads
        yield from op.writes


def require_captures(recordings: Recordings, source: str) -> None:
    """``SimcgError`` where nothing was recorded: there is nothing to check."""
    if not recordings.captures:
        failed = "".join(f"; failed: {failure.reason}" for failure in recordings.failed[:1])
        raise SimcgError(
            f"{source}: nothing was recorded{failed}; expected a capture within the audit's 'with'"
        )


def encode_recordings(
    captures: Sequence[Recording], device: str, torch: str, failed: Sequence[Failure] = ()
) -> bytes:
    """The JSON file of these captures."""
    document = msgspec.convert(
        {"version": VERSION, "device": device, "torch": torch, "captures": tuple(captures),
         "failed": tuple(failed)},
        Recordings,
    )  # fmt: skip
    return msgspec.json.encode(document) + b"\n"


class _Head(msgspec.Struct):
    version: int


def _check_version(data: bytes, source: str) -> None:
    try:
        version = msgspec.json.decode(data, type=_Head).version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # said when all is read
    if version != VERSION:
        raise SimcgError(
            f"{source}: $.version is {version}, expected recordings of simcg in version {VERSION}: "
            "record the capture again"
        )


def decode_recordings(data: bytes, source: str) -> Recordings:
    """The recordings in JSON bytes; ``SimcgError`` names the file, the field and what is wrong."""
    _check_version(data, source)
    try:
        return msgspec.json.decode(data, type=Recordings)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # the names of unknown fields may hold line breaks
        text = "".join(c if c.isprintable() else " " for c in str(error))
        raise SimcgError(f"{source}: {text}, expected recordings of simcg") from None
