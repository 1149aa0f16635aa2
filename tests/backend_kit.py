"""What the laws of backends are stated with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from real_gpu.backends.breaks import eager_on_graph
from real_gpu.backends.capture import GraphBackend
from real_gpu.graphs.arena import Arena
from real_gpu.graphs.device import GraphDevice

MIB = 1 << 20


@dataclass(frozen=True)
class Kit:
    """A graph device and the backends on it."""

    device: GraphDevice
    full: Callable[[GraphDevice], GraphBackend]
    breakable: Callable[[GraphDevice], GraphBackend]
    debug_graph: Callable[[GraphDevice], GraphBackend]

    def zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros(*shape, device=self.device.device)

    def ones(self, *shape: int) -> torch.Tensor:
        return torch.ones(*shape, device=self.device.device)


Law = Callable[[Kit], None]
Make = Callable[[GraphDevice], GraphBackend]


@eager_on_graph
def add_into(source: torch.Tensor, addend: torch.Tensor, out: torch.Tensor) -> None:
    torch.add(source, addend, out=out)


def block_of(kit: Kit, arena: Arena, value: float, count: int) -> torch.Tensor:
    """A tensor outside the pool whose block goes to the next such tensor when it is dropped."""
    if kit.device.device.type == "cuda":
        return torch.full((count,), value, device=kit.device.device)
    storage = arena.storage(4 * count)
    return torch.empty(0).set_(storage, 0, (count,), (1,)).fill_(value)
