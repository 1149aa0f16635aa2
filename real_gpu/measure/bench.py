"""A decoder on a device, and the runners that share its weights, cache and planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from real_gpu.attention.cache import KvCache
from real_gpu.attention.plan import Planner
from real_gpu.backends.backend import Backend
from real_gpu.backends.breakable import breakable, debug_graph
from real_gpu.backends.eager import Eager
from real_gpu.backends.full import full
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.graphs.device import GraphDevice
from real_gpu.measure.runner import Way
from real_gpu.models.decoder import Decoder
from real_gpu.runners.decode import DecodeRunner
from real_gpu.runners.prefill import PrefillRunner
from real_gpu.runners.runner import Runner
from simcg.backend import BackendName
from simcg.errors import InputError, SimcgError
from simcg.ladder import AdmissionRule, Bucket, Ladder
from simcg.model.architecture import Architecture
from simcg.runs.schema import Compiler

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Room:
    """The largest step: rows, requests, and slots of the cache."""

    tokens: int
    requests: int
    slots: int


class Bench:
    """One model with random weights and cached keys; ``layers``: only the first so many.

    Raises ``SimcgError`` when there is no room for it.
    """

    def __init__(
        self, arch: Architecture, device: GraphDevice, dtype: torch.dtype, room: Room,
        layers: int | None = None,
    ) -> None:  # fmt: skip
        where = device.device
        self.device = device
        try:
            self.decoder = Decoder(arch, where, dtype, seed=0, layers=layers)
            self.arch = self.decoder.arch
            self.cache = KvCache.allocate(self.arch, room.slots, where, dtype)
        except torch.OutOfMemoryError as error:
            raise _no_room(arch, layers, device, dtype, room) from error
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

    def served(
        self, prefill: Sequence[int], rule: AdmissionRule, decode: Sequence[int]
    ) -> tuple[PrefillRunner, DecodeRunner]:
        """Breakable runners of prompts, and runners of whole decode steps; not captured yet."""
        runner = self.way("breakable", "", prefill).runner
        whole = make_backend("full", "", self.device)
        self._backends.append(whole)
        decodes = DecodeRunner(self.decoder, self._planner, whole, decode, AdmissionRule())
        return PrefillRunner(runner, rule), decodes

    def debug_graph(self, sizes: Sequence[int]) -> Way:
        """The breakable backend with the whole forward as one break."""
        made = debug_graph(self.device)
        self._backends.append(made)
        runner = Runner(self.decoder, self._planner, made, Ladder.of(sizes))
        return Way("breakable", "", runner, debug_graph=True)

    def close(self) -> None:
        """Release every graph."""
        for backend in self._backends:
            backend.cleanup()
        self._backends.clear()


def _no_room(
    arch: Architecture, layers: int | None, device: GraphDevice, dtype: torch.dtype, room: Room
) -> SimcgError:
    """What the model needs, what there is, and what to do."""
    if layers is not None:
        arch = replace(arch, layer_kinds=arch.layer_kinds[:layers])
    kept = room.slots * 2 * arch.layers * arch.kv_heads * arch.head_dim
    need = (arch.total_params + kept) * dtype.itemsize
    total = torch.cuda.get_device_properties(device.device).total_memory
    return SimcgError(
        f"{arch.name} does not fit: its weights and {room.slots} cache slots need "
        f"{need / GIB:.1f} GiB of {total / GIB:.1f} GiB, of which {device.memory().live / GIB:.1f} "
        "GiB hold other tensors of this process: leave it out of --models, take a smaller one, or "
        "free the GPU of other processes"
    )


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
