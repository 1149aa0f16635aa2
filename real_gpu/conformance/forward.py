"""A program as a torch forward: tensors die at their last use; marked breaks; a second stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch

from real_gpu.backends.breaks import eager_on_graph
from real_gpu.conformance import kernels
from real_gpu.conformance.kernels import Launch, Model, Views
from real_gpu.graphs.device import GraphDevice
from simcg.formal.program import IN_PLACE, Program

KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    "gemm": kernels.gemm,
    "add": kernels.add,
    "accumulate": kernels.add,
    "scatter": kernels.alone,
    "attend": kernels.attend,
    "causal": kernels.causal,
    "mix": kernels.mix,
    "mix_all": kernels.mix_all,
    "state": kernels.state,
    "constant": kernels.with_tensor,
    "borrow": kernels.with_tensor,
    "random": kernels.random,
    "draw": kernels.draw,
    "reduce": kernels.alone,
    "launch": kernels.launch_scalar,
    "host": kernels.host,
}
Extra = Callable[[int], "torch.Tensor | None"]
"""The tensor that operator k reads beside its inputs, if it is one that does."""


@dataclass(frozen=True, slots=True)
class Item:
    """One operator. ``target``: the tensor it makes or changes, 0 for none.

    ``dead``: tensors that nothing after it touches. ``cache``: the scatter it reads, -1 for none.
    """

    k: int
    kind: str
    inputs: tuple[int, ...]
    target: int
    in_place: bool
    breaks: bool
    side: bool
    dead: tuple[int, ...]
    cache: int


def items_of(program: Program) -> list[Item]:
    """The operators with what a forward needs to know of them."""
    return [
        Item(
            k=k,
            kind=op.kind,
            inputs=op.inputs,
            target=program.targets[k],
            in_place=op.kind in IN_PLACE or op.kind == "scatter",
            breaks=op.breaks,
            side=op.side,
            dead=tuple(
                t for t in sorted({*op.inputs, program.targets[k]} - {0})
                if program.last_use[t] == k
            ),
            cache=program.caches[k] if op.kind == "attend" else -1,
        )
        for k, op in enumerate(program.ops)
    ]  # fmt: skip


def compute(
    model: Model, item: Item, x: torch.Tensor, y: torch.Tensor, views: Views, launch: Launch,
    extra: torch.Tensor | None,
) -> torch.Tensor | None:  # fmt: skip
    """Run one operator at the rows of ``x``; None where it writes in place."""
    arguments = (model, item.k, x, y, views, launch, extra)
    if item.kind == "attend":
        return kernels.attend(*arguments, item.cache)
    result = KERNELS[item.kind](*arguments)
    if item.kind == "scatter":
        model.caches[item.k].index_copy_(0, views.metadata.slots, result)
        return None
    if item.in_place:
        x.copy_(result)
        return None
    return result


class Live:
    """What breaks look at when they run: the step as it is planned now."""

    def __init__(self, model: Model, items: list[Item]) -> None:
        self._model, self._items = model, items

    def use(self, views: Views, rows: int, requests: int, launch: Launch) -> None:
        """Breaks run at so many rows and requests of these views from now on."""
        self._views, self._rows, self._launch = views.first(rows, requests), rows, launch

    def run(
        self, k: int, x: torch.Tensor, y: torch.Tensor, extra: torch.Tensor | None,
        out: torch.Tensor | None,
    ) -> None:  # fmt: skip
        """Operator k at the live rows, into the first rows of ``out``."""
        rows, item = self._rows, self._items[k]
        result = compute(
            self._model, item, x[:rows], y[:rows], self._views, self._launch, extra
        )  # fmt: skip
        if out is not None:
            assert result is not None
            out[:rows].copy_(result)


_live: ContextVar[Live] = ContextVar("live step")


@contextmanager
def using(live: Live) -> Iterator[None]:
    """Within it, breaks look at ``live``."""
    token = _live.set(live)
    try:
        yield
    finally:
        _live.reset(token)


@eager_on_graph
def written(
    k: int, x: torch.Tensor, y: torch.Tensor, extra: torch.Tensor | None, out: torch.Tensor | None
) -> None:
    """A break that writes into an argument: ``out``, or ``x`` itself, or a cache."""
    _live.get().run(k, x, y, extra, out)


@eager_on_graph
def returned(k: int, x: torch.Tensor, y: torch.Tensor, extra: torch.Tensor | None) -> torch.Tensor:
    """A break that returns its result; rows that are not live hold NaN."""
    out = torch.full_like(x, kernels.NAN)
    _live.get().run(k, x, y, extra, out)
    return out


class BrokenOffError(RuntimeError):
    """Injected into a capture."""


class Forward:
    """Runs a program's operators over views. ``side``: a second stream, where there is one.

    ``fails_at``: the operator at which a recording of it breaks off, -1 for none.
    """

    def __init__(
        self, model: Model, program: Program, device: GraphDevice,
        side: torch.cuda.Stream | None, *, returns: bool, in_pool: bool,
    ) -> None:  # fmt: skip
        self.items, self._output = items_of(program), program.output
        self._model, self._device, self._side = model, device, side
        self._returns, self._in_pool = returns, in_pool
        self.fails_at = -1

    def run(self, views: Views, launch: Launch, extra: Extra) -> torch.Tensor:
        """The rows of the output: in the runner's buffer, or where they were made."""
        tensors: dict[int, torch.Tensor] = {0: views.ids}
        unjoined: set[int] = set()
        waiting: list[torch.Tensor] = []  # memory of the second stream until it is joined
        for item in self.items:
            if item.k == self.fails_at and self._device.recording:
                raise BrokenOffError
            touched = {*item.inputs, item.target} - {0}
            side = item.side and self._side is not None
            if not side and touched & unjoined:
                self._join(unjoined, waiting)
            if side:
                unjoined |= touched
            self._one(item, tensors, views, launch, extra(item.k))
            for tensor in item.dead:
                value = tensors.pop(tensor)
                if tensor in unjoined:
                    waiting.append(value)
                del value
        if unjoined:
            self._join(unjoined, waiting)
        result = tensors.pop(self._output)
        return result if self._in_pool else views.out.copy_(result)

    def _one(
        self, item: Item, tensors: dict[int, torch.Tensor], views: Views, launch: Launch,
        extra: torch.Tensor | None,
    ) -> None:  # fmt: skip
        x, y = tensors[item.inputs[0]], tensors[item.inputs[-1]]
        result: torch.Tensor | None
        if item.breaks:
            result = self._break(item, x, y, extra)
        elif item.side and self._side is not None:
            current = torch.cuda.current_stream()
            self._side.wait_stream(current)
            with torch.cuda.stream(self._side):
                result = compute(self._model, item, x, y, views, launch, extra)
        else:
            result = compute(self._model, item, x, y, views, launch, extra)
        if result is not None:
            tensors[item.target] = result

    def _break(
        self, item: Item, x: torch.Tensor, y: torch.Tensor, extra: torch.Tensor | None
    ) -> torch.Tensor | None:
        if self._returns and not item.in_place:
            return returned(item.k, x, y, extra)
        out = None if item.in_place else torch.empty_like(x)
        written(item.k, x, y, extra, out)
        return out

    def _join(self, unjoined: set[int], waiting: list[torch.Tensor]) -> None:
        """The first stream goes on after the second."""
        torch.cuda.current_stream().wait_stream(self._side)
        unjoined.clear()
        waiting.clear()
