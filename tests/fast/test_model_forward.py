"""The ops of a forward: products, bytes, sharding, dataflow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcg.errors import InputError
from simcg.model.activations import lifetimes
from simcg.model.architecture import Architecture, LayerKind
from simcg.model.catalog import architecture_named, model_names
from simcg.model.forward import PHASES, forward_pass
from simcg.model.ops import (
    AllReduce,
    Attention,
    BatchedGemm,
    Dtype,
    Elementwise,
    ForwardPass,
    Gemm,
    GroupedGemm,
    Op,
    flops_per_row,
    weight_bytes,
)
from simcg.model.table import model_rows, model_totals

DTYPES: tuple[Dtype | None, ...] = (None, "bf16", "fp8", "mxfp4", "nvfp4")
CASES = [(name, tp, dtype) for name in model_names() for tp in (1, 2, 8) for dtype in DTYPES]


REPLICATED = {
    "router", "shared_gate", "qkv_a", "index_key", "index_query", "index_gates",
}  # fmt: skip
"""Products that every rank computes in full, beside key-value heads that are too few."""


def matrix_params(arch: Architecture) -> int:
    """Parameters of the matrices that multiply one token, counted here from the sizes alone."""
    layers = 0
    for kind in arch.layer_kinds:
        shared = 3 * arch.shared_intermediate + arch.shared_gate
        experts = arch.experts + 3 * arch.top_k * arch.moe_intermediate + shared
        layers += mixer_params(arch, kind)
        layers += arch.hidden * (experts if kind.moe else 3 * arch.intermediate)
    return layers + arch.vocab * arch.hidden


def mixer_params(arch: Architecture, kind: LayerKind) -> int:
    """Of the products around and inside a layer's attention."""
    if kind.mixer == "heads":
        wide = arch.heads * (2 + arch.attention_gate) + 2 * arch.kv_heads
        return arch.hidden * arch.head_dim * wide
    if kind.mixer == "linear":
        d = arch.need_delta()
        values = d.value_heads * d.value_dim
        return arch.hidden * (2 * d.key_heads * d.key_dim + 3 * values + 2 * d.value_heads)
    m = arch.need_latent()
    per_head = m.q_rank * (m.nope_dim + m.rope_dim) + m.kv_rank * (m.nope_dim + m.v_dim)
    around = arch.hidden * (m.q_rank + m.kv_rank + m.rope_dim)
    total = around + arch.heads * (per_head + m.v_dim * arch.hidden)
    if kind.mixer == "sparse":
        x = arch.need_indexer()
        total += m.q_rank * x.heads * x.head_dim + arch.hidden * (x.head_dim + x.heads)
    return total


@pytest.mark.parametrize("name", model_names())
def test_flops_are_twice_the_matrices_that_a_token_uses(name: str) -> None:
    """Products of one row cost two operations a parameter: the active ones less vectors.

    Absorbed products of latent attention (decode) have as many as the expansion (prefill).
    """
    arch = architecture_named(name)
    flops = sum(flops_per_row(op.shape) for op in forward_pass(arch).ops)
    assert flops == 2 * matrix_params(arch)
    assert flops == sum(flops_per_row(op.shape) for op in forward_pass(arch, phase="decode").ops)
    assert flops == pytest.approx(2 * arch.active_params, rel=0.005)
    assert flops <= 2 * arch.active_params


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in model_names() for d in DTYPES])
def test_the_matrices_of_the_ops_are_the_weights_of_the_architecture(
    name: str, dtype: Dtype | None
) -> None:
    """Bytes streamed by all ops = bytes stored, less the embedding, norms, biases and sinks.

    Absorbed products stream 16-bit copies of matrices that are stored in other types than fp8.
    """
    arch = architecture_named(name)
    stored = arch if dtype is None else arch.with_weights(dtype)
    ops = forward_pass(arch, dtype=dtype).ops
    streamed = sum(weight_bytes(op.shape) for op in ops)
    absorbed = [op.shape for op in ops if isinstance(op.shape, BatchedGemm)]
    original = stored.weights.attention
    copies = sum(
        weight_bytes(shape) - weight_bytes(replace(shape, weights=original)) for shape in absorbed
    )
    assert (copies > 0) == (bool(absorbed) and original not in ("bf16", "fp8"))
    rest = stored.weight_bytes() - (streamed - copies)
    table = arch.vocab * arch.hidden * 2
    biases = arch.layers * arch.experts * (2 * arch.moe_intermediate + arch.hidden) * 2
    norms = (2 * arch.layers + 1) * arch.hidden * 2
    assert table < rest < table + norms + 1.1 * biases * arch.expert_bias + 6_000_000


@pytest.mark.parametrize("name", model_names())
@pytest.mark.parametrize("tp", [2, 4, 8, 16])
def test_shards_sum_to_the_whole(name: str, tp: int) -> None:
    """tp ranks do the work of one, but for what each of them does in full: see ``REPLICATED``."""
    arch = architecture_named(name)
    whole, shard = forward_pass(arch), forward_pass(arch, tp=tp)
    copies = arch.rank_kv_heads(tp) * tp // arch.kv_heads
    extra_kv = 2 * arch.hidden * arch.head_dim * arch.kv_heads * (copies - 1)
    for ops, part in zip((*whole.layers, whole.tail), (*shard.layers, shard.tail), strict=True):
        parts = {op.name: op for op in part}
        for op in ops:
            expected = flops_per_row(op.shape) + 2 * extra_kv * (op.name == "qkv")
            ranks = 1 if op.name in REPLICATED else tp
            assert flops_per_row(parts[op.name].shape) * ranks == expected, op.name


@pytest.mark.parametrize("name", model_names())
def test_equal_layers_are_one_tuple(name: str) -> None:
    """Layers of one kind are the same object, so that work on one serves all."""
    arch = architecture_named(name)
    fp = forward_pass(arch, tp=2)
    assert len({id(layer) for layer in fp.layers}) == len(set(arch.layer_kinds))
    windows = [op.shape.window for op in fp.ops if isinstance(op.shape, Attention)]
    assert windows == [kind.window for kind in arch.layer_kinds if kind.mixer == "heads"]


@pytest.mark.parametrize(("name", "tp", "dtype"), CASES)
def test_every_tensor_that_is_read_was_written_and_is_read(
    name: str, tp: int, dtype: Dtype | None
) -> None:
    """Dataflow: no op reads what does not exist; only scratch and the last result stay unread."""
    for phase in PHASES:
        fp = forward_pass(architecture_named(name), tp=tp, dtype=dtype, phase=phase)
        lives = lifetimes(fp)
        unread = [life.tensor.name for life in lives if life.last_read == life.written]
        last = ["logits" if tp == 1 else "all_logits"]
        assert [one for one in unread if one != "delta_scratch"] == last
        assert all(not set(op.holds) & set(op.reads) for op in fp.ops)


def test_a_read_of_nothing_is_refused() -> None:
    """A forward whose op reads an unknown name has no lifetimes."""
    op = Op("lonely", "norm", Elementwise(2, 2), 1, reads=("ghost",), writes=())
    with pytest.raises(InputError, match="lonely"):
        lifetimes(ForwardPass("broken", (op,), (), ()))


@pytest.mark.parametrize("name", model_names())
def test_breaks_and_collectives_sit_where_engines_put_them(name: str) -> None:
    """One break a layer, around its attention; two all-reduces a layer, one more after the lookup.

    A norm over the heads of all ranks reduces its sums too.
    """
    arch = architecture_named(name)
    for tp in (1, 2):
        fp = forward_pass(arch, tp=tp)
        for layer in fp.layers:
            breaks = [i for i, op in enumerate(layer) if op.is_break]
            assert breaks == list(range(breaks[0], breaks[-1] + 1))
            assert layer[breaks[-1]].kind in ("attention", "linear_attention")
        reductions = [op for op in fp.ops if isinstance(op.shape, AllReduce)]
        a_layer = 2 + arch.wide_qk_norm
        assert len(reductions) == (a_layer * arch.layers + 2 if tp > 1 else 0)


@pytest.mark.parametrize(
    ("name", "dtype", "kernels"),
    [
        ("llama-3.1-8b", "bf16", {10}),
        ("qwen3-8b", "bf16", {12}),
        ("gpt-oss-120b", None, {15}),
        ("qwen3-235b-a22b", "bf16", {17}),
        ("qwen3-235b-a22b", "fp8_block", {21}),
        ("minimax-m2.5", "bf16", {17}),  # sums of squares, then the norm
        # 2 norms, 12 of latent attention, then 3 of a dense layer, or 8 of experts and 4 of
        # the shared one
        ("deepseek-r1", "bf16", {2 + 11 + 3, 2 + 11 + 8 + 4}),
        # a product more is absorbed than expanded; 9 of the indexer
        ("glm-5.2", "bf16", {2 + 11 + 9 + 3, 2 + 11 + 8 + 4, 2 + 11 + 9 + 8 + 4}),
        # 14 of linear attention, 7 of full attention with its gate, 15 with a gated shared expert
        ("qwen3.5-397b-a17b", "bf16", {2 + 15 + 15, 2 + 8 + 15}),
    ],
)
def test_kernels_of_a_layer_are_those_that_the_docstrings_count(
    name: str, dtype: Dtype | None, kernels: set[int]
) -> None:
    """Kernels of each kind of layer, on one rank."""
    layers = forward_pass(architecture_named(name), dtype=dtype).layers
    assert {sum(op.kernels for op in layer) for layer in layers} == kernels


def test_the_published_capture_times_scale_with_our_count_of_ops() -> None:
    """Capture of GLM-5.2 took 35.2 s over 78 layers, of Qwen3-235B 27.7 s over 94: 1.53 a layer.

    Both on four ranks, 42 shapes (SGLang blog, 2026-08-17); our kernels a layer are 1.5 to 1.6.
    """
    published = (35.2 / 78) / (27.7 / 94)
    for dtype in ("bf16", "fp8_block"):
        glm, qwen = (
            forward_pass(architecture_named(name), tp=4, dtype=dtype)
            for name in ("glm-5.2", "qwen3-235b-a22b")
        )
        a_layer = [sum(op.kernels for op in fp.ops) / len(fp.layers) for fp in (glm, qwen)]
        assert a_layer[0] / a_layer[1] == pytest.approx(published, rel=0.05)


def test_llama_layer_bytes_and_shapes_are_as_computed_by_hand() -> None:
    """One Llama-3.1-8B layer on two ranks: every product and every element-wise byte."""
    fp = forward_pass(architecture_named("llama-3.1-8b"), tp=2)
    hidden = 8192  # bytes of one bf16 row of 4096
    expected = {
        "input_norm": Elementwise(2 * hidden, 2 * hidden),
        "qkv": Gemm(4096, 3072),
        "rotary": Elementwise((16 + 4) * 256 + 512, (16 + 4) * 256),
        "kv_write": Elementwise(2 * 4 * 256, 2 * 4 * 256),
        "attention": Attention(16, 4, 128),
        "o": Gemm(2048, 4096),
        "attention_all_reduce": AllReduce(hidden, 2),
        "post_attention_norm": Elementwise(2 * hidden, 2 * hidden),
        "gate_up": Gemm(4096, 14336),
        "activation": Elementwise(2 * 7168 * 2, 7168 * 2),
        "down": Gemm(7168, 4096),
        "mlp_all_reduce": AllReduce(hidden, 2),
    }
    assert {op.name: op.shape for op in fp.layers[0]} == expected
    assert [op.name for op in fp.layers[0]] == list(expected)


def test_moe_layer_bytes_and_shapes_are_as_computed_by_hand() -> None:
    """The experts of one fp8_block Qwen3-30B-A3B layer on eight ranks: 8 of 128, 96 wide."""
    fp = forward_pass(architecture_named("qwen3-30b-a3b"), tp=8, dtype="fp8_block")
    names = [op.name for op in fp.layers[0]]
    experts = fp.layers[0][names.index("router") : names.index("mlp_all_reduce")]
    expected = {
        "router": Gemm(2048, 128),
        "topk": Elementwise(256, 64),
        "moe_sort": Elementwise(64, 32),
        "experts_gate_up_quantize": Elementwise(4096, 2048 + 16 * 4),
        "experts_gate_up": GroupedGemm(128, 8, 2048, 192, "fp8_block", "fp8"),
        "activation": Elementwise(8 * 384, 8 * 192),
        "experts_down_quantize": Elementwise(8 * 192, 8 * (96 + 4)),
        "experts_down": GroupedGemm(128, 8, 96, 2048, "fp8_block", "fp8"),
        "moe_combine": Elementwise(8 * 4096, 4096),
    }
    assert {op.name: op.shape for op in experts} == expected
    allocated = {t.name: t.row_bytes for op in experts for t in op.writes}
    assert allocated == {
        "router_logits": 256,
        "routes": 64,
        "sorted_rows": 32,
        "experts_gate_up_input": 2112,
        "expert_rows": 8 * 4096,  # shared by both products, so as wide as the wider
        "activated": 8 * 192,
        "experts_down_input": 800,
    }
    held = next(op for op in experts if op.name == "activation").holds
    assert set(held) == {"hidden", "router_logits", "routes", "sorted_rows"}


def test_the_tail_gathers_a_padded_share_of_the_vocabulary() -> None:
    """Three ranks share 100 words as 34 each; the gather counts half of what it collects."""
    arch = replace(architecture_named("qwen3-8b"), vocab=100, heads=24, intermediate=12)
    arch = replace(arch, kv_heads=3)
    shapes = {op.name: op.shape for op in forward_pass(arch, tp=3).tail}
    assert shapes["logits"] == Gemm(4096, 34)
    assert shapes["logits_gather"] == AllReduce(102, 3)


@pytest.mark.parametrize("dtype", ["fp8", "nvfp4"])
def test_eight_and_four_bit_products_quantise_their_inputs(dtype: Dtype) -> None:
    """fp8 and nvfp4 add one kernel before each product but router and logits; mxfp4 none."""
    for name, products in (("qwen3-8b", 4), ("qwen3-30b-a3b", 4)):
        arch = architecture_named(name)
        plain = sum(op.kernels for op in forward_pass(arch).ops)
        quantised = forward_pass(arch, dtype=dtype)
        assert sum(op.kernels for op in quantised.ops) - plain == products * arch.layers
        widened = forward_pass(arch, dtype="mxfp4")
        assert sum(op.kernels for op in widened.ops) == plain
        used = {op.shape.activations for op in widened.ops if isinstance(op.shape, Gemm)}
        assert used == {"bf16"}


def test_the_table_lists_each_kind_of_layer_once_and_sums_to_the_totals() -> None:
    """Rows weighted by their layers give the kernels, the breaks and the products of a forward."""
    arch = architecture_named("gpt-oss-120b")
    fp = forward_pass(arch, tp=2)
    rows, totals = model_rows(fp), model_totals(arch, tp=2)
    assert {r.section: r.layers for r in rows} == {
        "head": 1,
        "layer (window 128, experts)": 18,
        "layer (full, experts)": 18,
        "tail": 1,
    }
    assert sum(r.kernels * r.layers for r in rows) == totals.kernels
    assert sum(r.layers for r in rows if r.is_break) == totals.breaks == 36
    flops = sum(r.flops * r.layers for r in rows)
    assert flops == sum(flops_per_row(op.shape) for op in fp.ops)
    assert totals.collectives == 74
    assert totals.total_params == arch.total_params
    assert totals.weight_bytes == arch.weight_bytes(2)
    assert all(r.shape for r in rows)


def test_two_kinds_of_feed_forward_live_in_one_model() -> None:
    """A model whose first layer is dense has two kinds of layer and consistent products."""
    arch = architecture_named("qwen3-30b-a3b")
    first = replace(arch.layer_kinds[0], moe=False)
    mixed = replace(arch, layer_kinds=(first, *arch.layer_kinds[1:]), intermediate=6144)
    fp = forward_pass(mixed)
    assert len(set(fp.layers)) == 2
    assert sum(flops_per_row(op.shape) for op in fp.ops) == 2 * matrix_params(mixed)


@pytest.mark.parametrize(("name", "ep"), [("deepseek-r1", 8), ("gpt-oss-120b", 4), ("kimi-k2", 2)])
def test_spread_experts_are_the_same_work_in_other_pieces(name: str, ep: int) -> None:
    """A rank holds fewer, wider experts and sees fewer rows of each: equal bytes and products.

    Everything but the experts is as without, and what a row moves through them shrinks too.
    """
    arch = architecture_named(name)
    split, spread = forward_pass(arch, tp=8), forward_pass(arch, tp=8, ep=ep)
    assert [op.name for op in split.ops] == [op.name for op in spread.ops]
    for one, other in zip(split.ops, spread.ops, strict=True):
        assert flops_per_row(one.shape) == flops_per_row(other.shape)
        assert weight_bytes(one.shape) == weight_bytes(other.shape)
        if isinstance(other.shape, GroupedGemm) and isinstance(one.shape, GroupedGemm):
            assert (other.shape.experts, other.shape.top_k) == (
                arch.experts // ep,
                arch.top_k // ep,
            )
            assert other.shape.k * other.shape.n == ep * one.shape.k * one.shape.n
        elif one.part_of is None:
            assert one.shape == other.shape
    assert spread.name == f"{name} tp8 ep{ep}"


@pytest.mark.parametrize(
    ("name", "tp", "ep", "what"),
    [
        ("gpt-oss-120b", 8, 8, "a divisor of 4 (choices a token)"),
        ("deepseek-r1", 8, 16, "a divisor of 8 (ranks)"),
        ("deepseek-r1", 8, 0, "an integer >= 1"),
    ],
)
def test_experts_that_cannot_be_spread_evenly_are_refused(
    name: str, tp: int, ep: int, what: str
) -> None:
    """The line names the model, ep, its value and what cannot be shared."""
    with pytest.raises(InputError, match="ep") as error:
        forward_pass(architecture_named(name), tp=tp, ep=ep)
    assert what in str(error.value)
