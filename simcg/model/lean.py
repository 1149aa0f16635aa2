"""The ops of the lean decoder that the real backends run, told by how they differ from an engine's.

``real_gpu.models.decoder`` issues exactly these; tests count them, and what they allocate.
"""

from __future__ import annotations

from dataclasses import replace

from simcg.errors import require
from simcg.model.architecture import ACTIVATION_BYTES, Architecture
from simcg.model.forward import forward_pass
from simcg.model.ops import Elementwise, ForwardPass, GroupedGemm, Op, Tensor

GROUPED_KERNELS = 2
"""torch's grouped product lays out its problems in a kernel of its own first."""


def lean_pass(arch: Architecture) -> ForwardPass:
    """One forward of the lean decoder of ``arch``, 16 bit, on one rank, without logits.

    As ``forward_pass`` but: the residual starts as a fill; one kernel norms queries and keys;
    flash attention returns a new tensor and its row sums, and a copy of it to a fixed address
    is part of the break; products that end a part of a layer write over its input, so that a
    pool's blocks keep their places; experts gather their rows first, are sorted by one kernel,
    and free what they no longer need; the last norm writes into the caller's buffer.
    """
    check_lean(arch)
    engine = forward_pass(arch, dtype="bf16")
    layers = {id(layer): _layer(arch, layer) for layer in engine.layers}
    return ForwardPass(
        name=f"lean {arch.name}",
        head=_head(arch),
        layers=tuple(layers[id(layer)] for layer in engine.layers),
        tail=engine.tail[:1],
    )


def check_lean(arch: Architecture) -> None:
    """``InputError`` for a model with parts that the lean decoder does not have."""
    plain = all(kind.mixer == "heads" for kind in arch.layer_kinds)
    plain = plain and not (arch.shared_intermediate or arch.attention_gate or arch.wide_qk_norm)
    expected = "grouped-query attention, norms per head and no shared expert"
    require(plain, "lean decoder", "model", arch.name, expected)


def _head(arch: Architecture) -> tuple[Op, ...]:
    row = arch.hidden * ACTIVATION_BYTES
    lookup = Elementwise(read_bytes=8 + row, write_bytes=row)
    fill = Elementwise(read_bytes=0, write_bytes=row)
    return (
        Op("embedding", "embedding", lookup, 1, (), (Tensor("hidden", row),)),
        Op("fill", "elementwise", fill, 1, (), (Tensor("residual", row),), holds=("hidden",)),
    )


def _layer(arch: Architecture, engine: tuple[Op, ...]) -> tuple[Op, ...]:
    ops: list[Op] = []
    for op in engine:
        if op.name == "router":
            return (*ops, op, *_experts(arch))
        if op.name == "qk_norm":
            ops.append(replace(op, kernels=1))
        elif op.name == "attention":
            ops += _attention(arch, op)
        elif op.name in ("o", "down"):
            ops.append(_in_place(op))
        else:
            ops.append(op)
    return tuple(ops)


def _in_place(op: Op) -> Op:
    """A product into ``hidden``, which it does not read."""
    holds = tuple(name for name in op.holds if name != "hidden")
    return replace(op, reads=(*op.reads, "hidden"), writes=(), holds=holds)


def _attention(arch: Architecture, op: Op) -> tuple[Op, Op]:
    """The break: the attention, and the copy of its result."""
    row = arch.heads * arch.head_dim * ACTIVATION_BYTES
    own = (Tensor("flash_out", row), Tensor("flash_sums", arch.heads * 4))
    read = ("flash_out", "attention_out")
    copy = Op("copy", "elementwise", Elementwise(row, row), 1, read, (), is_break=True)
    return replace(op, writes=(*op.writes, *own)), copy


def _experts(arch: Architecture) -> tuple[Op, ...]:
    """What follows the router's product.

    The names that an op still holds are read later or by the sum, so only the sum states them.
    """
    k, hidden = arch.top_k, arch.hidden * ACTIVATION_BYTES
    wide = arch.moe_intermediate * ACTIVATION_BYTES
    logits, choice = arch.experts * ACTIVATION_BYTES, k * 4

    def grouped(name: str, size: tuple[int, int], source: str, target: str) -> Op:
        shape = GroupedGemm(arch.experts, k, *size)
        written = Tensor(target, k * size[1] * ACTIVATION_BYTES)
        return Op(name, "grouped_gemm", shape, GROUPED_KERNELS, (source,), (written,))

    routes = (Tensor("experts", choice), Tensor("shares", choice))
    order = (Tensor("sorted_rows", choice), Tensor("places", choice))
    gathered = (Tensor("gathered", k * hidden),)
    activated = (Tensor("activated", k * wide),)
    return (
        Op("topk", "router", Elementwise(logits, 2 * choice), 1, ("router_logits",), routes),
        Op("moe_sort", "moe_sort", Elementwise(choice, 2 * choice), 1, ("experts",), order),
        Op(
            "moe_gather", "elementwise", Elementwise(k * hidden + choice, k * hidden), 1,
            ("hidden", "sorted_rows"), gathered,
        ),
        grouped("experts_gate_up", (arch.hidden, 2 * arch.moe_intermediate), "gathered", "gate_up"),
        Op(
            "activation", "activation", Elementwise(2 * k * wide, k * wide), 1,
            ("gate_up",), activated,
        ),
        grouped("experts_down", (arch.moe_intermediate, arch.hidden), "activated", "expert_rows"),
        Op(
            "moe_combine", "moe_combine", Elementwise(k * hidden + 2 * choice, hidden), 1,
            ("expert_rows", "places", "shares", "hidden"), (),
            holds=("router_logits", "experts", "sorted_rows", "activated"),
        ),
    )  # fmt: skip
