"""Finds the tensors that a forward holds, and declares their rows a dimension that varies."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def tensors_of_rows(forward: object, rows: int) -> list[torch.Tensor]:
    """What ``forward`` holds whose first dimension is ``rows``.

    Raises ``CaptureError`` where it holds none: then it cannot run at other sizes.
    """
    found = {id(t): t for t in held_tensors(forward) if t.dim() and t.shape[0] == rows}
    if not found:
        raise CaptureError(
            f"forward holds no tensor of {rows} rows: hand it its static inputs as views of the "
            "bucket's size, held by the function itself"
        )
    return list(found.values())


@contextmanager
def rows_may_vary(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Within it, the first dimension of each is declared dynamic to Dynamo.

    Where a tensor has as many rows by coincidence, the trace makes a constant of them. One row is
    not declared: PyTorch knows it is one.
    """
    before = [dict(tensor.__dict__) for tensor in tensors]
    try:
        for tensor in tensors:
            if tensor.shape[0] > 1:
                torch._dynamo.maybe_mark_dynamic(tensor, 0)
        yield
    finally:
        for tensor, attributes in zip(tensors, before, strict=True):
            tensor.__dict__.clear()
            tensor.__dict__.update(attributes)
