"""Products with their weights as an engine issues them, and what a function keeps alive."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from simcg.model.ops import Dtype, Elementwise, Gemm, Op, OpKind, Tensor, activation_dtype

VALUE_BYTES = 2
"""Activations are 16 bit."""
SCALE_BYTES = 4
"""A scale of fp8 values is an fp32."""
SCALE_GROUP = 128
"""Channels of a token that share a scale for fp8_block weights; for fp8 all of them do."""


def linear(name: str, size: tuple[int, int], stored: Dtype, source: str, target: str) -> list[Op]:
    """A dense product with its bias in the epilogue: 1 kernel, and 1 to quantise its input."""
    k, n = size
    before = quantize(name, k, stored, source, copies=1)
    reads = tuple(tensor.name for op in before for tensor in op.writes) or (source,)
    writes = (Tensor(target, n * VALUE_BYTES),)
    kind: OpKind = "router" if name == "router" else "gemm"
    return [*before, Op(name, kind, Gemm(k, n, stored, activation_dtype(stored)), 1, reads, writes)]


def quantize(name: str, k: int, stored: Dtype, source: str, copies: int) -> list[Op]:
    """One kernel that writes ``copies`` rows of k values and their scales for each token."""
    used = activation_dtype(stored)
    if used == "bf16":
        return []
    group = SCALE_GROUP if stored == "fp8_block" else k
    row = k + -(-k // group) * SCALE_BYTES if used == "fp8" else -(-k // 2) + -(-k // 16)
    shape = Elementwise(copies * k * VALUE_BYTES, copies * row)
    writes = (Tensor(f"{name}_input", copies * row),)
    return [Op(f"{name}_quantize", "elementwise", shape, 1, (source,), writes)]


def frame(ops: Iterable[Op], argument: str = "hidden", dead: Collection[str] = ()) -> list[Op]:
    """Ops issued from one function of an engine: its argument and locals live until it returns.

    Quantised inputs are locals of the product that uses them and die with it; ``dead`` are
    locals of functions that it calls, whose own frames say how long they live.
    """
    out: list[Op] = []
    local = [argument]
    for op in ops:
        kept = (name for name in (*op.holds, *local) if name not in op.reads)
        out.append(replace(op, holds=tuple(dict.fromkeys(kept))))
        if op.kind != "elementwise":
            local += [tensor.name for tensor in op.writes if tensor.name not in dead]
    return out
