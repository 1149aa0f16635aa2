"""What a host puts on a stream, in the form that the machine runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from simpy import Environment, Event

from simcg.arrays import Ints
from simcg.des.machine.program import HostWork, Launch, Program


@dataclass(frozen=True, slots=True)
class Chain:
    """Kernels with collectives among them: ns before the first one, then from the start of each
    until the next is come to, or until the end. The first kernel's gap is not in them.
    """

    before_ns: int
    stages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Follow:
    """The stream goes on when another has reached the event, whose value is the moment."""

    event: Event


class Meeting:
    """One collective: ``missing`` ranks have not come to it yet."""

    __slots__ = ("missing", "start")

    def __init__(self, env: Environment, ranks: int) -> None:
        self.missing = ranks
        self.start = Event(env)


Work: TypeAlias = int | Chain | Event | Follow
"""Kernels that take so many ns together, kernels that meet other ranks, an event to reach or to
follow."""


Put: TypeAlias = tuple[str, int, Work]
"""The stream, the gap before the first kernel, the work."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A program as one of ``ranks`` ranks runs it.

    ``costs``, ``puts``: by call what it costs and puts on a stream; None if it launches nothing.
    ``totals``: of each stream the time of its kernels and of their gaps, ``meetings`` its
    collectives.
    """

    program: Program
    ranks: int
    costs: Ints
    puts: list[Put | None]
    totals: dict[str, tuple[int, int]]
    meetings: dict[str, int]


def prepare(program: Program, ranks: int) -> Prepared:
    """The program as one of ``ranks`` ranks runs it."""
    calls = {id(call): call for call in program}  # calls of equal layers are one object
    often = Counter(map(id, program))
    put: dict[int, Put | None] = dict.fromkeys(calls)
    streams = {call.stream: [0, 0, 0] for call in calls.values() if not isinstance(call, HostWork)}
    for key, call in calls.items():
        if isinstance(call, Launch):
            put[key] = call.stream, call.kernels[0].gap_ns, _kernels(call, ranks)
            total = streams[call.stream]
            total[0] += often[key] * sum(kernel.duration_ns for kernel in call.kernels)
            total[1] += often[key] * sum(kernel.gap_ns for kernel in call.kernels)
            total[2] += often[key] * sum(kernel.collective for kernel in call.kernels)
    return Prepared(
        program,
        ranks,
        np.array([call.host_ns for call in program], dtype=np.int64),
        [put[id(call)] for call in program],
        {name: (busy, gaps) for name, (busy, gaps, _) in streams.items()},
        {name: meetings for name, (_, _, meetings) in streams.items()},
    )


def _kernels(launch: Launch, ranks: int) -> int | Chain:
    """The launch's kernels with the gaps between them; a collective of one rank meets nobody."""
    parts: list[int] = []
    spent = -launch.kernels[0].gap_ns
    for kernel in launch.kernels:
        spent += kernel.gap_ns
        if kernel.collective and ranks > 1:
            parts.append(spent)
            spent = 0
        spent += kernel.duration_ns
    return Chain(parts[0], (*parts[1:], spent)) if parts else spent
