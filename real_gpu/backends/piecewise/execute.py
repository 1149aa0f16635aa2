"""Runs a program as it is, or records its pieces on a graph device for one bucket."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import is_not
from typing import Any

import torch

from real_gpu.backends.piecewise.split import Break, Piece, Program, Value
from real_gpu.backends.watch import tell_break
from real_gpu.graphs.device import CaptureError, GraphDevice, ReplayError, Segment


@dataclass(frozen=True, slots=True)
class Pieces:
    """A bucket's graphs and breaks in order.

    ``steps`` are what a replay calls; ``segments`` also holds graphs without kernels, which own
    memory of the pool. ``inputs``: the tensors that come from outside, held so that their
    addresses stay theirs; ``are_tensors`` tells which of the program's inputs they are.
    """

    steps: tuple[Callable[[], object], ...]
    segments: tuple[Segment, ...]
    inputs: tuple[torch.Tensor, ...]
    are_tensors: tuple[bool, ...]
    results: tuple[Any, ...]
    breaks: int

    def replay(self, _program: Program, values: Sequence[Any]) -> tuple[Any, ...]:
        """Run every step; raises ``ReplayError`` if an input is not where it was."""
        tensors = compress(values, self.are_tensors)
        if any(map(is_not, tensors, self.inputs)):
            self._check_addresses(compress(values, self.are_tensors))
        for step in self.steps:
            step()
        return self.results

    def _check_addresses(self, tensors: Iterable[torch.Tensor]) -> None:
        for now, then in zip(tensors, self.inputs, strict=True):
            if now.data_ptr() != then.data_ptr():
                raise ReplayError(
                    f"a tensor that the compiled forward reads ({now.dtype}, shape "
                    f"{tuple(now.shape)}) has moved since capture: rewrite it in place instead"
                )


def run(program: Program, values: Sequence[Any]) -> tuple[Any, ...]:
    """Run every piece and break where they stand; raises ``CaptureError`` if a break returns."""
    env = dict(zip(program.inputs, values, strict=True))
    for item in program.items:
        if isinstance(item, Piece):
            env.update(zip(item.outputs, item.call(_take(env, item)), strict=True))
            continue
        if _bound(item, env, lambda tensor: tensor)() is not None:
            raise CaptureError(
                f"{item.function.__qualname__} returned a value at a compiled break: let it "
                "write into an argument"
            )
        _drop(env, item)
    return _resolved(program, env)


def record(device: GraphDevice, pool: Hashable, program: Program, values: Sequence[Any]) -> Pieces:
    """Record every piece into ``pool``; breaks return nothing, so they need not run.

    If a piece cannot be recorded, nothing of the bucket is left.
    """
    env = dict(zip(program.inputs, values, strict=True))
    before = device.mark(pool)
    steps: list[Callable[[], object]] = []
    segments: list[Segment] = []

    def held(tensor: torch.Tensor) -> torch.Tensor:
        # the pool's memory is not the break's to keep: what made it runs before each break
        return device.alias(tensor) if device.born_since(before, tensor) else tensor

    try:
        for item in program.items:
            if isinstance(item, Piece):
                segments.append(_record_piece(device, pool, item, env))
                if segments[-1].nodes:
                    steps.append(segments[-1].replay)
            else:
                call = _bound(item, env, held)
                given = _bound(item, env, lambda tensor: tensor)
                held_args = call.args, call.keywords
                tell_break(item.function, (given.args, given.keywords), held_args, runs=False)
                steps.append(call)
                _drop(env, item)
                del given  # it would keep what the break was last to need
    except BaseException:
        for segment in segments:
            segment.release()
        raise
    results = tuple(held(r) if isinstance(r, torch.Tensor) else r for r in _resolved(program, env))
    breaks = sum(isinstance(item, Break) for item in program.items)
    are_tensors = tuple(isinstance(value, torch.Tensor) for value in values)
    inputs = tuple(compress(values, are_tensors))
    return Pieces(tuple(steps), tuple(segments), inputs, are_tensors, results, breaks)


def _record_piece(
    device: GraphDevice, pool: Hashable, piece: Piece, env: dict[str, Any]
) -> Segment:
    # the CPU device sees operators, not what a compiler made of them
    call = piece.as_traced if device.device.type == "cpu" else piece.call
    device.begin(pool)
    try:
        env.update(zip(piece.outputs, call(_take(env, piece)), strict=True))
    except BaseException:
        device.abandon()
        raise
    return device.end()


def _take(env: dict[str, Any], item: Piece) -> list[Any]:
    """The piece's inputs; those that nothing needs later are then held by the list alone."""
    values = [env[name] for name in item.inputs]
    _drop(env, item)
    return values


def _drop(env: dict[str, Any], item: Piece | Break) -> None:
    for name in item.drops:
        del env[name]


def _bound(
    item: Break, env: dict[str, Any], held: Callable[[torch.Tensor], torch.Tensor]
) -> functools.partial[None]:
    """The break's call with its arguments' values, tensors as ``held`` gives them."""

    def value_of(arg: Any) -> Any:
        value = env[arg.name] if isinstance(arg, Value) else arg
        return held(value) if isinstance(value, torch.Tensor) else value

    args = [value_of(arg) for arg in item.args]
    kwargs = {name: value_of(arg) for name, arg in item.kwargs.items()}
    return functools.partial(item.function, *args, **kwargs)


def _resolved(program: Program, env: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(env[r.name] if isinstance(r, Value) else r for r in program.results)
