"""The ways a forward can be executed, as values that every part of simcg reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simcg.errors import InputError

BackendName = Literal["eager", "full", "breakable", "tc_piecewise", "compiled"]


@dataclass(frozen=True, slots=True)
class CaptureBackend:
    """How one execution is captured and what a replay then pays.

    ``captures``: shapes are recorded and replayed; otherwise every step runs at its own size.
    ``breaks``: ops marked as breaks run eagerly, at the real size, between graph segments.
    ``guards``: each segment is entered through a compiled callable that checks its guards.
    ``compiles``: a compiler runs once at start-up, and element-wise ops are fused.
    ``uses_slots``: the number of requests is captured too, so buckets carry request slots.
    """

    name: BackendName
    captures: bool
    breaks: bool = False
    guards: bool = False
    compiles: bool = False
    uses_slots: bool = False


EAGER = CaptureBackend("eager", captures=False)
FULL = CaptureBackend("full", captures=True, uses_slots=True)
BREAKABLE = CaptureBackend("breakable", captures=True, breaks=True)
TC_PIECEWISE = CaptureBackend(
    "tc_piecewise", captures=True, breaks=True, guards=True, compiles=True
)
COMPILED = CaptureBackend("compiled", captures=False, compiles=True)

BACKENDS: dict[str, CaptureBackend] = {
    b.name: b for b in (EAGER, FULL, BREAKABLE, TC_PIECEWISE, COMPILED)
}


def backend_named(name: str) -> CaptureBackend:
    """The backend of that name; ``InputError`` lists the names there are."""
    if name not in BACKENDS:
        raise InputError("backend", "", name, "one of " + ", ".join(BACKENDS))
    return BACKENDS[name]
