"""Linear attention by the gated delta rule, as engines issue it.

Counted from reading how SGLang structures Qwen3.5: convolution, gates and the rule itself run
eager at the break. In prefill the rule is the chunked form of Flash Linear Attention.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simcg.model.linear import VALUE_BYTES, frame, linear
from simcg.model.ops import CausalConv, Elementwise, GatedDelta, Gemm, Op, Tensor

if TYPE_CHECKING:
    from simcg.model.architecture import Architecture
    from simcg.model.parts import Delta

CHUNK = 64
"""Tokens of a chunk: one state a head is kept for each."""
CHUNKED_KERNELS = 8
"""Norms of queries and keys, sums of the gates, products within chunks, their triangular inverse,
what they do to keys and values, states from chunk to chunk, the result."""
GATE_BYTES = 4
"""Gates are fp32."""


def delta_attention(arch: Architecture, tp: int, decodes: bool) -> list[Op]:
    """The ops of one linear layer on one of ``tp`` ranks."""
    sizes = arch.need_delta()
    values = sizes.value_heads // tp * sizes.value_dim
    row = values * VALUE_BYTES
    mixed = sizes.channels // tp * VALUE_BYTES
    scalars = 2 * sizes.value_heads // tp
    wide = mixed + row + scalars * VALUE_BYTES
    stored = arch.weights.attention
    ops = [
        *linear(
            "in_qkvz", (arch.hidden, sizes.channels // tp + values), stored, "hidden", "qkvz",
        ),
        Op(
            "in_ba", "gemm", Gemm(arch.hidden, scalars), 1, ("hidden",),
            (Tensor("ba", scalars * VALUE_BYTES),),
        ),
        Op(
            "split", "linear_attention", Elementwise(wide, wide), 1, ("qkvz", "ba"),
            (Tensor("mixed", mixed), Tensor("z", row), Tensor("gates", scalars * VALUE_BYTES)),
        ),
        *(replace(op, is_break=True) for op in _rule(sizes, tp, decodes)),
        Op("gated_norm", "norm", Elementwise(2 * row, row), 1, ("attended", "z"),
           (Tensor("normed", row),)),
        *linear("out", (values, arch.hidden), stored, "normed", "hidden"),
    ]  # fmt: skip
    return frame(ops, dead=("convolved", "decay", "delta_scratch"))


def _rule(sizes: Delta, tp: int, decodes: bool) -> list[Op]:
    """Convolution and rule; prefill computes the gates by a kernel of their own, and in chunks."""
    heads = sizes.value_heads // tp
    row = heads * sizes.value_dim * VALUE_BYTES
    channels = sizes.channels // tp
    rule = GatedDelta(sizes.key_heads // tp, heads, sizes.key_dim, sizes.value_dim)
    conv = Op(
        "conv", "linear_attention", CausalConv(channels, sizes.conv_width), 1, ("mixed",),
        (Tensor("convolved", channels * VALUE_BYTES),),
    )  # fmt: skip
    out = (Tensor("attended", row),)
    if decodes:
        reads = ("convolved", "gates")
        return [conv, Op("delta_rule", "linear_attention", rule, 1, reads, out)]
    gates = 2 * heads * GATE_BYTES
    states = heads * sizes.key_dim * sizes.value_dim * VALUE_BYTES // CHUNK
    # keys and values as the chunks change them, and the values that each chunk adds
    chunks = states + 2 * row + heads * sizes.key_dim * VALUE_BYTES
    return [
        conv,
        Op(
            "delta_gates", "linear_attention", Elementwise(gates // 2, gates), 1, ("gates",),
            (Tensor("decay", gates),), holds=("convolved",),
        ),
        Op(
            "delta_rule", "linear_attention", rule, CHUNKED_KERNELS, ("convolved", "decay"),
            (*out, Tensor("delta_scratch", chunks)),
        ),
    ]  # fmt: skip
