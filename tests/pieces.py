"""A small model for compiled pieces: integer-valued, so that every sum is exact.

Imports torch: test modules import this after ``pytest.importorskip("torch")``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from real_gpu.backends.breaks import eager_on_graph

CPU = torch.device("cpu")
WIDTH = 8  # as many as the rows of one bucket: a coincidence that must fix nothing
LAYERS = 3

calls: list[int] = []
"""Layers whose break ran, in order."""


@eager_on_graph
def mix(x: torch.Tensor, out: torch.Tensor, layer: int) -> None:
    """Something that mixes rows; calls another break, which is then a plain call."""
    calls.append(layer)
    torch.remainder(torch.cumsum(x * (layer + 1), 0), 7, out=out)
    count(out, 1)


@eager_on_graph
def count(x: torch.Tensor, by: int) -> None:
    x.add_(by)


@dataclass
class Model:
    """Integer-valued, so that every sum is exact; a cache that pieces write in place."""

    weights: list[torch.Tensor]
    cache: torch.Tensor
    seen: torch.Tensor

    @staticmethod
    def new(device: torch.device = CPU) -> Model:
        source = torch.Generator().manual_seed(1)
        weights = [
            torch.randint(-2, 3, (WIDTH, WIDTH), generator=source).float().to(device)
            for _ in range(LAYERS)
        ]
        cache = torch.zeros(20, WIDTH, device=device)
        return Model(weights, cache, torch.zeros(1, device=device))

    def forward(self, x: torch.Tensor, slots: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """An in-place residual, a cache write and a break per layer; the last break is unused."""
        residual = torch.zeros_like(x)
        hidden = x
        for index, weight in enumerate(self.weights):
            residual.add_(hidden)
            q = torch.mm(residual, weight)
            self.cache.index_copy_(0, slots, q)
            mixed = torch.empty_like(q)
            mix(q, mixed, index)
            hidden = torch.mm(mixed, weight).remainder_(5)
        count(self.seen, 1)
        out.copy_(hidden + residual)
        return out


Forward = Callable[[], torch.Tensor]


@dataclass
class Inputs:
    """Static inputs of all buckets: the smaller ones are views of the larger."""

    x: torch.Tensor
    slots: torch.Tensor
    out: torch.Tensor

    @staticmethod
    def of(rows: int, device: torch.device = CPU) -> Inputs:
        x, out = torch.zeros((2, rows, WIDTH), device=device).unbind(0)
        return Inputs(x, torch.arange(rows, device=device), out)

    def rewrite(self, seed: int) -> None:
        source = torch.Generator().manual_seed(seed)
        self.x.copy_(torch.randint(-3, 4, self.x.shape, generator=source))

    def forward(self, model: Model, rows: int) -> Forward:
        x, slots, out = self.x[:rows], self.slots[:rows], self.out[:rows]
        return lambda: model.forward(x, slots, out)


def outcome(model: Model, run: Forward) -> tuple[torch.Tensor, torch.Tensor, float]:
    """What a step leaves behind, from the same state each time."""
    model.cache.zero_()
    model.seen.zero_()
    with torch.no_grad():
        out = run().clone()
    return out, model.cache.clone(), float(model.seen)
