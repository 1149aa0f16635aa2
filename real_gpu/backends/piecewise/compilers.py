"""How a piece is compiled: not at all (``eager``), or by Inductor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from torch import fx

from real_gpu.backends.piecewise.split import BoxedCall, PieceCompiler

CompilerName = Literal["eager", "inductor"]


def compile_with_inductor(piece: fx.GraphModule) -> BoxedCall:
    """Inductor's code for the piece; equal pieces are compiled once, by Inductor's own cache."""
    from torch._inductor.compile_fx import compile_fx  # noqa: PLC0415 - seconds to import

    inputs = [node.meta["example_value"] for node in piece.graph.nodes if node.op == "placeholder"]
    compiled = compile_fx(piece, inputs)
    if getattr(compiled, "_boxed_call", False):
        return cast(BoxedCall, compiled)

    def boxed(values: list[Any]) -> Sequence[Any]:
        taken = values[:]
        values.clear()
        return cast(Sequence[Any], compiled(*taken))

    return boxed


PIECE_COMPILERS: dict[CompilerName, PieceCompiler | None] = {
    "eager": None,
    "inductor": compile_with_inductor,
}
