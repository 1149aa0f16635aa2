"""How a piece is compiled: not at all (``eager``), or by Inductor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import fx

from real_gpu.backends.piecewise.split import BoxedCall, PieceCompiler
from real_gpu.graphs.device import CaptureError

CompilerName = Literal["eager", "inductor"]


def compile_with_inductor(piece: fx.GraphModule) -> BoxedCall:
    """Inductor's code for the piece; equal pieces are compiled once, by Inductor's own cache."""
    from torch._inductor.compile_fx import compile_fx  # noqa: PLC0415 - seconds to import

    nodes = list(piece.graph.nodes)
    inputs = [node.meta["example_value"] for node in nodes if node.op == "placeholder"]
    outputs = [node.meta["example_value"] for node in nodes[-1].args[0]]
    owners = _owners([*inputs, *outputs])[len(inputs) :]
    compiled = compile_fx(piece, inputs)

    def boxed(values: list[Any]) -> Sequence[Any]:
        # its entry is not boxed: it holds what it is given until the piece has run
        results = _with_owners(values, compiled(*values), owners)
        values.clear()
        return results

    return boxed


def _owners(values: Sequence[Any]) -> list[int]:
    """For each value the position of the first that shares its storage; numbers share none."""
    first: dict[int, int] = {}
    return [
        first.setdefault(value.untyped_storage()._cdata, index)
        if isinstance(value, torch.Tensor)
        else index
        for index, value in enumerate(values)
    ]


def _with_owners(
    values: Sequence[Any], results: Sequence[Any], owners: Sequence[int]
) -> Sequence[Any]:
    """The results, sharing memory with inputs and each other as the traced piece's do.

    Inductor takes a piece for a function of values: for ``zeros + x`` it returns ``x`` itself, and
    later pieces would write into it.
    """
    found = _owners([*values, *results])[len(values) :]
    if found == owners:
        return results
    mended = list(results)
    for index, (is_, should) in enumerate(zip(found, owners, strict=True)):
        if is_ != should:
            if should != len(values) + index:
                raise CaptureError(
                    f"Inductor copies output {index} of a piece, which is a view in the forward: "
                    "make the view after the break, or use the compiler eager"
                )
            mended[index] = results[index].clone()
    return mended


PIECE_COMPILERS: dict[CompilerName, PieceCompiler | None] = {
    "eager": None,
    "inductor": compile_with_inductor,
}
