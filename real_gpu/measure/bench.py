"""A decoder on a device, and the runners that share its weights, cache and planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from real_gpu.attention.cache import KvCache
from real_gpu.attention.plan import Planner
from real_gpu.backends.backend import Backend
from real_gpu.backends.breakable import breakable
from real_gpu.backends.eager import Eager
from real_gpu.backends.full import full
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.graphs.device import GraphDevice
from real_gpu.measure.runner import Way
from real_gpu.models.decoder import Decoder
from real_gpu.runners.runner import Runner
from simcg.backend import BackendName
from simcg.errors import InputError
from simcg.ladder import Bucket, Ladder
from simcg.model.architecture import Architecture
from simcg.runs.schema import Compiler


@dataclass(frozen=True, slots=True)
class Room:
    """The largest step: rows, requests, and slots of the cache."""

    tokens: int
    requests: int
    slots: int


class Bench:
    """One model with random weights and cached keys; ``layers``: only the first so many."""

    def __init__(
        self, arch: Architecture, device: GraphDevice, dtype: torch.dtype, room: Room,
        layers: int | None = None,
    ) -> None:  # fmt: skip
        where = device.device
        self.device = device
        self.decoder = Decoder(arch, where, dtype, seed=0, layers=layers)
        self.arch = self.decoder.arch
        self.cache = KvCache.allocate(self.arch, room.slots, where, dtype)
        for tensor in (*self.cache.keys, *self.cache.values):
            tensor.normal_()
        self.decoder.bind(self.cache)
        self._planner = Planner(self.cache, room.tokens, room.requests)
        self._backends: list[Backend] = []

    def way(
        self, backend: BackendName, compiler: Compiler, sizes: Sequence[int],
        slots: int | None = None,
    ) -> Way:  # fmt: skip
        """A runner with buckets of these sizes, not captured yet; ``slots`` only for full."""
        made = make_backend(backend, compiler, self.device)
        self._backends.append(made)
        runner = Runner(self.decoder, self._planner, made, Ladder.of(sizes, slots))
        return Way(backend, compiler, runner, slots)

    def close(self) -> None:
        """Release every graph."""
        for backend in self._backends:
            backend.cleanup()
        self._backends.clear()


def make_backend(name: BackendName, compiler: Compiler, device: GraphDevice) -> Backend:
    """A fresh backend; ``InputError`` for one that no runner has."""
    if name == "eager":
        return Eager()
    if name == "full":
        return full(device)
    if name == "breakable":
        return breakable(device)
    if name == "tc_piecewise" and compiler:
        return TcPiecewise(device, compiler)
    raise InputError("backend", compiler, name, "eager, full, breakable or tc_piecewise")


def settle(device: GraphDevice) -> None:
    """Pay what the first graph of a process costs: its context, and workspaces of libraries."""
    x = torch.ones(16, 16, device=device.device)
    first = full(device)
    first.capture_one(Bucket(1), lambda: torch.mm(x, x))
    first.replay(Bucket(1))
    first.cleanup()
