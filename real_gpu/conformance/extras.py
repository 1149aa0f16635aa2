"""The tensors that ``constant`` and ``borrow`` read, and how long who keeps them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch

from real_gpu.backends.backend import Backend
from real_gpu.conformance.kernels import Model
from real_gpu.graphs.arena import Arena
from real_gpu.graphs.device import GraphDevice
from simcg.backend import CaptureBackend
from simcg.formal.program import Program
from simcg.ladder import Bucket

PRELUDE = Bucket(1 << 20)
"""The key of the capture that makes the constants; no step ever has as many tokens."""
FOREIGN = -7.0
FOREIGN_BLOCKS = 32
"""More than the blocks that become free: the first go to these."""


class Extras:
    """Constants, made once in the pool, and tensors outside it that nobody keeps but captures.

    A constant is made by a graph of its own that runs once: what is recorded does not run at
    capture. One that only breaks read is dropped after the captures, as their captures keep it.
    Under a compiler constants are made outside the pool, as it traces one forward only.
    """

    def __init__(
        self, program: Program, backend: CaptureBackend, model: Model, device: GraphDevice
    ) -> None:
        self._backend, self._model, self._device = backend, model, device
        kinds = {k: op.kind for k, op in enumerate(program.ops)}
        self._constants = [k for k, kind in kinds.items() if kind == "constant"]
        self._borrows = [k for k, kind in kinds.items() if kind == "borrow"]
        # compiled code asks for what breaks read at every replay
        drops = backend.breaks and not backend.compiles
        self._dropped = {k for k, op in enumerate(program.ops) if op.breaks and drops}
        self._made: dict[int, torch.Tensor] = {}
        self._lent: list[dict[int, torch.Tensor]] = []
        self._arena = Arena()  # of blocks outside the pool, where there is no CUDA allocator
        self.foreign: list[torch.Tensor] = []

    def prepare(self, backend: Backend) -> None:
        """Make the constants, before the first bucket is captured."""
        if not self._constants or self._made:
            return
        if not self._backend.captures or self._backend.compiles:
            self._made = {k: self._weight(k) for k in self._constants}
            return

        def forward() -> torch.Tensor:
            made = {k: self._weight(k) for k in self._constants}
            if self._device.recording:
                self._made = made
            return made[self._constants[0]]

        backend.capture_one(PRELUDE, forward)
        backend.replay(PRELUDE)

    def of_capture(self) -> Callable[[int], torch.Tensor | None]:
        """What a forward that is captured reads: what is lent is lent to this one alone."""
        lent = {k: self._outside(k) for k in self._borrows}
        taken = {k: lent.pop(k) for k in self._borrows if k in self._dropped}
        self._lent.append(taken)  # dropped after the captures; the rest the forward keeps
        made = self._made
        return lambda k: made.get(k, lent.get(k, taken.get(k)))

    def captured(self) -> None:
        """The captures are done: drop what they keep, and let others have the free blocks."""
        for taken in self._lent:
            taken.clear()
        for k in self._dropped & set(self._made):
            del self._made[k]
        if self._borrows:
            self.foreign = [self._outside(0).fill_(FOREIGN) for _ in range(FOREIGN_BLOCKS)]

    def of_step(self) -> Callable[[int], torch.Tensor | None]:
        """What an eager step reads; it makes anew what is gone."""
        wanted = {*self._constants, *self._borrows}
        return lambda k: self._made.get(k, self._weight(k)) if k in wanted else None

    def foreign_is_whole(self) -> bool:
        """Whether nobody wrote into what others own."""
        return not self.foreign or bool((torch.cat(self.foreign) == FOREIGN).all())

    def _weight(self, k: int) -> torch.Tensor:
        return self._model.extra[k] + 0.0

    def _outside(self, k: int) -> torch.Tensor:
        """The same, from memory whose next owner is known."""
        value = self._weight(k)
        if value.device.type == "cuda":
            return value
        storage: Any = self._arena.storage(value.nbytes)
        return torch.empty(0, dtype=value.dtype).set_(storage, 0, value.shape, (1,)).copy_(value)


def pool_of(backend: Backend) -> Hashable:
    """The backend's pool; None where there is none."""
    return getattr(backend, "pool", None)
