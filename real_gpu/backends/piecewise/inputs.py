"""Finds the tensors that a forward holds, and declares their rows a dimension that varies."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch

from real_gpu.graphs.device import CaptureError


def held_tensors(value: object) -> Iterator[torch.Tensor]:
    """Tensors in a function's closure and bound arguments, in containers and in dataclasses.

    Other objects, a model among them, are not entered: their tensors have no rows.
    """
    if isinstance(value, torch.Tensor):
        yield value
        return
    for part in _parts(value):
        yield from held_tensors(part)


def _parts(value: object) -> Iterable[object]:
    parts: Iterable[object] = ()
    match value:
        case types.FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            parts = (*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        case functools.partial():
            parts = (value.func, *value.args, *value.keywords.values())
        case types.MethodType():
            parts = (value.__func__, value.__self__)
        case list() | tuple():
            parts = value
        case Mapping():
            parts = value.values()
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    return parts


@contextmanager
def rows_may_vary(forward: object, rows: int) -> Iterator[None]:
    """Within it, the first dimension of what ``forward`` holds is dynamic where it is ``rows``.

    Where that is a coincidence, the trace makes a constant of it. One row is not declared: PyTorch
    knows it is one. Raises ``CaptureError`` where the forward holds no such tensor: then it cannot
    run at other sizes.
    """
    tensors = {id(t): t for t in held_tensors(forward) if t.dim() and t.shape[0] == rows}
    if not tensors:
        raise CaptureError(
            f"forward holds no tensor of {rows} rows: hand it its static inputs as views of the "
            "bucket's size, held by the function itself"
        )
    before = {key: dict(tensor.__dict__) for key, tensor in tensors.items()}
    try:
        for tensor in tensors.values() if rows > 1 else ():
            torch._dynamo.maybe_mark_dynamic(tensor, 0)
        yield
    finally:
        for key, tensor in tensors.items():
            tensor.__dict__.clear()
            tensor.__dict__.update(before[key])
