"""The state of one replay under check: its memory by address, its writes, and what was found.

Nothing is allocated or freed in a replay. So a read of a tensor is right exactly if the last
write to its bytes was a write of that tensor; memory that the pool handed on at capture has the
next owner's write there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from simcg.formal.audit.clocks import Moment
from simcg.formal.audit.finding import Finding, Spot, Verdict, bucket_name
from simcg.formal.audit.memory import NOBODY, Memory
from simcg.formal.audit.runs import Runs, common, runs_of
from simcg.formal.recording import Op, Recording, Region, Role, Storage, parts_of

Place = tuple[Spot, str]
"""Where, and the name of the operator or break there."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared tensor, and those of its bytes that are asked about."""

    role: Role
    name: str
    runs: Runs

    def __str__(self) -> str:
        return f"{self.role} {self.name!r}"

    @property
    def article(self) -> str:
        """Its role as a noun."""
        return "an output" if self.role == "output" else f"a {self.role} tensor"


@dataclass(frozen=True, slots=True)
class Write:
    """A write into a storage's memory. ``partly``: it may have left bytes as they were.

    ``region`` is as the operator has it, and None for the write of nobody.
    """

    storage: int
    region: Region | None
    spot: Spot
    op: str
    moment: Moment
    partly: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """A region of memory from outside that is used, and where.

    ``baked``: a graph has its address; otherwise a break's argument.
    """

    region: Region
    spot: Spot
    op: str
    baked: bool


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a finding says: of the bytes at ``address`` of a region, last written by ``writer``.

    ``tensor``: which of the region's tensors, where it is not all of them.
    """

    found: str
    expected: str = ""
    region: Region | None = None
    address: int = -1
    writer: int = NOBODY
    tensor: str = ""


@dataclass(slots=True)
class Replay:
    """One replay.

    ``cases`` counts by invariant how often its premise occurred; ``memory`` and ``writes`` become
    the replay's footprint. ``uses``: what is used of memory from outside, by storage. ``alive``:
    storages of the pool that are allocated; ``first_write``: number of the first write to each;
    ``returned``: storages of buffers that hold a break's result; ``copied``: by such a storage,
    memory that the break keeps and of which the buffer is a copy. ``unseen``: kernels ran that no
    operator accounts for.
    """

    recording: Recording
    capture: int
    memory: Memory = field(default_factory=Memory)
    writes: list[Write] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    cases: dict[str, int] = field(default_factory=dict)
    uses: dict[int, list[Use]] = field(default_factory=dict)
    alive: set[int] = field(default_factory=set)
    first_write: dict[int, int] = field(default_factory=dict)
    unseen: bool = False
    returned: set[int] = field(default_factory=set)
    copied: dict[int, Region] = field(default_factory=dict)
    _same: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._same = _same_memory(self.recording.storages)
        self.writes.append(Write(-1, None, Spot(self.capture), "", Moment(-1, 0, 0)))  # NOBODY's

    def count(self, *invariants: str) -> None:
        """The premise of each occurred once more."""
        for key in invariants:
            self.cases[key] = self.cases.get(key, 0) + 1

    def report(self, invariant: str, verdict: Verdict, place: Place, trouble: Trouble) -> None:
        """Note a finding."""
        (spot, op), region, address = place, trouble.region, trouble.address
        tensor, storage = "", -1
        if region is not None:
            storage = region.storage
            tensor = trouble.tensor or self.name_of(region)
            address = self.storage(region).address + region.offset if address < 0 else address
        writer = self.told(trouble.writer) if trouble.writer != NOBODY else ""
        self.findings.append(
            Finding(invariant, verdict, spot, bucket_name(self.recording), op, trouble.found,
                    trouble.expected, tensor, self._line(spot), address, writer, storage)
        )  # fmt: skip

    def _line(self, spot: Spot) -> str:
        """The program's line of the operator there."""
        if min(spot.item, spot.event) < 0:
            return ""
        event = self.recording.items[spot.item].events[spot.event]
        return event.line if isinstance(event, Op) else ""

    def told(self, number: int) -> str:
        """A write in words."""
        write = self.writes[number]
        tensor = f" to {self.name_of(write.region)}" if write.region is not None else ""
        return f"{write.op} ({write.spot}){tensor}"

    def storage(self, region: Region) -> Storage:
        """The storage that a region lies in."""
        return self.recording.storages[region.storage]

    def runs(self, region: Region) -> Runs:
        """The region's bytes."""
        return runs_of(region, self.storage(region).address)

    def declared_in(self, region: Region) -> list[Declared]:
        """The declared tensors that a region has bytes of."""
        storage = self.storage(region)
        if not storage.declared:
            return []
        runs = self.runs(region)
        if storage.role != "unknown":
            return [Declared(storage.role, storage.name, runs)]
        found = [
            Declared(part.role, part.name, common(runs, runs_of(place, storage.address)))
            for part, place in zip(storage.parts, parts_of(region.storage, storage), strict=True)
        ]
        return [one for one in found if len(one.runs)]

    def name_of(self, region: Region) -> str:
        """The declared names; of other memory its number, with type and shape where known."""
        parts = self.declared_in(region) if self.storage(region).parts else []
        return " and ".join(map(str, parts)) or storage_name(self.recording, region.storage)

    def is_whole(self, region: Region) -> bool:
        """Whether it is all of a storage, or of a declared tensor."""
        storage = self.storage(region)
        if region.offset == 0 and region.bytes == storage.bytes and not region.shape:
            return True
        return region in parts_of(region.storage, storage)

    def owner(self, region: Region) -> int:
        """The storage that stands for the region's memory."""
        return self._same[region.storage]

    def put(self, region: Region, write: Write) -> None:
        """The region now holds what that write left."""
        runs, owner, number = self.runs(region), self.owner(region), len(self.writes)
        partly = write.partly or not runs.exact
        self.writes.append(replace(write, storage=owner, partly=partly))
        self.first_write.setdefault(owner, number)
        self.memory.write(runs, number)

    def foreign(self, region: Region, runs: Runs | None = None) -> list[tuple[int, int]]:
        """(number, address) of bytes whose last write was none of the region's tensor.

        ``runs``: those of its bytes that are asked about, by default all.
        """
        owner = self.owner(region)
        found = self.memory.read(self.runs(region) if runs is None else runs)
        return [pair for pair in found if self.writes[pair[0]].storage != owner]

    def overwritten(self, region: Region) -> tuple[int, int] | None:
        """(number, address) of a write of another tensor since this one was first written."""
        first = self.first_write.get(self.owner(region))
        if first is None:
            return None
        return next((pair for pair in self.foreign(region) if pair[0] > first), None)

    def written(self, region: Region) -> bool:
        """Whether the tensor's memory was written in this replay, at least in part."""
        return self.owner(region) in self.first_write

    def use(self, use: Use) -> None:
        """Note that memory from outside is used."""
        self.uses.setdefault(use.region.storage, []).append(use)


def _same_memory(storages: tuple[Storage, ...]) -> list[int]:
    """For each storage the first that is the same memory: an alias from outside is another."""
    first: dict[tuple[int, int], int] = {}
    return [
        first.setdefault((storage.address, storage.bytes), index)
        if storage.place == "outside" and storage.bytes and not storage.gone
        else index
        for index, storage in enumerate(storages)
    ]


def storage_name(recording: Recording, index: int) -> str:
    """The declared name, or the number, with type and shape where they are known."""
    storage = recording.storages[index]
    if storage.name:
        return f"{storage.role} {storage.name!r}"
    return f"storage {index} ({storage.tensor})" if storage.tensor else f"storage {index}"
