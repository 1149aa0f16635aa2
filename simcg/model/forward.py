"""The ops of one prefill forward on one rank, in the order an engine issues them.

Kernel counts and in-place updates are our own count from reading how SGLang and vLLM structure
these layers (fused QKV and gate-up projections, fused add + RMSNorm, in-place rotary, a fused
MoE of sort, two grouped products and a sum). They are derived, not measured: other attention
or MoE back ends, another version or fused all-reduce kernels launch other numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from simcg.model.architecture import ACTIVATION_BYTES, Architecture, LayerKind
from simcg.model.ops import (
    AllReduce,
    Attention,
    Dtype,
    Elementwise,
    Experts,
    ForwardPass,
    Gemm,
    GroupedGemm,
    Op,
    OpKind,
    Tensor,
)

SCALE_GROUP = 128
"""Activations are quantised to fp8 with one fp32 scale per token and 128 channels."""


def forward_pass(arch: Architecture, *, tp: int = 1, dtype: Dtype | None = None) -> ForwardPass:
    """One prefill forward of ``arch`` on one of ``tp`` ranks.

    ``dtype`` stores attention, dense and expert matrices differently from the checkpoint.
    Layers of one kind are the same tuple. Raises ``InputError`` if ``tp`` does not divide the
    heads or the intermediate sizes.
    """
    arch.check_tp(tp)
    if dtype is not None:
        arch = arch.with_weights(dtype)
    kinds = {kind: _layer(arch, kind, tp) for kind in dict.fromkeys(arch.layer_kinds)}
    return ForwardPass(
        name=f"{arch.name} tp{tp}",
        head=_head(arch, tp),
        layers=tuple(kinds[kind] for kind in arch.layer_kinds),
        tail=_tail(arch, tp),
    )


def _head(arch: Architecture, tp: int) -> tuple[Op, ...]:
    """Lookup: 1 kernel; vocabulary-parallel: 3 (mask the ids, look up, zero the rest).

    The first norm starts the residual stream instead of adding to it. It is issued as every
    other norm so that layers are equal, and the buffer it writes is counted here.
    """
    row = arch.hidden * ACTIVATION_BYTES
    lookup = Op(
        "embedding",
        "embedding",
        Elementwise(read_bytes=8 + row, write_bytes=row),
        kernels=1 if tp == 1 else 3,
        reads=(),
        writes=(Tensor("residual", row), Tensor("hidden", row)),
    )
    return (lookup, *_all_reduce("embedding_all_reduce", arch, tp, ("hidden", "residual")))


def _layer(arch: Architecture, kind: LayerKind, tp: int) -> tuple[Op, ...]:
    feed_forward = _moe(arch, tp) if kind.moe else _mlp(arch, tp)
    return (
        _norm("input_norm", arch),
        *_frame(_attention(arch, kind, tp)),
        *_all_reduce("attention_all_reduce", arch, tp, ("hidden",)),
        _norm("post_attention_norm", arch),
        *_frame(feed_forward),
        *_all_reduce("mlp_all_reduce", arch, tp, ("hidden",)),
    )


def _tail(arch: Architecture, tp: int) -> tuple[Op, ...]:
    """The last norm over all tokens, the last row of each request (3 kernels), the logits.

    With ``tp`` > 1 each rank computes its share of the vocabulary and the shares are gathered.
    A gather moves every byte once where an all-reduce moves it twice, so it stands here as an
    all-reduce of half its bytes.
    """
    row = arch.hidden * ACTIVATION_BYTES
    share = arch.rank_vocab(tp) * ACTIVATION_BYTES
    last = Op(
        "last_rows",
        "elementwise",
        Elementwise(row + 8, row + 8),
        kernels=3,  # cumulative sum of the lengths, minus one, gather
        reads=("hidden",),
        writes=(Tensor("last_hidden", row, "requests"),),
        rows="requests",
    )
    logits = Op(
        "logits",
        "gemm",
        Gemm(arch.hidden, arch.rank_vocab(tp)),
        kernels=1,
        reads=("last_hidden",),
        writes=(Tensor("logits", share, "requests"),),
        rows="requests",
        holds=("hidden",),
    )
    ops = (_norm("final_norm", arch), last, logits)
    if tp == 1:
        return ops
    gather = Op(
        "logits_gather",
        "collective",
        AllReduce(share * tp // 2, tp),
        kernels=1,
        reads=("logits",),
        writes=(Tensor("all_logits", share * tp, "requests"),),
        rows="requests",
        holds=("hidden", "last_hidden"),
    )
    return (*ops, gather)


def _norm(name: str, arch: Architecture) -> Op:
    """residual += hidden, hidden = norm(residual): 1 kernel, both in place."""
    both = 2 * arch.hidden * ACTIVATION_BYTES
    shape = Elementwise(read_bytes=both, write_bytes=both)
    return Op(name, "norm", shape, 1, reads=("hidden", "residual"), writes=())


def _all_reduce(name: str, arch: Architecture, tp: int, reads: tuple[str, ...]) -> tuple[Op, ...]:
    """1 kernel, in place; nothing on a single rank."""
    if tp == 1:
        return ()
    shape = AllReduce(arch.hidden * ACTIVATION_BYTES, tp)
    return (Op(name, "collective", shape, 1, reads=reads, writes=()),)


def _attention(arch: Architecture, kind: LayerKind, tp: int) -> list[Op]:
    """Norm of queries and keys (2 kernels), rotary, cache write and attention (1 each).

    Only attention is a break: the rest depends on the tokens alone.
    """
    heads, kv_heads = arch.heads // tp, arch.rank_kv_heads(tp)
    q = heads * arch.head_dim
    kv = kv_heads * arch.head_dim
    qk_row = (q + kv) * ACTIVATION_BYTES
    kv_row = 2 * kv * ACTIVATION_BYTES
    angles = arch.head_dim * 4  # one fp32 row of cosines and sines
    stored = arch.weights.attention
    ops = _linear("qkv", (arch.hidden, q + 2 * kv), stored, "hidden", "qkv")
    if arch.qk_norm:
        ops.append(Op("qk_norm", "norm", Elementwise(qk_row, qk_row), 2, ("qkv",), ()))
    return [
        *ops,
        Op("rotary", "rotary", Elementwise(qk_row + angles, qk_row), 1, ("qkv",), ()),
        Op("kv_write", "kv_write", Elementwise(kv_row, kv_row), 1, ("qkv",), ()),
        Op(
            "attention",
            "attention",
            Attention(heads, kv_heads, arch.head_dim, kind.window),
            kernels=1,
            reads=("qkv",),
            writes=(Tensor("attention_out", q * ACTIVATION_BYTES),),
            is_break=True,
        ),
        *_linear("o", (q, arch.hidden), stored, "attention_out", "hidden"),
    ]


def _mlp(arch: Architecture, tp: int) -> list[Op]:
    """Gate and up in one product, SiLU * mul in one kernel, down."""
    width = arch.intermediate // tp
    row = width * ACTIVATION_BYTES
    stored = arch.weights.mlp
    return [
        *_linear("gate_up", (arch.hidden, 2 * width), stored, "hidden", "gate_up"),
        Op(
            "activation",
            "activation",
            Elementwise(2 * row, row),
            kernels=1,
            reads=("gate_up",),
            writes=(Tensor("activated", row),),
        ),
        *_linear("down", (width, arch.hidden), stored, "activated", "hidden"),
    ]


def _moe(arch: Architecture, tp: int) -> list[Op]:
    """Router, top-k, sort by expert (2 kernels: count, place), product, activation, product, sum.

    The two products share one buffer, and the sum goes back into ``hidden``.
    """
    k, width = arch.top_k, arch.moe_intermediate // tp
    hidden_row, wide_row = arch.hidden * ACTIVATION_BYTES, width * ACTIVATION_BYTES
    routes = k * 8  # an int32 expert and an fp32 weight a choice
    logits = arch.experts * ACTIVATION_BYTES
    stored = arch.weights.experts
    layer = Experts(arch.hidden, width, arch.experts, k, stored, _activations(stored))
    routed = [
        *_linear("router", (arch.hidden, arch.experts), "bf16", "hidden", "router_logits"),
        Op(
            "topk",
            "router",
            Elementwise(logits, routes),
            kernels=1,
            reads=("router_logits",),
            writes=(Tensor("routes", routes),),
        ),
        Op(
            "moe_sort",
            "moe_sort",
            Elementwise(2 * k * 4, k * 4),
            kernels=2,
            reads=("routes",),
            writes=(Tensor("sorted_rows", k * 4),),
        ),
        *_grouped(
            arch,
            "gate_up",
            (arch.hidden, 2 * width),
            reads=("hidden", "sorted_rows"),
            writes=(Tensor("expert_rows", k * max(2 * wide_row, hidden_row)),),
        ),
        Op(
            "activation",
            "activation",
            Elementwise(2 * k * wide_row, k * wide_row),
            kernels=1,
            reads=("expert_rows",),
            writes=(Tensor("activated", k * wide_row),),
        ),
        *_grouped(
            arch,
            "down",
            (width, arch.hidden),
            reads=("activated", "sorted_rows", "routes", "expert_rows"),
            writes=(),
        ),
        Op(
            "moe_combine",
            "moe_combine",
            Elementwise(k * hidden_row, hidden_row),
            kernels=1,
            reads=("expert_rows", "hidden"),
            writes=(),
        ),
    ]
    chosen = ("router", "topk")  # the rest is what a fused kernel does
    return [op if op.name in chosen else replace(op, part_of=layer) for op in routed]


def _grouped(
    arch: Architecture,
    name: str,
    size: tuple[int, int],
    reads: tuple[str, ...],
    writes: tuple[Tensor, ...],
) -> list[Op]:
    """A product over the experts, its input quantised first where the weights ask for it."""
    stored, (k, n) = arch.weights.experts, size
    copies = 1 if name == "gate_up" else arch.top_k  # rows are copied per expert on the way in
    before = _quantize(f"experts_{name}", k, stored, reads[0], copies)
    shape = GroupedGemm(arch.experts, arch.top_k, k, n, stored, _activations(stored))
    used = tuple(tensor.name for op in before for tensor in op.writes) or reads[:1]
    op = Op(f"experts_{name}", "grouped_gemm", shape, 1, (*used, *reads[1:]), writes)
    return [*before, op]


def _linear(name: str, size: tuple[int, int], stored: Dtype, source: str, target: str) -> list[Op]:
    """A dense product with its bias in the epilogue: 1 kernel, and 1 to quantise its input."""
    k, n = size
    before = _quantize(name, k, stored, source, copies=1)
    reads = tuple(tensor.name for op in before for tensor in op.writes) or (source,)
    writes = (Tensor(target, n * ACTIVATION_BYTES),)
    kind: OpKind = "router" if name == "router" else "gemm"
    return [*before, Op(name, kind, Gemm(k, n, stored, _activations(stored)), 1, reads, writes)]


def _activations(stored: Dtype) -> Dtype:
    """fp8 and nvfp4 products take inputs of that type; mxfp4 weights are widened to bf16."""
    return stored if stored in ("fp8", "nvfp4") else "bf16"


def _quantize(name: str, k: int, stored: Dtype, source: str, copies: int) -> list[Op]:
    """One kernel that writes ``copies`` rows of k values and their scales for each token."""
    if _activations(stored) == "bf16":
        return []
    row = k + -(-k // SCALE_GROUP) * 4 if stored == "fp8" else -(-k // 2) + -(-k // 16)
    shape = Elementwise(copies * k * ACTIVATION_BYTES, copies * row)
    writes = (Tensor(f"{name}_input", copies * row),)
    return [Op(f"{name}_quantize", "elementwise", shape, 1, (source,), writes)]


def _frame(ops: Iterable[Op], argument: str = "hidden") -> list[Op]:
    """Ops issued from one function of an engine: its argument and locals live until it returns.

    Quantised inputs are locals of the product that uses them and die with it.
    """
    out: list[Op] = []
    local = [argument]
    for op in ops:
        out.append(replace(op, holds=tuple(name for name in local if name not in op.reads)))
        if op.kind != "elementwise":
            local += [tensor.name for tensor in op.writes]
    return out
