"""Parameters, bytes and sharding of the built-in architectures."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from simcg.errors import InputError
from simcg.model.architecture import Architecture, LayerKind
from simcg.model.catalog import architecture_named, model_names
from simcg.model.ops import DTYPE_BITS, Dtype, stored_bytes

EXACT = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "qwen3-8b": 8_190_735_360,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "qwen3-32b": 32_762_123_264,
    "llama-3.1-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
}
CARD = {"gpt-oss-20b": (20.91e9, 3.61e9), "gpt-oss-120b": (116.83e9, 5.13e9)}


@pytest.mark.parametrize(("name", "total"), EXACT.items())
def test_total_parameters_are_the_published_count(name: str, total: int) -> None:
    """The parameters of a built-in model are, to the last one, those of its checkpoint."""
    assert architecture_named(name).total_params == total


@pytest.mark.parametrize(("name", "published"), CARD.items())
def test_gpt_oss_has_the_parameters_of_its_model_card(
    name: str, published: tuple[float, float]
) -> None:
    """Total and active parameters round to the model card's, given to 0.01 billion."""
    arch = architecture_named(name)
    assert arch.total_params == pytest.approx(published[0], abs=0.005e9)
    assert arch.active_params == pytest.approx(published[1], abs=0.005e9)


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("deepseek-r1", 671, 37),  # arXiv 2412.19437
        ("kimi-k2", 1000, 32),  # model card: 1T total
        ("kimi-k2.5", 1000, 32),  # model card
        ("glm-5", 744, 40),  # arXiv 2602.15763
        ("minimax-m2.5", 230, 10),  # model card
        ("qwen3.5-397b-a17b", 397, 17),  # its name
    ],
)
def test_big_expert_models_have_the_parameters_that_their_makers_state(
    name: str, total: float, active: float
) -> None:
    """Billions as published, total within 3 % (Kimi's is a round trillion), active within 1."""
    arch = architecture_named(name)
    assert arch.total_params / 1e9 == pytest.approx(total, rel=0.03 if total >= 1000 else 0.006)
    assert arch.active_params / 1e9 == pytest.approx(active, abs=0.9)


def test_an_indexer_costs_little_and_shared_ones_less() -> None:
    """V3.2 is R1 with an indexer in each of 61 layers; GLM-5.2 is GLM-5 with 21 of 78."""
    r1, v32 = architecture_named("deepseek-r1"), architecture_named("deepseek-v3.2")
    one = 1536 * 64 * 128 + 7168 * (128 + 64) + 2 * 128
    assert v32.total_params - r1.total_params == 61 * one
    glm = architecture_named("glm-5").total_params - architecture_named("glm-5.2").total_params
    assert glm == (78 - 21) * (2048 * 32 * 128 + 6144 * (128 + 32) + 2 * 128)


def test_active_parameters_match_the_names_of_the_moe_models() -> None:
    """A3B and A22B: about 3 and 22 billion, without the input embedding; dense: all but it."""
    assert architecture_named("qwen3-30b-a3b").active_params == pytest.approx(3.3e9, rel=0.1)
    assert architecture_named("qwen3-235b-a22b").active_params == pytest.approx(22e9, rel=0.03)
    dense = architecture_named("qwen3-8b")
    assert dense.total_params - dense.active_params == dense.vocab * dense.hidden


def test_the_mxfp4_checkpoint_of_gpt_oss_has_its_published_size() -> None:
    """gpt-oss-120b is published as 60.8 GiB of weights, gpt-oss-20b as 12.8 GiB."""
    for name, gib in (("gpt-oss-120b", 60.8), ("gpt-oss-20b", 12.8)):
        assert architecture_named(name).weight_bytes() / 2**30 == pytest.approx(gib, abs=0.05)


def test_kv_bytes_of_a_token_follow_from_the_heads() -> None:
    """Llama-3.1-8B keeps 128 KiB a token; two ranks halve it; beyond its 8 heads they do not."""
    arch = architecture_named("llama-3.1-8b")
    assert arch.kv_bytes_per_token() == 128 * 1024
    assert arch.kv_bytes_per_token(2) == 64 * 1024
    assert arch.kv_bytes_per_token(8) == arch.kv_bytes_per_token(16)


def test_a_latent_cache_is_small_and_on_every_rank() -> None:
    """DeepSeek-R1 keeps 576 16-bit values a token and layer, the indexer 132 bytes more."""
    r1, v32 = architecture_named("deepseek-r1"), architecture_named("deepseek-v3.2")
    assert r1.kv_bytes_per_token() == r1.kv_bytes_per_token(8) == 61 * 576 * 2
    assert v32.kv_bytes_per_token(4) == 61 * (576 * 2 + 132)
    glm = architecture_named("glm-5.2")
    assert glm.kv_bytes_per_token(4) == 78 * 576 * 2 + 21 * 132
    assert r1.state_bytes_per_request() == 0


def test_linear_layers_keep_a_state_for_each_request() -> None:
    """Qwen3.5: 45 layers of 64 states of 128 x 128 in fp32 and three inputs of 12,288 channels."""
    arch = architecture_named("qwen3.5-397b-a17b")
    assert arch.kv_bytes_per_token() == 15 * 2 * 2 * 256 * 2
    state = 64 * 128 * 128 * 4 + 3 * (2 * 16 * 128 + 64 * 128) * 2
    assert arch.state_bytes_per_request() == 45 * state
    assert arch.state_bytes_per_request(4) == 45 * state // 4


@pytest.mark.parametrize("name", model_names())
def test_weights_of_a_rank_shrink_with_ranks_and_never_below_their_share(name: str) -> None:
    """tp ranks together hold at least the whole model; more ranks never hold more each."""
    arch = architecture_named(name)
    sizes = [arch.weight_bytes(tp) for tp in (1, 2, 4, 8)]
    assert all(b < a for a, b in pairwise(sizes))
    assert all(b * tp >= sizes[0] for b, tp in zip(sizes, (1, 2, 4, 8), strict=True))


@pytest.mark.parametrize("dtype", ["bf16", "fp8", "fp8_block", "mxfp4", "nvfp4", "int4"])
def test_weight_bytes_follow_the_stored_bits(dtype: Dtype) -> None:
    """Changing the stored type changes the matrices' bytes in proportion and nothing else."""
    arch = architecture_named("qwen3-8b")
    matrices = arch.layers * (
        arch.hidden * (2 * arch.heads + 2 * arch.kv_heads) * arch.head_dim
        + 3 * arch.hidden * arch.intermediate
    )
    saved = arch.weight_bytes() - arch.with_weights(dtype).weight_bytes()
    assert saved == pytest.approx(matrices * (16 - DTYPE_BITS[dtype]) / 8, abs=4)


def test_stored_bytes_round_up_and_count_block_scales() -> None:
    """32 mxfp4 weights take 17 bytes, 16 nvfp4 weights 9, one alone takes a whole byte."""
    assert stored_bytes(32, "mxfp4") == 17
    assert stored_bytes(16, "nvfp4") == 9
    assert stored_bytes(1, "mxfp4") == 1


@pytest.mark.parametrize(
    ("name", "tp", "what"),
    [
        ("qwen3-8b", 3, "a divisor of 32 (attention heads)"),
        ("qwen3-8b", 0, "an integer >= 1"),
        ("gpt-oss-120b", 128, "a divisor of 64 (attention heads)"),
    ],
)
def test_ranks_that_do_not_divide_a_size_are_refused_by_name(name: str, tp: int, what: str) -> None:
    """The error names the model, tp, its value and the size that cannot be shared."""
    with pytest.raises(InputError, match="tp") as error:
        architecture_named(name).weight_bytes(tp)
    assert what in str(error.value)


def test_narrow_sizes_and_odd_kv_heads_are_refused() -> None:
    """Intermediate sizes and key-value heads have their own messages."""
    arch = architecture_named("qwen3-8b")
    with pytest.raises(InputError, match="intermediate size"):
        replace(arch, intermediate=12289).check_tp(2)
    with pytest.raises(InputError, match="key-value heads"):
        replace(arch, heads=12, kv_heads=6, intermediate=12).check_tp(4)
    moe = replace(architecture_named("gpt-oss-20b"), moe_intermediate=2881)
    with pytest.raises(InputError, match="experts' intermediate size"):
        moe.check_tp(2)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden": 0},
        {"kv_heads": 5},
        {"top_k": 33},
        {"experts": 0},
        {"layer_kinds": ()},
        {"layer_kinds": (LayerKind(),)},
    ],
)
def test_an_architecture_checks_its_fields(change: dict[str, object]) -> None:
    """An impossible architecture cannot be made."""
    arch: Architecture = architecture_named("gpt-oss-20b")
    with pytest.raises(InputError):
        replace(arch, **change)  # type: ignore[arg-type]  # the wrong values are the point
    with pytest.raises(InputError):
        LayerKind(window=0)
    with pytest.raises(InputError):
        arch.with_weights("fp32")
