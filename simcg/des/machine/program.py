"""What the host thread of one rank issues in a step, as values. Times are integer ns >= 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

COMPUTE, COPY = "compute", "copy"
"""The stream that kernels run on, and the one that a copy engine serves."""

LaunchKind = Literal["kernel", "graph", "break", "copy"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a stream runs, ``gap_ns`` after what it follows there.

    ``collective``: it starts on every rank when the last rank's stream has come to it.
    """

    name: str
    duration_ns: int
    gap_ns: int = 0
    collective: bool = False

    def __post_init__(self) -> None:
        _check(f"Kernel {self.name}", self.duration_ns, self.gap_ns)


@dataclass(frozen=True, slots=True)
class Launch:
    """One host call that puts kernels on a stream, where they run in order.

    ``kernel``: one dispatch.  ``graph``: the launch of an instantiated graph; kernels are its
    nodes.  ``break``: the body of a break with the kernels that it issues.  ``copy``: of memory.
    """

    name: str
    host_ns: int
    kernels: tuple[Kernel, ...]
    kind: LaunchKind = "kernel"
    stream: str = COMPUTE

    def __post_init__(self) -> None:
        _check(f"Launch {self.name}", self.host_ns)
        if not self.kernels:
            raise ValueError(f"Launch {self.name} has no kernels")


@dataclass(frozen=True, slots=True)
class HostWork:
    """The host computes and launches nothing: guards of compiled code, a metadata plan."""

    name: str
    host_ns: int

    def __post_init__(self) -> None:
        _check(f"HostWork {self.name}", self.host_ns)


@dataclass(frozen=True, slots=True)
class HostSync:
    """The host spends ``host_ns``, then waits until all it has put on ``stream`` has ended."""

    host_ns: int = 0
    stream: str = COMPUTE

    def __post_init__(self) -> None:
        _check("HostSync", self.host_ns)


@dataclass(frozen=True, slots=True)
class Record:
    """The stream reaches ``event`` when all that it was given before has ended."""

    event: str
    host_ns: int = 0
    stream: str = COMPUTE

    def __post_init__(self) -> None:
        _check(f"Record {self.event}", self.host_ns)


@dataclass(frozen=True, slots=True)
class Wait:
    """What the stream is given later follows ``event``, as it was last recorded by the host.

    An event that the host has not recorded so far is not waited for, as in CUDA.
    """

    event: str
    host_ns: int = 0
    stream: str = COMPUTE

    def __post_init__(self) -> None:
        _check(f"Wait {self.event}", self.host_ns)


Call = Launch | HostWork | HostSync | Record | Wait
Program = tuple[Call, ...]
"""The calls of one host thread, in order."""


def _check(what: str, *times: int) -> None:
    for ns in times:
        if ns < 0:
            raise ValueError(f"{what} has a time of {ns} ns")
