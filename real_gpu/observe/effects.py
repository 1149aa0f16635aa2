"""What one call of an operator reads and writes, as far as its schema tells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

from real_gpu.graphs.recorder import ALLOCATIONS
from simcg.formal.recording import Baked, Scalar

OVERWRITES = frozenset(
    {
        torch.ops.aten.copy_.default,
        torch.ops.aten.fill_.Scalar,
        torch.ops.aten.fill_.Tensor,
        torch.ops.aten.zero_.default,
        torch.ops.aten.normal_.default,
        torch.ops.aten.uniform_.default,
        torch.ops.aten.random_.default,
        torch.ops.aten.random_.to,
        torch.ops.aten.exponential_.default,
        torch.ops.aten.bernoulli_.float,
    }
)
"""What writes all of its first argument without reading it."""

LEAVE_NO_TRACE = frozenset(
    {
        torch.ops.aten.set_.source_Storage,
        torch.ops.aten.set_.source_Storage_storage_offset,
        torch.ops.aten.set_.source_Tensor,
        torch.ops.aten.set_.source_Tensor_storage_offset,
        torch.ops.aten.resize_.default,
    }
)
"""What changes a tensor and touches no memory, though its schema says that it writes."""

KNOWN_NAMESPACES = frozenset({"aten", "prims"})
"""Whose schemas torch's own tests hold to what the kernels do."""


@dataclass(frozen=True, slots=True)
class Effects:
    """Tensors that a call reads and writes among its arguments, and the host values it bakes.

    ``touches_nothing``: the memory that it gives holds anything; ``decided``: the sets are known.
    """

    name: str
    reads: list[torch.Tensor]
    writes: list[torch.Tensor]
    baked: dict[str, Baked]
    touches_nothing: bool
    decided: bool


def effects_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Effects:
    """The effects of ``func(*args, **kwargs)``; those of its results are not in them."""
    if not isinstance(func, OpOverload):
        return kernel_effects(str(func), args, kwargs)
    reads: list[torch.Tensor] = []
    writes: list[torch.Tensor] = []
    baked: dict[str, Baked] = {}
    for index, declared in enumerate(func._schema.arguments):
        if index < len(args):
            value = args[index]
        elif declared.name in kwargs:
            value = kwargs[declared.name]
        else:
            continue
        tensors = list(_tensors(value))
        if declared.alias_info is not None and declared.alias_info.is_write:
            writes += tensors
            overwritten = declared.is_out or (func in OVERWRITES and index == 0)
            reads += [] if overwritten else tensors
        elif tensors:
            reads += tensors
        elif is_baked(value):
            baked[declared.name] = as_baked(value)
    decided = func.namespace in KNOWN_NAMESPACES
    touches_nothing = func in ALLOCATIONS or func in LEAVE_NO_TRACE
    return Effects(str(func), reads, writes, baked, touches_nothing, decided)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))


def kernel_effects(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Effects:
    """Of something without a schema: it may read and write all that it is given, and more."""
    tensors = list(_tensors((args, kwargs)))
    named = {**{str(index): value for index, value in enumerate(args)}, **kwargs}
    baked = {key: as_baked(value) for key, value in named.items() if is_baked(value)}
    return Effects(name, tensors, tensors, baked, touches_nothing=False, decided=False)


def is_baked(value: Any) -> bool:
    """Whether it is a number, a string, or a list of them."""
    if isinstance(value, (list, tuple)):
        return all(isinstance(item, (bool, int, float, str)) for item in value)
    return isinstance(value, (bool, int, float, str))


def as_baked(value: Any) -> Baked:
    """A host value as a recording has it."""
    if isinstance(value, (list, tuple)):
        return tuple(_scalar(item) for item in value)
    return _scalar(value)


def _scalar(value: Any) -> Scalar:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (bool, int, float)) else str(value)
