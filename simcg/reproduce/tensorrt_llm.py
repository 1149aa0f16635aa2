"""DeepSeek's decode step as TensorRT-LLM issues it, told by how it differs from the engine's here.

Counted from TensorRT-LLM's public tech blog 1 (its 13 modules of a decoded MoE layer) and from how
its public modeling_deepseekv3.py fuses: an all-reduce adds the residual and norms; one kernel
rotates, fills the cache and lays the parts of the queries side by side; the product into the
experts activates and quantises what it writes; up to SUMMED_ROWS rows the sum over experts, the
shared expert's part, the all-reduce and the norm are one kernel. Its 4-bit checkpoint keeps
attention in 16 bits. Kernels are counted one by one here as everywhere, though several may be
launched by one call.
"""

from __future__ import annotations

from dataclasses import replace

from simcg.model.ops import ForwardPass, Op

SUMMED_ROWS = 128
"""The most tokens of a step that the fused sum takes (MoEAllReduce.max_token)."""
NORMS = ("input_norm", "post_attention_norm", "final_norm")
BESIDE_QUERIES = ("rotary", "kv_write")
AFTER_PRODUCT = ("activation", "experts_down_quantize")
SUMS = ("moe_combine", "shared_add")


def fused(forward: ForwardPass, sums: bool) -> ForwardPass:
    """That forward with TensorRT-LLM's fusions; ``sums``: of the experts' sums too.

    Of a fused kernel the time of what it takes over is not counted.
    """
    layers = {id(layer): _layer(layer, sums) for layer in forward.layers}
    first = next(op for op in forward.layers[0] if op.name == "input_norm")
    return ForwardPass(
        name=f"TensorRT-LLM {forward.name}",
        head=(*forward.head, first),
        layers=tuple(layers[id(layer)] for layer in forward.layers),
        tail=tuple(op for op in forward.tail if op.name not in NORMS),
    )


def _layer(layer: tuple[Op, ...], sums: bool) -> tuple[Op, ...]:
    """The layer with its fused ops in the place of the last that they are made of."""
    inner = [op for op in layer if op.part_of is not None]
    written = tuple(t for op in inner if op.name == "experts_down_quantize" for t in op.writes)
    takes = {"query_concat": BESIDE_QUERIES, "mlp_all_reduce": SUMS if sums else ()}
    gone = {*NORMS, *BESIDE_QUERIES, *takes["mlp_all_reduce"]}
    ops = []
    for op in layer:
        if op.name in gone or (op in inner and op.name in AFTER_PRODUCT):
            continue
        if op.name == "experts_gate_up":
            ops.append(replace(op, writes=(*op.writes, *written)))
        else:
            read = (
                name for one in layer if one.name in takes.get(op.name, ()) for name in one.reads
            )
            ops.append(_reading(op, (*op.reads, *read)))
    return tuple(ops)


def _reading(op: Op, names: tuple[str, ...]) -> Op:
    reads = tuple(dict.fromkeys(names))
    return replace(op, reads=reads, holds=tuple(n for n in op.holds if n not in reads))
