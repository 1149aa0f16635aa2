"""Memory that a graph uses and does not own: is it there, and does nobody write over it?"""

from __future__ import annotations

from collections.abc import Sequence

from simcg.formal.audit.finding import bucket_name
from simcg.formal.audit.memory import NOBODY
from simcg.formal.audit.replay import Replay, Trouble, Use
from simcg.formal.recording import Break, Role, Storage

HELD = "memory that is declared, or that a break holds, for as long as its graph"


def check_outside(replays: Sequence[Replay]) -> None:
    """I1, I2, I5 of arguments from outside, and I6 between captures; ``replays`` were played."""
    for replay in replays:
        for index, uses in replay.uses.items():
            storage = replay.recording.storages[index]
            if storage.fresh:
                continue  # said where it is used
            _check_life(replay, replays, index, uses)
            if not storage.gone:
                _check_footprints(replay, replays, uses)


def _check_life(replay: Replay, replays: Sequence[Replay], index: int, uses: list[Use]) -> None:
    """The storage must live as long as its graph: somebody declared it, or holds it."""
    storage, held = replay.recording.storages[index], _held(replay)
    weak = [use for use in uses if not use.baked]
    baked = [use for use in uses if use.baked]
    if weak:
        _report_life(replay, "I5", weak[0], "a break's argument from outside the pool is "
                     "held weakly", index not in held)  # fmt: skip
    if baked:
        earlier = _is_pool_memory(storage, replays)
        _report_life(
            replay, "I2" if earlier else "I1", baked[0],
            "memory that another capture allocated in the pool is used" if earlier
            else "a graph has the address of memory outside the pool", index not in held,
        )  # fmt: skip


def _report_life(replay: Replay, key: str, use: Use, found: str, unheld: bool) -> None:
    storage = replay.storage(use.region)
    replay.count(key)
    if storage.gone:
        found += ", and it was freed: its block has another owner"
        replay.report(key, "violated", (use.spot, use.op), Trouble(found, HELD, use.region))
    elif storage.role == "unknown" and unheld:
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


def _is_pool_memory(storage: Storage, replays: Sequence[Replay]) -> bool:
    """Whether one of the captures allocated that memory in the pool."""
    return any(
        other.place == "pool" and other.address <= storage.address < other.address + other.bytes
        for replay in replays
        for other in replay.recording.storages
    )


def _check_footprints(replay: Replay, replays: Sequence[Replay], uses: list[Use]) -> None:
    """No replay may write over it, its own bucket's among them."""
    replay.count("I6")
    for use in {use.region: use for use in reversed(uses)}.values():
        for other in replays:
            for number, address in other.memory.read(replay.runs(use.region)):
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
    mine = replay.storage(use.region)
    theirs = other.recording.storages[other.writes[number].storage]
    who = "its own replay" if other is replay else f"a replay of {bucket_name(other.recording)}"
    found = f"{who} writes memory that the graph keeps: {other.told(number)}"
    if (theirs.address, theirs.bytes) != (mine.address, mine.bytes):
        return "I6" if use.baked else "I5", found, "a footprint beside it"
    if theirs.place == "pool":
        return "I2", found, "the tag of its capture, whichever bucket ran before"
    if theirs.role == mine.role or mine.role not in _NEVER_WRITTEN:
        return None  # said where the write is, or memory that steps hand on
    return _NEVER_WRITTEN[mine.role], found, f"nobody but the host writes a {mine.role} tensor"


_NEVER_WRITTEN: dict[Role, str] = {"static": "I11", "constant": "I6"}
