"""Programs for the machine, and the machine as its definition says it: no events, no clock.

The reference fills in, in whatever order it can, what the definition says of every call and kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from simcg.des.machine.program import (
    COMPUTE,
    COPY,
    Call,
    HostSync,
    HostWork,
    Kernel,
    Launch,
    Program,
    Record,
    Wait,
)
from simcg.des.machine.run import StepRun


@dataclass
class Given:
    """What was put on a stream: when it may start; what it does; when it began and was over."""

    call: int
    ready: int
    what: Launch | Record | Wait
    start: int | None = None
    starts: list[int] = field(default_factory=list)  # of its kernels so far
    arrived: int | None = None  # at the collective that is next
    over: int | None = None
    moment: Given | None = None  # a wait's record


@dataclass
class PlainStream:
    """A stream by its definition: ``end`` is of the last kernel or of what it waited for."""

    given: list[Given] = field(default_factory=list)
    at: int = 0
    end: int = 0
    last: int = 0
    peers: int = 0
    events: int = 0
    pending: int = 0
    met: int = 0  # collectives that it has come to
    meeting: dict[int, int] = field(default_factory=dict)  # arrivals at the collective that is next


@dataclass
class PlainRank:
    """A host by its definition."""

    program: Program
    costs: Sequence[int]
    streams: dict[str, PlainStream]
    at: int = 0
    now: int = 0
    held: int = 0
    synced: int = 0
    issued: list[int] = field(default_factory=list)
    records: dict[str, Given] = field(default_factory=dict)


def play_ranks(
    programs: Sequence[Program],
    costs: Sequence[Sequence[int]],
    latency: int,
    queue: int | None,
) -> list[PlainRank]:
    """Every rank played to its end; RuntimeError if they wait for each other."""
    ranks = [
        PlainRank(p, c, {x.stream: PlainStream() for x in p if not isinstance(x, HostWork)})
        for p, c in zip(programs, costs, strict=True)
    ]
    arrivals: dict[tuple[str, int], dict[int, int]] = {}
    moved = True
    while moved:
        moved = False
        for number, rank in enumerate(ranks):
            while _issue(rank, latency, queue):
                moved = True
            for name, stream in rank.streams.items():
                while _advance(stream, name, number, len(ranks), arrivals):
                    moved = True
    for rank in ranks:
        streams = rank.streams.values()
        if rank.at < len(rank.program) or any(s.at < len(s.given) for s in streams):
            raise RuntimeError("waits for ever")
    return ranks


def _issue(rank: PlainRank, latency: int, queue: int | None) -> bool:
    """The next call of the host, if what it waits for is known."""
    if rank.at == len(rank.program):
        return False
    call = rank.program[rank.at]
    spent = now = rank.now + rank.costs[rank.at]
    if isinstance(call, HostSync):
        given = rank.streams[call.stream].given
        over = given[-1].over if given else spent
        if over is None:
            return False
        now = max(spent, over)
        rank.synced += now - spent
    elif isinstance(call, Launch | Record) or (
        isinstance(call, Wait) and call.event in rank.records
    ):
        given = rank.streams[call.stream].given
        earlier = given[-queue].start if queue is not None and len(given) >= queue else spent
        if earlier is None:
            return False
        now = max(spent, earlier)
        rank.held += now - spent
        moment = rank.records[call.event] if isinstance(call, Wait) else None
        given.append(Given(rank.at, now + latency, call, moment=moment))
        if isinstance(call, Record):
            rank.records[call.event] = given[-1]
    rank.now = now
    rank.issued.append(now)
    rank.at += 1
    return True


def _advance(
    stream: PlainStream,
    name: str,
    number: int,
    size: int,
    arrivals: dict[tuple[str, int], dict[int, int]],
) -> bool:
    """The next kernel or event of a stream, if what it waits for is known."""
    if stream.at == len(stream.given):
        return False
    put = stream.given[stream.at]
    if not isinstance(put.what, Launch):
        put.start = max(stream.end, put.ready)
        put.over = put.start
        if put.moment is not None:
            if put.moment.over is None:
                return False
            put.over = max(put.start, put.moment.over)
            stream.pending += max(0, put.moment.over - stream.end)
            stream.end = max(stream.end, put.moment.over)
        stream.at += 1
        return True
    kernel = put.what.kernels[len(put.starts)]
    if put.arrived is None:
        first = not put.starts
        arrived = max(stream.end + kernel.gap_ns, put.ready if first else 0)
        put.arrived = arrived
        put.start = arrived if first else put.start
        if kernel.collective:
            place = stream.met
            stream.met += 1
            arrivals.setdefault((name, place), {})[number] = arrived
            stream.meeting = arrivals[name, place]
    start = put.arrived
    if kernel.collective:
        if len(stream.meeting) < size:
            return False
        start = max(stream.meeting.values())
    stream.peers += start - put.arrived
    put.starts.append(start)
    put.arrived = None
    stream.events += stream.pending
    stream.pending = 0
    stream.end = stream.last = start + kernel.duration_ns
    if len(put.starts) == len(put.what.kernels):
        put.over = stream.end
        stream.at += 1
    return True


def as_played(run: StepRun, ranks: Sequence[PlainRank]) -> bool:
    """Is the run what the reference says: every call, every kernel, every sum?"""
    for number, (found, rank) in enumerate(zip(run.ranks, ranks, strict=True)):
        if (found.host_ns, found.held_ns, found.synced_ns) != (rank.now, rank.held, rank.synced):
            return False
        for one in found.streams:
            plain = rank.streams[one.name]
            if (one.end_ns, one.peers_ns, one.events_ns) != (
                plain.last,
                plain.peers,
                plain.events,
            ) or one.starved_ns < 0:
                return False
            starts = [
                (s.call, s.start_ns)
                for s in run.spans
                if s.rank == number and s.stream == one.name and s.kind in ("kernel", "collective")
            ]
            if starts != [(g.call, start) for g in plain.given for start in g.starts]:
                return False
        returned = [0] * len(rank.program)
        for s in run.spans:
            if s.rank == number and not s.stream:
                returned[s.call] = s.start_ns + s.duration_ns
        if returned != rank.issued:
            return False
    return run.end_ns == max(s.last for r in ranks for s in [*r.streams.values(), PlainStream()])


times = st.integers(0, 40)


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """Any call, on one of two streams."""
    stream = draw(st.sampled_from([COMPUTE, COMPUTE, COPY]))
    cost = draw(times)
    kind = draw(st.sampled_from(["launch"] * 6 + ["work", "sync", "record", "wait", "wait"]))
    if kind == "work":
        return HostWork("work", cost)
    if kind == "sync":
        return HostSync(cost, stream)
    if kind in ("record", "wait"):
        event = draw(st.sampled_from("ab"))
        return Record(event, cost, stream) if kind == "record" else Wait(event, cost, stream)
    kernels = st.builds(Kernel, st.just("k"), times, times, st.booleans())
    several = draw(st.lists(kernels, min_size=1, max_size=4))
    return Launch("launch", cost, tuple(several), "graph", stream)


def programs(max_size: int = 25) -> st.SearchStrategy[Program]:
    """Programs of any calls; the same one on every rank never waits for ever."""
    return st.lists(calls(), min_size=1, max_size=max_size).map(tuple)


@st.composite
def rank_programs(draw: st.DrawFn, max_ranks: int = 4) -> list[Program]:
    """A program for each rank: the same calls, each rank at host costs of its own."""
    program = draw(programs())
    out = []
    for _ in range(draw(st.integers(1, max_ranks))):
        costs = draw(st.lists(times, min_size=len(program), max_size=len(program)))
        out.append(tuple(replace(c, host_ns=ns) for c, ns in zip(program, costs, strict=True)))
    return out


def costs_of(program: Program) -> list[int]:
    """The host costs of the calls."""
    return [call.host_ns for call in program]
