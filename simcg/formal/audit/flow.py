"""Dataflow of one replay: who wrote last what each operator and break reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from simcg.formal.audit.clocks import MAIN, Clocks, Moment
from simcg.formal.audit.finding import Spot, Verdict
from simcg.formal.audit.ops import PARTIAL, SELECTING, base_name
from simcg.formal.audit.replay import Replay, Trouble, Use, Write
from simcg.formal.recording import (
    Allocate,
    Argument,
    Break,
    Event,
    Free,
    Item,
    Op,
    Recording,
    Region,
    Role,
    Segment,
    Signal,
    Wait,
)

THIS_REPLAY = "the value that the program gave it in this replay"
MADE = ("output", "scratch")
"""Roles of memory that each replay writes before it reads it."""
NOT_WRITTEN: dict[Role, tuple[str, str, str]] = {
    "static": (
        "I11", "a replay writes a static input",
        "the host alone writes it, before each replay; what steps hand on is a cache, and what a "
        "step writes and then reads is scratch",
    ),
    "constant": ("I6", "a replay writes a constant", "nobody writes it"),
}  # fmt: skip
"""By role: invariant, finding and expectation where a replay writes it."""
FROM_HOST = ("static", "constant", "cache")
"""Roles of memory that may be returned as it is: what it holds is nothing that a replay makes."""


def played(recording: Recording, capture: int) -> Replay:
    """The replay of all items, one after the other, and of the output; I2 to I6, I11, I14, I21."""
    replay = Replay(recording, capture)
    for number, item in enumerate(recording.items):
        step = _Step(replay, item, Spot(capture, number), Clocks(number))
        if isinstance(item, Break):
            step.call(item)
        else:
            step.launch(item)
    _check_output(replay)
    return replay


@dataclass(slots=True)
class _Step:
    """One item under way. ``weak`` and ``held``: storages of a break's arguments."""

    replay: Replay
    item: Item
    spot: Spot
    clocks: Clocks
    weak: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)

    def launch(self, segment: Segment) -> None:
        """A graph."""
        self.replay.unseen |= segment.nodes > segment.launched
        for spot, op in self._ops(segment.events):
            self._baked_addresses(op, spot)
            self._run(op, spot)

    def call(self, item: Break) -> None:
        """A break: what it did at capture, with the arguments that a replay passes."""
        replay = self.replay
        given = [
            (argument, argument.region)
            for argument in item.arguments
            if argument.region is not None
            and argument.region.bytes
            and replay.storage(argument.region).place != "host"
        ]
        for argument, region in given:
            self._argument(item, argument, region)
        touched: set[int] = set()
        for spot, op in self._ops(item.events):
            self._reached(item, op, spot)
            self._run(op, spot)
            touched |= {region.storage for region in op.writes}
        if not item.ran:
            trouble = Trouble("the break did not run at capture: nobody saw what it does")
            replay.report("I4", "not decided", (self.spot, item.function), trouble)
        moment = self.clocks.tick(MAIN)
        for argument, region in given:
            if not item.ran or region.storage in touched:
                # which rows it writes is up to each step
                self._put(region, item.function, moment)
            elif replay.storage(region).place == "pool" and not replay.written(region):
                self._never_given(item, argument, region)
        self._returned(item, moment)

    def _put(self, region: Region, function: str, moment: Moment) -> None:
        self.replay.put(region, Write(region.storage, region, self.spot, function, moment))

    def _returned(self, item: Break, moment: Moment) -> None:
        for region in item.returns:
            if region.bytes:
                self.replay.returned.add(region.storage)
                self._put(region, item.function, moment)
        for region, kept in zip(item.returns, item.results, strict=False):
            if not self.replay.storage(kept).fresh:
                self.replay.copied[region.storage] = kept

    def _reached(self, item: Break, op: Op, spot: Spot) -> None:
        """Memory of the pool that a break uses without being given it."""
        for region in (*op.reads, *op.writes):
            if self.replay.storage(region).place != "pool" or region.storage in self.held:
                continue
            self.held.add(region.storage)  # say it once
            trouble = Trouble(
                f"{item.function} uses memory of the graphs that is none of its arguments: in a "
                "replay it uses what the name then refers to", "an argument of the break", region,
            )  # fmt: skip
            self.replay.report("I4", "not decided", (spot, op.name), trouble)

    def _ops(self, events: tuple[Event, ...]) -> Iterator[tuple[Spot, Op]]:
        """The operators in order; other events take effect between them."""
        for number, event in enumerate(events):
            match event:
                case Allocate():
                    self.replay.alive.add(event.storage)
                case Free():
                    self.replay.alive.discard(event.storage)
                case Signal():
                    self.clocks.signal(event.stream, event.event)
                case Wait():
                    self.clocks.wait(event.stream, event.event)
                case _:
                    yield Spot(self.spot.capture, self.spot.item, number), event

    def _argument(self, item: Break, argument: Argument, region: Region) -> None:
        """What a break gets must be there when a replay calls it."""
        replay, weak = self.replay, argument.held == "weak"
        self.held.add(region.storage)
        if weak:
            self.weak.add(region.storage)
            replay.count("I5")
        storage = replay.storage(region)
        if storage.place == "outside":
            name = f"argument {argument.name} of {item.function}"
            if weak:
                replay.use(Use(region, self.spot, name, baked=False))
            elif not storage.declared and not storage.fresh:
                found = "a break is given this tensor in every replay, whatever the program has"
                trouble = Trouble(found, "a tensor that is declared: it is not replaced", region)
                replay.count("I1")
                replay.report("I1", "holds only while", (self.spot, name), trouble)
            return
        later = replay.overwritten(region)
        if later is not None:
            found = f"argument {argument.name} is overwritten before the break is called"
            trouble = Trouble(found, THIS_REPLAY, region, later[1], later[0])
            replay.report("I5" if weak else "I4", "violated", (self.spot, item.function), trouble)

    def _never_given(self, item: Break, argument: Argument, region: Region) -> None:
        unseen = self.replay.unseen or any(
            not event.decided for event in item.events if isinstance(event, Op)
        )
        found = f"argument {argument.name} is not written in this replay, nor by the break"
        self.replay.report(
            "I5" if argument.held == "weak" else "I4", "not decided" if unseen else "violated",
            (self.spot, item.function), Trouble(found, THIS_REPLAY, region),
        )  # fmt: skip

    def _baked_addresses(self, op: Op, spot: Spot) -> None:
        """Memory from outside whose address the graph has."""
        replay = self.replay
        for region in dict.fromkeys((*op.reads, *op.writes)):
            storage = replay.storage(region)
            if storage.place != "outside" or not region.bytes:
                continue
            replay.use(Use(region, spot, op.name, baked=True))
            if storage.fresh:
                replay.count("I3")
                trouble = Trouble(
                    "a graph uses memory that a break made at capture, and a replay's break makes "
                    "other memory", "a buffer into which each replay copies the result", region,
                )  # fmt: skip
                replay.report("I3", "violated", (spot, op.name), trouble)

    def _run(self, op: Op, spot: Spot) -> None:
        replay, moment = self.replay, self.clocks.tick(op.stream)
        if not op.decided:
            trouble = Trouble("what it reads and writes is not known")
            replay.report("I4", "not decided", (spot, op.name), trouble)
        partial = base_name(op.name) in PARTIAL
        unset: set[Region] = set()  # what it changes in part, and what holds anything else
        for region in op.reads if op.decided else ():
            if region.bytes and self._has_address(op, spot, region):
                if partial and region in op.writes and self._unset(region):
                    unset.add(region)
                else:
                    self._read(op, spot, region)
        for region in op.writes:
            if region.bytes and self._has_address(op, spot, region):
                self._write(op, spot, region, moment, region in unset)

    def _unset(self, region: Region) -> bool:
        """Whether some of it holds anything; caches and the like hold what steps left there."""
        replay = self.replay
        if replay.storage(region).place == "pool":
            return bool(replay.foreign(region))
        return any(
            replay.foreign(region, one.runs)
            for one in replay.declared_in(region)
            if one.role in MADE
        )

    def _has_address(self, op: Op, spot: Spot, region: Region) -> bool:
        """Whether each replay has the region at the recorded address."""
        replay, storage = self.replay, self.replay.storage(region)
        if storage.place == "host" or storage.fresh:
            return False
        if storage.place == "pool":
            replay.count("I2")
            if region.storage not in replay.alive:
                trouble = Trouble(
                    "memory of the pool is used while it is free",
                    "memory that stays allocated as long as it is used", region,
                )  # fmt: skip
                replay.report("I2", "violated", (spot, op.name), trouble)
        return True

    def _read(self, op: Op, spot: Spot, region: Region) -> None:
        replay, storage = self.replay, self.replay.storage(region)
        replay.count("I4")
        if any(one.role == "static" for one in replay.declared_in(region)):
            replay.count("I11")
        if region.storage in replay.returned:
            replay.count("I3")
        partly = False
        for number, address in replay.memory.read(replay.runs(region)):
            write = replay.writes[number]
            if write.storage == replay.owner(region):
                partly |= write.partly
                self._in_order(op, spot, region, number)
            elif storage.place == "pool":
                self._undefined(op, spot, region, (number, address))
                return
        if storage.place == "outside" and base_name(op.name) not in SELECTING:
            self._unwritten_output(op, spot, region)
        if partly:
            found = "it reads memory of which some may not be written in this replay"
            replay.report("I4", "not decided", (spot, op.name), Trouble(found, "", region))

    def _in_order(self, op: Op, spot: Spot, region: Region, number: int) -> None:
        replay, moment = self.replay, self.replay.writes[number].moment
        if moment.item != self.spot.item or moment.stream == op.stream:
            return
        replay.count("I21")
        if self.clocks.forked(op.stream) and not self.clocks.ordered(moment, op.stream):
            found = f"stream {op.stream} does not wait for the write on stream {moment.stream}"
            trouble = Trouble(found, "an event between the two", region, -1, number)
            replay.report("I21", "violated", (spot, op.name), trouble)

    def _unwritten_output(self, op: Op, spot: Spot, region: Region) -> None:
        """Outputs are no state; what else comes from outside holds what it held before."""
        for one in self.replay.declared_in(region):
            unwritten = self.replay.foreign(region, one.runs) if one.role in MADE else []
            if unwritten:
                trouble = Trouble(
                    f"it reads {one.article} before this replay writes it",
                    f"{one.article} is written first; what steps hand on is a cache",
                    region, unwritten[0][1], tensor=str(one),
                )  # fmt: skip
                self.replay.report("I4", "violated", (spot, op.name), trouble)

    def _undefined(self, op: Op, spot: Spot, region: Region, last: tuple[int, int]) -> None:
        """Bytes of the pool that hold no write of this tensor."""
        replay, (number, address) = self.replay, last
        later = replay.overwritten(region)
        if later is not None and region.storage in self.held:
            return  # said of the argument
        weak = region.storage in self.weak
        key = "I3" if region.storage in replay.returned else "I5" if weak else "I4"
        verdict: Verdict = "violated"
        found = "it reads memory that nothing has written in this replay"
        if later is not None:
            found, (number, address) = "it reads memory that was overwritten since", later
        elif replay.unseen:
            verdict = "not decided"
            found = "it reads memory that no operator has written in this replay; kernels that "
            found += "none accounts for may have"
        elif base_name(op.name) in SELECTING:
            verdict = "not decided"
            found = "it may read memory that nothing has written in this replay"
        replay.report(
            key, verdict, (spot, op.name), Trouble(found, THIS_REPLAY, region, address, number)
        )

    def _write(self, op: Op, spot: Spot, region: Region, moment: Moment, partly: bool) -> None:
        replay = self.replay
        replay.count("I6")
        # what an operator that nobody knows is given it may leave as it is
        for one in replay.declared_in(region) if op.decided else ():
            if one.role in NOT_WRITTEN:
                key, found, expected = NOT_WRITTEN[one.role]
                trouble = Trouble(found, expected, region, tensor=str(one))
                replay.report(key, "violated", (spot, op.name), trouble)
        if isinstance(self.item, Segment) and region.storage in replay.copied:
            self._write_to_copy(op, spot, region)
        replay.put(region, Write(region.storage, region, spot, op.name, moment, partly))

    def _write_to_copy(self, op: Op, spot: Spot, region: Region) -> None:
        """A graph changes its copy of memory that a break returned and keeps."""
        kept = self.replay.copied[region.storage]
        state = any(one.role == "cache" for one in self.replay.declared_in(kept))
        found = "it changes a copy of memory that a break keeps and returned, and not that memory"
        trouble = Trouble(found, "fresh memory from the break, or an argument", kept)
        self.replay.report("I3", "violated" if state else "not decided", (spot, op.name), trouble)


def _check_output(replay: Replay) -> None:
    """The returned rows are this replay's, and nothing overwrites them before it ends."""
    region, place = replay.recording.output, (Spot(replay.capture), "output")
    if region is None:
        trouble = Trouble("nobody said which tensor the forward returns")
        replay.report("I14", "not decided", place, trouble)
        return
    if not region.bytes:
        return
    roles = {one.role for one in replay.declared_in(region)}
    if roles and roles <= set(FROM_HOST):
        return  # these rows are nothing that a replay makes
    replay.count("I14")
    foreign, later = replay.foreign(region), replay.overwritten(region)
    expected = "rows that this replay wrote, until the next one"
    if later is not None:
        found = "the output is overwritten before the replay ends"
        trouble = Trouble(found, expected, region, later[1], later[0])
        replay.report("I14", "violated", place, trouble)
    elif foreign and not replay.written(region):
        found = "the replay does not write its output"
        trouble = Trouble(found, expected, region, foreign[0][1], foreign[0][0])
        replay.report("I14", "not decided" if replay.unseen else "violated", place, trouble)
    elif foreign:
        trouble = Trouble("some of the output is not written", expected, region, foreign[0][1])
        replay.report("I14", "not decided", place, trouble)
