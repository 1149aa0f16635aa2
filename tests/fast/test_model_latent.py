"""Latent, sparse and linear attention: their configs, their ops and what they allocate."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simcg.errors import InputError
from simcg.model.activations import break_peak_bytes, break_runs, lifetimes
from simcg.model.architecture import Architecture, LayerKind, WeightDtypes
from simcg.model.catalog import architecture_named
from simcg.model.config import read_config
from simcg.model.forward import forward_pass
from simcg.model.ops import (
    BatchedGemm,
    CausalConv,
    Dtype,
    GatedDelta,
    Gemm,
    IndexLogits,
    LatentAttention,
    Op,
    Tensor,
    weight_bytes,
)
from simcg.model.parts import Delta, Indexer, Latent, Phase
from tests.model_configs import DEEPSEEK, HYBRID, SPARSE


def read(folder: Path, config: dict[str, Any]) -> Architecture:
    file = folder / "model.json"
    file.write_text(json.dumps(config))
    return read_config(file)


def test_a_latent_config_gives_its_sizes_and_its_dense_first_layers(tmp_path: Path) -> None:
    """Every field of the DeepSeek family, two shared experts as one of twice the width."""
    arch = read(tmp_path, DEEPSEEK)
    dense, moe = LayerKind(mixer="latent"), LayerKind(moe=True, mixer="latent")
    assert arch.layer_kinds == (dense, dense, moe, moe, moe)
    assert arch.latent == Latent(q_rank=24, kv_rank=16, nope_dim=8, rope_dim=4, v_dim=12)
    assert (arch.intermediate, arch.experts, arch.top_k, arch.moe_intermediate) == (128, 8, 3, 32)
    assert (arch.shared_intermediate, arch.router_bias, arch.indexer) == (64, True, None)
    assert not read(tmp_path, DEEPSEEK | {"topk_method": "greedy"}).router_bias
    assert read(tmp_path, DEEPSEEK | {"model_type": "kimi_k2"}).layer_kinds == arch.layer_kinds


def test_layers_that_share_a_choice_of_keys_are_read(tmp_path: Path) -> None:
    """``indexer_types`` says which layers index; without it all do."""
    arch = read(tmp_path, SPARSE)
    expected = ["sparse", "sparse_shared", "sparse_shared", "sparse", "sparse_shared"]
    assert [kind.mixer for kind in arch.layer_kinds] == expected
    assert arch.indexer == Indexer(heads=2, head_dim=8, top_k=16, interleaved=True)
    every = read(tmp_path, SPARSE | {"indexer_types": None})
    assert {kind.mixer for kind in every.layer_kinds} == {"sparse"}


def test_a_decoder_inside_a_model_that_sees_images_is_read(tmp_path: Path) -> None:
    """``text_config`` holds the decoder; what stands only around it counts too."""
    arch = read(tmp_path, HYBRID | {"tie_word_embeddings": True})
    assert [kind.mixer for kind in arch.layer_kinds] == ["linear"] * 3 + ["heads"]
    assert arch.delta == Delta(2, 4, 8, 8, 4)
    assert (arch.shared_intermediate, arch.shared_gate, arch.attention_gate) == (24, True, True)
    assert arch.tied_embeddings
    kimi = {"model_type": "kimi_k25", "text_config": DEEPSEEK | {"model_type": "kimi_k2"}}
    assert read(tmp_path, kimi).latent == read(tmp_path, DEEPSEEK).latent


INT4 = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
    "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
               r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
}  # fmt: skip
NVFP4 = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "ignore": ["lm_head", "model.layers.0*", "model.layers.1.*"]
    + [f"language_model.model.layers.{i}.self_attn*" for i in range(5)]
    + [f"model.layers.{i}.mlp.shared_experts*" for i in range(2, 5)],
}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


@pytest.mark.parametrize(
    ("quantisation", "weights"),
    [
        (FP8, WeightDtypes("fp8_block", "fp8_block", "fp8_block")),
        ({"quant_method": "fp8"}, WeightDtypes("fp8", "fp8", "fp8")),
        (INT4, WeightDtypes("bf16", "bf16", "int4", "bf16")),
        (NVFP4, WeightDtypes("bf16", "bf16", "nvfp4", "bf16")),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, WeightDtypes("fp8", "fp8", "fp8")),
        (
            FP8 | {"modules_to_not_convert": ["gate", "lm_head", "model.layers.3.mlp.gate"]},
            WeightDtypes("fp8_block", "fp8_block", "fp8_block"),
        ),
    ],
)
def test_each_part_is_stored_as_its_checkpoint_says(
    tmp_path: Path, quantisation: dict[str, Any], weights: WeightDtypes
) -> None:
    """Blocks, one scale, packed integers, ModelOpt's globs: attention, dense, experts, shared."""
    assert read(tmp_path, DEEPSEEK | {"quantization_config": quantisation}).weights == weights


def quantised(**change: object) -> dict[str, Any]:
    return DEEPSEEK | {"quantization_config": {**FP8, **change}}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (DEEPSEEK | {"q_lora_rank": None}, ["q_lora_rank", "None", "an integer"]),
        (DEEPSEEK | {"attention_bias": True}, ["attention_bias", "without biases"]),
        (DEEPSEEK | {"moe_layer_freq": 2}, ["moe_layer_freq", "2", "every layer"]),
        (DEEPSEEK | {"num_experts_per_tok": 9}, ["num_experts_per_tok", "at most the 8"]),
        (SPARSE | {"indexer_types": ["shared"] * 5}, ["indexer_types", "first of them full"]),
        (SPARSE | {"indexer_types": ["full"]}, ["indexer_types", "5 of full or shared"]),
        (SPARSE | {"indexer_types": None, "index_topk_freq": 4}, ["index_topk_freq", "4"]),
        (SPARSE | {"index_topk": 0}, ["index_topk", "0"]),
        (HYBRID | {"text_config": None}, ["text_config", "decoder"]),
        (HYBRID | {"text_config": HYBRID}, ["text_config, model_type", "qwen3_5_moe"]),
        (
            HYBRID | {"text_config": HYBRID["text_config"] | {"layer_types": ["linear"] * 4}},
            ["text_config, layer_types", "linear_attention or full_attention"],
        ),
        (quantised(weight_block_size=[64, 64]), ["weight_block_size", "[64, 64]", "[128, 128]"]),
        (quantised(quant_method="modelopt", quant_algo="INT8"), ["quant_algo", "NVFP4, FP8"]),
        (
            quantised(modules_to_not_convert=["model.layers.0.self_attn.o_proj"]),
            ["modules_to_not_convert", "the attention of every layer or of none"],
        ),
        (quantised(modules_to_not_convert=["re:("]), ["modules_to_not_convert", "expressions"]),
        (DEEPSEEK | {"quantization_config": INT4 | {"config_groups": {}}}, ["config_groups"]),
    ],
)
def test_what_cannot_be_modelled_is_refused_in_one_line(
    tmp_path: Path, config: dict[str, Any], words: list[str]
) -> None:
    """The line names the file, the field, its value and what was expected."""
    with pytest.raises(InputError) as error:
        read(tmp_path, config)
    text = str(error.value)
    assert "\n" not in text
    for word in ("model.json", *words):
        assert word in text


def by_name(ops: Iterable[Op]) -> dict[str, Op]:
    return {op.name: op for op in ops}


def test_a_latent_prefill_expands_and_a_latent_decode_absorbs() -> None:
    """One DeepSeek-R1 layer on 8 ranks: 16 heads of 192 and 128, or of 576 and 512."""
    arch = architecture_named("deepseek-r1")
    prefill, decode = (
        by_name(forward_pass(arch, tp=8, dtype="bf16", phase=phase).layers[0])
        for phase in ("prefill", "decode")
    )
    expanded = LatentAttention(16, 512, 128, 64, 128)
    assert prefill["attention"].shape == expanded
    assert (expanded.key_dim, expanded.value_dim) == (192, 128)
    assert prefill["kv_b"].shape == Gemm(512, 16 * 256)
    absorbed = replace(expanded, absorbed=True)
    assert decode["attention"].shape == absorbed
    assert (absorbed.key_dim, absorbed.value_dim) == (576, 512)
    assert decode["q_absorb"].shape == BatchedGemm(16, 128, 512)
    assert decode["v_absorb"].shape == BatchedGemm(16, 512, 128)
    for name in ("qkv_a", "q_b", "o"):
        assert prefill[name].shape == decode[name].shape
    assert prefill["qkv_a"].shape == Gemm(7168, 1536 + 576)


@pytest.mark.parametrize(
    ("dtype", "stored"), [("bf16", "bf16"), ("fp8", "fp8"), ("fp8_block", "bf16")]
)
def test_absorbed_products_take_the_type_that_kernels_have(dtype: Dtype, stored: Dtype) -> None:
    """One scale a matrix stays fp8; of blocks engines keep 16-bit copies."""
    arch = architecture_named("deepseek-r1")
    ops = by_name(forward_pass(arch, tp=8, dtype=dtype, phase="decode").layers[0])
    shape = ops["q_absorb"].shape
    assert isinstance(shape, BatchedGemm)
    assert (shape.weights, shape.activations) == (stored, stored)
    assert weight_bytes(shape) == 16 * 128 * 512 * (1 if stored == "fp8" else 2)


def test_sparse_layers_break_around_indexer_and_attention() -> None:
    """The indexer and all of attention but its last product run eager, as one break a layer."""
    fp = forward_pass(architecture_named("glm-5.2"), tp=4)
    own, shared = fp.layers[6], fp.layers[5]
    eager = [op.name for op in own if op.is_break]
    assert eager == [
        "index_key", "index_write", "index_query", "index_quantize", "index_gather",
        "index_scores", "index_select", "index_copy",
        "q_absorb", "rotary", "kv_write", "query_concat", "attention",
    ]  # fmt: skip
    assert [op.name for op in shared if op.is_break] == eager[8:]
    assert len(break_runs(fp)) == 78
    assert by_name(own)["index_scores"].shape == IndexLogits(32, 128)
    attention = by_name(own)["attention"].shape
    assert isinstance(attention, LatentAttention)
    assert (attention.heads, attention.top_k, attention.absorbed) == (16, 2048, True)


def test_layers_that_do_not_index_read_the_keys_that_an_earlier_one_chose() -> None:
    """The positions live from a layer's indexer to the last layer that shares them."""
    fp = forward_pass(architecture_named("glm-5.2"), tp=4)
    starts = [len(fp.head)]
    for layer in fp.layers:
        starts.append(starts[-1] + len(layer))
    chosen = [life for life in lifetimes(fp) if life.tensor.name == "top_keys"]
    owners = [i for i in range(78) if i < 3 or (i - 2) % 4 == 0]
    assert len(chosen) == len(owners) == 21
    for life, owner, following in zip(chosen, owners, [*owners[1:], 78], strict=True):
        assert starts[owner] <= life.written < starts[owner + 1]
        assert starts[following - 1] <= life.last_read < starts[following]


def test_the_indexer_that_stays_eager_allocates_what_was_published() -> None:
    """GLM-5.2 on four ranks, 8,192 tokens: 0.35 GiB left where all else is captured.

    Published as 0.35 GB (SGLang blog, 2026-08-17; binary gigabytes, as the slope of its memory
    rows over the ceiling shows). fp8 queries and head weights, gathered keys, fp32 scores of
    8,192 x (8,192 + 256) and the chosen positions; nothing is fitted.
    """
    fp = forward_pass(architecture_named("glm-5.2"), tp=4, dtype="fp8_block")
    queries, keys = 32 * (128 + 4), 128 + 4
    row = queries + keys + 4 * (8192 + 256) + 4 * 2048
    assert break_peak_bytes(fp, 8192) == 8192 * row
    assert break_peak_bytes(fp, 8192) / 2**30 == pytest.approx(0.35, abs=0.005)
    without = forward_pass(architecture_named("deepseek-r1"), tp=4)
    assert break_peak_bytes(without, 8192) == 0


def test_scores_have_a_row_for_each_token_and_key() -> None:
    """Twice the tokens are four times the scores, or as many as the keys that they see."""
    scores = Tensor("scores", 4, "pairs")
    assert scores.nbytes(100, 7) == 4 * 100 * 100
    assert scores.nbytes(100, 7, keys=3000) == 4 * 100 * 3000
    assert Tensor("rows", 6).nbytes(100, 7) == 600
    assert Tensor("logits", 6, "requests").nbytes(100, 7) == 42


def test_linear_layers_run_in_chunks_in_prefill_and_by_one_kernel_in_decode() -> None:
    """One Qwen3.5 layer on 4 ranks: 3,072 channels, 4 key and 16 value heads of 128."""
    arch = architecture_named("qwen3.5-397b-a17b")
    prefill, decode = (
        by_name(forward_pass(arch, tp=4, phase=phase).layers[0]) for phase in ("prefill", "decode")
    )
    rule = GatedDelta(key_heads=4, value_heads=16, key_dim=128, value_dim=128)
    for ops in (prefill, decode):
        assert ops["conv"].shape == CausalConv(channels=3072, width=4)
        assert ops["delta_rule"].shape == rule
        assert ops["in_qkvz"].shape == Gemm(4096, 3072 + 2048)
        assert ops["in_ba"].shape == Gemm(4096, 2 * 16)
    assert (prefill["delta_rule"].kernels, decode["delta_rule"].kernels) == (8, 1)
    assert set(prefill) - set(decode) == {"delta_gates"}


@pytest.mark.parametrize(
    "change",
    [
        {"latent": None},
        {"indexer": None},
        {"layer_kinds": (LayerKind(mixer="sparse_shared", moe=True),)},
    ],
)
def test_layers_need_the_sizes_of_their_parts(change: dict[str, object]) -> None:
    """Latent layers need ranks, sparse ones an indexer, shared choices a layer that chose."""
    arch = architecture_named("glm-5.2")
    with pytest.raises(InputError):
        replace(arch, **change)  # type: ignore[arg-type]  # the wrong values are the point


def test_parts_are_checked_where_they_are_made() -> None:
    """Sizes are positive, mixers known, and only grouped-query attention has windows."""
    with pytest.raises(InputError, match=r"Latent, kv_rank: got 0"):
        Latent(1, 0, 1, 1, 1)
    with pytest.raises(InputError, match=r"Indexer, top_k"):
        Indexer(1, 1, 0)
    with pytest.raises(InputError, match=r"Delta, conv_width"):
        Delta(1, 1, 1, 1, 0)
    with pytest.raises(InputError, match="window"):
        LayerKind(window=8, mixer="latent")
    with pytest.raises(InputError, match="mixer"):
        LayerKind(mixer="other")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="latent attention"):
        architecture_named("qwen3-8b").need_latent()
    with pytest.raises(InputError, match=r"key heads of linear attention"):
        architecture_named("qwen3.5-397b-a17b").check_tp(32)


@pytest.mark.parametrize("phase", ["short_prefill", "dense_prefill"])
@pytest.mark.parametrize("name", ["deepseek-r1", "gpt-oss-120b", "qwen3.5-397b-a17b"])
def test_short_prompts_change_nothing_where_attention_is_not_sparse(
    name: str, phase: Phase
) -> None:
    arch = architecture_named(name)
    assert forward_pass(arch, tp=2, phase=phase) == forward_pass(arch, tp=2)


def ops_of(layer: Iterable[Op]) -> list[tuple[str, object, int]]:
    return [(op.name, op.shape, op.kernels) for op in layer if not op.name.startswith("index_")]


@pytest.mark.parametrize("name", ["glm-5.2", "deepseek-v3.2"])
def test_short_prompts_outside_graphs_run_as_the_same_model_without_sparsity(name: str) -> None:
    """But for the keys that indexers cache, by kernels of which the whole indexer runs each."""
    arch = architecture_named(name)
    kinds = tuple(replace(kind, mixer="latent") for kind in arch.layer_kinds)
    plain = forward_pass(replace(arch, layer_kinds=kinds, indexer=None), tp=4)
    dense = forward_pass(arch, tp=4, phase="dense_prefill")
    assert [ops_of(layer) for layer in dense.layers] == [ops_of(layer) for layer in plain.layers]
    indexing = {op.name for op in forward_pass(arch, tp=4).ops if op.name.startswith("index_")}
    assert {op.name for op in dense.ops if op.name.startswith("index_")} < indexing


@pytest.mark.parametrize("name", ["glm-5.2", "deepseek-v3.2"])
def test_short_prompts_in_graphs_score_nothing_and_attend_as_long_ones_do(name: str) -> None:
    """All keys are chosen: no product of scores, and less memory at the breaks."""
    arch = architecture_named(name)
    short, long = (forward_pass(arch, tp=4, phase=p) for p in ("short_prefill", "prefill"))
    assert [ops_of(layer) for layer in short.layers] == [ops_of(layer) for layer in long.layers]
    assert not any(isinstance(op.shape, IndexLogits) for op in short.ops)
    assert len(break_runs(short)) == len(break_runs(long)) == arch.layers
    assert break_peak_bytes(short, 2048) < break_peak_bytes(long, 2048)
