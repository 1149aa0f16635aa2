"""What a host puts on a stream, in the form that the machine runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from simpy import Environment, Event

from simcg.des.machine.program import Call, HostWork, Launch, Program


@dataclass(frozen=True, slots=True)
class Chain:
    """Kernels with collectives among them: what runs before each, how long it runs, the rest.

    Both times of a stage are ns; the first kernel's gap is not in them.
    """

    stages: tuple[tuple[int, int], ...]
    tail_ns: int


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


Prepared: TypeAlias = tuple[str, int, int | Chain | None]
"""Of one call: its stream ("" without), the first kernel's gap, its kernels (None without)."""


def prepare(program: Program, ranks: int) -> list[Prepared]:
    """What the calls of a program put on their streams, events left out."""
    known: dict[int, Prepared] = {}  # calls of equal layers are one object
    out: list[Prepared] = []
    for call in program:
        if id(call) not in known:
            known[id(call)] = _prepared(call, ranks)
        out.append(known[id(call)])
    return out


def _prepared(call: Call, ranks: int) -> Prepared:
    if isinstance(call, Launch):
        return call.stream, call.kernels[0].gap_ns, _kernels(call, ranks)
    return ("" if isinstance(call, HostWork) else call.stream), 0, None


def _kernels(launch: Launch, ranks: int) -> int | Chain:
    """The launch's kernels with the gaps between them; a collective of one rank meets nobody."""
    stages: list[tuple[int, int]] = []
    spent = -launch.kernels[0].gap_ns
    for kernel in launch.kernels:
        spent += kernel.gap_ns
        if kernel.collective and ranks > 1:
            stages.append((spent, kernel.duration_ns))
            spent = 0
        else:
            spent += kernel.duration_ns
    return Chain(tuple(stages), spent) if stages else spent
