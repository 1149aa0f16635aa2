"""The trace of a run as spans: what hosts and streams wrote down, put beside the programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simcg.des.machine.host import Issued
from simcg.des.machine.program import Call, HostSync, HostWork, Launch, Program, Record
from simcg.des.machine.run import Span, SpanKind
from simcg.des.machine.stream import Ran


def host_spans(rank: int, program: Program, issued: Sequence[Issued]) -> Iterator[Span]:
    """Each call with its cost, and what the host waited for before it returned."""
    for place, (call, (began, spent, ended)) in enumerate(zip(program, issued, strict=True)):
        if isinstance(call, Launch | HostWork):
            name = call.name
        elif isinstance(call, HostSync):
            name = f"sync {call.stream}"
        else:
            name = f"{'record' if isinstance(call, Record) else 'wait for'} {call.event}"
        yield Span(rank, "", _kind(call), name, began, spent - began, place)
        if ended > spent:
            kind: SpanKind = "synced" if isinstance(call, HostSync) else "held"
            why = name if kind == "synced" else "launch queue is full"
            yield Span(rank, "", kind, why, spent, ended - spent, place)


def _kind(call: Call) -> SpanKind:
    if not isinstance(call, Launch):
        return "work"
    if call.kind == "graph":
        return "replay"
    return "break" if call.kind == "break" else "dispatch"


def stream_spans(rank: int, stream: str, program: Program, ran: Sequence[Ran]) -> Iterator[Span]:
    """Each kernel; before a collective the wait for other ranks; around them their launch."""
    for place, start, met in ran:
        call = program[place]
        if isinstance(call, Launch):
            inner = list(_kernels(rank, call, place, start, iter(met)))
            if len(call.kernels) > 1:
                lasts = inner[-1].start_ns + inner[-1].duration_ns - start
                yield Span(rank, stream, "launch", call.name, start, lasts, place)
            yield from inner


def _kernels(
    rank: int, call: Launch, place: int, start: int, meetings: Iterator[int]
) -> Iterator[Span]:
    now = start - call.kernels[0].gap_ns
    for kernel in call.kernels:
        now += kernel.gap_ns
        met = next(meetings, now) if kernel.collective else now
        if met > now:
            name = f"{kernel.name}: other ranks"
            yield Span(rank, call.stream, "peers", name, now, met - now, place)
            now = met
        kind: SpanKind = "collective" if kernel.collective else "kernel"
        yield Span(rank, call.stream, kind, kernel.name, now, kernel.duration_ns, place)
        now += kernel.duration_ns
