"""Memory that a graph uses and does not own: is it there, and does nobody write over it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simcg.formal.audit.finding import bucket_name
from simcg.formal.audit.memory import NOBODY, Memory
from simcg.formal.audit.replay import Replay, Trouble, Use
from simcg.formal.audit.runs import Runs, common, runs_of
from simcg.formal.recording import Break, Region, Role, Storage

HELD = "memory that is declared, or that a break holds, for as long as its graph"


@dataclass(frozen=True, slots=True)
class _Shared:
    """All captures: what they allocated in the pool, and what their replays write."""

    replays: Sequence[Replay]
    pool: Memory
    written: Memory

    @staticmethod
    def of(replays: Sequence[Replay]) -> _Shared:
        pool, written = Memory(), Memory()
        for replay in replays:
            for storage in replay.recording.storages:
                if storage.place == "pool" and storage.bytes:
                    pool.write(_range(storage), 1)
            written.write(replay.memory.written(), 1)
        return _Shared(replays, pool, written)

    def in_pool(self, storage: Storage) -> bool:
        """Whether one of the captures allocated that memory in the pool."""
        return bool(storage.bytes) and self.pool.read(_range(storage)) != [
            (NOBODY, storage.address)
        ]


def _range(storage: Storage) -> Runs:
    return runs_of(Region(0, 0, storage.bytes), storage.address)


def check_outside(replays: Sequence[Replay]) -> None:
    """I1, I2, I5 of arguments from outside, and I6 between captures; ``replays`` were played."""
    shared = _Shared.of(replays)
    for replay in replays:
        held = _held(replay)
        for index, uses in replay.uses.items():
            storage = replay.recording.storages[index]
            if storage.fresh:
                continue  # said where it is used
            _check_life(replay, uses, index in held, shared.in_pool(storage))
            if not storage.gone:
                _check_footprints(replay, shared, uses)


def _check_life(replay: Replay, uses: list[Use], held: bool, in_pool: bool) -> None:
    """The storage must live as long as its graph: somebody declared it, or holds it."""
    weak = next((use for use in uses if not use.baked), None)
    baked = next((use for use in uses if use.baked), None)
    if weak is not None:
        found = "a break's argument from outside the pool is held weakly"
        _report_life(replay, "I5", weak, found, held)
    if baked is not None and in_pool:
        found = "memory that another capture allocated in the pool is used"
        _report_life(replay, "I2", baked, found, held)
    elif baked is not None:
        found = "a graph has the address of memory outside the pool"
        _report_life(replay, "I1", baked, found, held)


def _report_life(replay: Replay, key: str, use: Use, found: str, held: bool) -> None:
    storage = replay.storage(use.region)
    replay.count(key)
    if storage.gone and replay.recording.released:
        found += "; it was freed, and so were the graphs: which came first was not recorded"
        replay.report(key, "not decided", (use.spot, use.op), Trouble(found, HELD, use.region))
    elif storage.gone:
        found += ", and it was freed: its block may have another owner"
        replay.report(key, "violated", (use.spot, use.op), Trouble(found, HELD, use.region))
    elif not storage.declared and not held:
        replay.report(key, "holds only while", (use.spot, use.op), Trouble(found, HELD, use.region))


def _held(replay: Replay) -> set[int]:
    """Storages that the recording's breaks hold."""
    return {
        argument.region.storage
        for item in replay.recording.items
        if isinstance(item, Break)
        for argument in item.arguments
        if argument.region is not None and argument.held == "strong"
    }


def _check_footprints(replay: Replay, shared: _Shared, uses: list[Use]) -> None:
    """No replay may write over it, its own bucket's among them."""
    replay.count("I6")
    for use in {use.region: use for use in reversed(uses)}.values():
        runs = replay.runs(use.region)
        if all(number == NOBODY for number, _ in shared.written.read(runs)):
            continue
        for other in shared.replays:
            for number, address in other.memory.read(runs):
                trouble = _overlap(replay, other, use, number)
                if trouble is not None:
                    key, found, expected = trouble
                    told = Trouble(found, expected, use.region, address)
                    replay.report(key, "violated", (use.spot, use.op), told)
                    return


def _overlap(replay: Replay, other: Replay, use: Use, number: int) -> tuple[str, str, str] | None:
    """Invariant, finding and expectation where that write may not touch what is used."""
    if number == NOBODY:
        return None
    write = other.writes[number]
    assert write.region is not None  # that of nobody has none
    mine, theirs = replay.storage(use.region), other.storage(write.region)
    who = "its own replay" if other is replay else f"a replay of {bucket_name(other.recording)}"
    found = f"{who} writes memory that the graph keeps: {other.told(number)}"
    if (theirs.address, theirs.bytes) != (mine.address, mine.bytes):
        return "I6" if use.baked else "I5", found, "a footprint beside it"
    if theirs.place == "pool":
        return "I2", found, "the tag of its capture, whichever bucket ran before"
    for one in replay.declared_in(use.region):
        touched = common(one.runs, other.runs(write.region))
        same = any(
            one.role == d.role and len(common(touched, d.runs))
            for d in other.declared_in(write.region)
        )
        if one.role in _NEVER_WRITTEN and len(touched) and not same:
            expected = f"nobody but the host writes a {one.role} tensor"
            return _NEVER_WRITTEN[one.role], found, expected
    return None  # said where the write is, or memory that steps hand on


_NEVER_WRITTEN: dict[Role, str] = {"static": "I11", "constant": "I6"}
