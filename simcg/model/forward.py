"""The ops of one forward on one rank, in the order an engine issues them.

Kernel counts and in-place updates are our own count from reading how SGLang and vLLM structure
these layers (fused QKV and gate-up projections, fused add + RMSNorm, in-place rotary, a fused
MoE of sort, two grouped products and a sum). They are derived, not measured: other attention
or MoE back ends, another version or fused all-reduce kernels launch other numbers.
"""

from __future__ import annotations

from dataclasses import replace

from simcg.errors import require
from simcg.model.architecture import ACTIVATION_BYTES, Architecture, LayerKind
from simcg.model.delta import delta_attention
from simcg.model.latent import latent_attention
from simcg.model.linear import frame, linear, quantize
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
    Tensor,
    activation_dtype,
)
from simcg.model.parts import Phase

PHASES: tuple[Phase, ...] = ("prefill", "short_prefill", "dense_prefill", "decode")
SHARED_LOCALS = ("shared_gate_up", "shared_activated", "shared_gate")
"""What the shared expert's function keeps to itself; its result outlives it."""


def forward_pass(
    arch: Architecture,
    *,
    tp: int = 1,
    ep: int = 1,
    dtype: Dtype | None = None,
    phase: Phase = "prefill",
) -> ForwardPass:
    """One forward of ``arch`` on one of ``tp`` ranks.

    ``ep``: groups of ranks that experts are spread over; the ``tp / ep`` ranks of a group split
    each of theirs. Every rank sees all tokens, and in the mean ``top_k / ep`` of a token's
    choices are its group's. ``dtype`` stores attention, dense and expert matrices differently
    from the checkpoint.
    ``phase``: latent and linear attention run other ops when every request adds one token; steps
    that mix both run those of prefill. ``short_prefill``: no prompt has more keys than sparse
    attention chooses, so that indexers only cache theirs; ``dense_prefill``: such a step outside
    graphs, whose sparse layers attend densely. Layers of one kind are the same tuple. Raises
    ``InputError`` if ``tp`` does not divide the heads or the intermediate sizes, or ``ep`` the
    ranks, the experts or the choices.
    """
    arch.check_tp(tp)
    arch.check_ep(ep, tp)
    require(phase in PHASES, arch.name, "phase", phase, "one of " + ", ".join(PHASES))
    if dtype is not None:
        arch = arch.with_weights(dtype)
    kinds = {k: _layer(arch, k, (tp, ep), phase) for k in dict.fromkeys(arch.layer_kinds)}
    return ForwardPass(
        name=f"{arch.name} tp{tp}" + (f" ep{ep}" if ep > 1 else ""),
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


def _layer(
    arch: Architecture, kind: LayerKind, ranks: tuple[int, int], phase: Phase
) -> tuple[Op, ...]:
    """``ranks``: all of them, and the groups of them that experts are spread over."""
    tp, _ = ranks
    feed_forward = _moe(arch, *ranks) if kind.moe else _mlp(arch, tp)
    return (
        _norm("input_norm", arch),
        *_mixer(arch, kind, tp, phase),
        *_all_reduce("attention_all_reduce", arch, tp, ("hidden",)),
        _norm("post_attention_norm", arch),
        *frame(feed_forward, dead=SHARED_LOCALS),
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


def _mixer(arch: Architecture, kind: LayerKind, tp: int, phase: Phase) -> list[Op]:
    """What mixes the tokens of a layer, from the first norm's result to its own."""
    if kind.mixer == "heads":
        return frame(_attention(arch, kind, tp))
    if kind.mixer == "linear":
        return delta_attention(arch, tp, phase == "decode")
    return latent_attention(arch, kind.mixer, tp, phase)


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
    gate = q * arch.attention_gate
    ops = linear("qkv", (arch.hidden, q + gate + 2 * kv), stored, "hidden", "qkv")
    if arch.wide_qk_norm:
        ops += _wide_qk_norm(qk_row, tp)
    elif arch.qk_norm:
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
        *_attention_gate(gate),
        *linear("o", (q, arch.hidden), stored, "attention_out", "hidden"),
    ]


def _wide_qk_norm(row: int, tp: int) -> list[Op]:
    """Sums of squares over a rank's heads, their all-reduce, the scaling: 3 kernels, 2 alone.

    The sums of queries and keys are two fp32 a token.
    """
    sums = (Tensor("square_sums", 8),)
    ops = [Op("qk_sums", "norm", Elementwise(row, 8), 1, ("qkv",), sums)]
    if tp > 1:
        ops.append(Op("qk_all_reduce", "collective", AllReduce(8, tp), 1, ("square_sums",), ()))
    reads = ("qkv", "square_sums")
    return [*ops, Op("qk_norm", "norm", Elementwise(row + 8, row), 1, reads, ())]


def _attention_gate(width: int) -> list[Op]:
    """Attention's result times the sigmoid of a gate that the first product computed: 1 kernel."""
    if not width:
        return []
    row = width * ACTIVATION_BYTES
    shape = Elementwise(2 * row, row)
    return [Op("attention_gate", "elementwise", shape, 1, ("attention_out", "qkv"), ())]


def _mlp(arch: Architecture, tp: int) -> list[Op]:
    """Gate and up in one product, SiLU * mul in one kernel, down."""
    width = arch.intermediate // tp
    row = width * ACTIVATION_BYTES
    stored = arch.weights.mlp
    return [
        *linear("gate_up", (arch.hidden, 2 * width), stored, "hidden", "gate_up"),
        Op(
            "activation",
            "activation",
            Elementwise(2 * row, row),
            kernels=1,
            reads=("gate_up",),
            writes=(Tensor("activated", row),),
        ),
        *linear("down", (width, arch.hidden), stored, "activated", "hidden"),
    ]


def _moe(arch: Architecture, tp: int, ep: int) -> list[Op]:
    """Router, top-k, sort by expert (2 kernels: count, place), product, activation, product, sum.

    The two products share one buffer, and the sum goes back into ``hidden``. A shared expert
    comes first, as in a dense layer, and is added to the sum by one kernel.
    """
    k, width = arch.top_k // ep, arch.moe_intermediate * ep // tp
    hidden_row, wide_row = arch.hidden * ACTIVATION_BYTES, width * ACTIVATION_BYTES
    routes = arch.top_k * 8  # an int32 expert and an fp32 weight a choice
    logits = arch.experts * ACTIVATION_BYTES
    stored = arch.weights.experts
    layer = Experts(arch.hidden, width, arch.experts // ep, k, stored, activation_dtype(stored))
    routed = [
        *linear("router", (arch.hidden, arch.experts), "bf16", "hidden", "router_logits"),
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
            layer,
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
            layer,
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
    experts = [op if op.name in chosen else replace(op, part_of=layer) for op in routed]
    if not arch.shared_intermediate:
        return experts
    row = Elementwise(2 * hidden_row, hidden_row)
    add = Op("shared_add", "elementwise", row, 1, ("hidden", "shared_out"), ())
    return [*_shared(arch, tp), *experts, add]


def _shared(arch: Architecture, tp: int) -> list[Op]:
    """The expert that every token uses; its gate is a product of width 1, a sigmoid, a scaling."""
    width, stored = arch.shared_intermediate // tp, arch.shared_dtype
    row, hidden_row = width * ACTIVATION_BYTES, arch.hidden * ACTIVATION_BYTES
    ops = [
        *linear("shared_gate_up", (arch.hidden, 2 * width), stored, "hidden", "shared_gate_up"),
        Op(
            "shared_activation",
            "activation",
            Elementwise(2 * row, row),
            kernels=1,
            reads=("shared_gate_up",),
            writes=(Tensor("shared_activated", row),),
        ),
        *linear("shared_down", (width, arch.hidden), stored, "shared_activated", "shared_out"),
    ]
    if arch.shared_gate:
        shape = Elementwise(hidden_row + 2, hidden_row)
        scale = Op("shared_scale", "elementwise", shape, 2, ("shared_out", "shared_gate"), ())
        ops += [*linear("shared_gate", (arch.hidden, 1), "bf16", "hidden", "shared_gate"), scale]
    return frame(ops)


def _grouped(
    layer: Experts,
    name: str,
    size: tuple[int, int],
    reads: tuple[str, ...],
    writes: tuple[Tensor, ...],
) -> list[Op]:
    """A product over the experts, its input quantised first where the weights ask for it."""
    stored, (k, n) = layer.weights, size
    copies = 1 if name == "gate_up" else layer.top_k  # rows are copied per expert on the way in
    before = quantize(f"experts_{name}", k, stored, reads[0], copies)
    shape = GroupedGemm(layer.experts, layer.top_k, k, n, stored, layer.activations)
    used = tuple(tensor.name for op in before for tensor in op.writes) or reads[:1]
    op = Op(f"experts_{name}", "grouped_gemm", shape, 1, (*used, *reads[1:]), writes)
    return [*before, op]
