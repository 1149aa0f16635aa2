"""Captures under audit: small decoders in every backend, and the hazards of breaks.

Imports torch: test modules import this after ``pytest.importorskip("torch")``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from real_gpu.audit import Audit, audit
from real_gpu.backends.backend import Backend
from real_gpu.graphs.device import GraphDevice
from real_gpu.runners.runner import Runner
from simcg.formal.recording import Role
from simcg.ladder import Bucket, Ladder
from tests.decoders import Engine

SIZES = (5, 16, 33)


def tensors_in(value: object, name: str, seen: set[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor that an object of this package holds, with a path to it."""
    if isinstance(value, torch.Tensor):
        yield name, value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    for key, part in _parts(value).items():
        yield from tensors_in(part, f"{name}.{key}", seen)


def _parts(value: object) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    if not type(value).__module__.startswith("real_gpu"):
        return {}
    slots = getattr(type(value), "__slots__", ())
    return {**getattr(value, "__dict__", {}), **{slot: getattr(value, slot) for slot in slots}}


def declared_by(runner: Runner, engine: Engine) -> dict[str, tuple[Role, torch.Tensor]]:
    """What a runner's tensors are for."""
    seen: set[int] = set()
    found: dict[str, tuple[Role, torch.Tensor]] = {}
    holders: list[tuple[Role, object]] = [
        ("cache", engine.cache), ("constant", engine.decoder), ("static", engine.planner),
    ]  # fmt: skip
    for role, holder in holders:
        for name, tensor in tensors_in(holder, role, seen):
            found[name] = role, tensor
    found["ids"] = "static", runner._ids.buffer
    found["out"] = "output", runner._out
    return found


def audited_ladder(
    engine: Engine, device: GraphDevice, make: Callable[[GraphDevice], Backend]
) -> Audit:
    """A ladder of a decoder, captured under audit."""
    backend = make(device)
    slots = 4 if backend.kind.uses_slots else None
    ladder = Ladder(tuple(Bucket(size, slots) for size in SIZES))
    runner = Runner(engine.decoder, engine.planner, backend, ladder)
    with audit(declared_by(runner, engine)) as found:
        runner.capture()
    KEPT.append((runner, engine))
    return found


KEPT: list[object] = []
"""What is declared lives as long as its graphs, as the checks ask."""
