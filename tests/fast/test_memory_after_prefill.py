"""Live bytes after one prefill of a chunk, against the published chart.

No figure is fitted to it. Two choices were made with it at hand: which of the kernels' tiles
counts, and that the capture stream has the smaller of cuBLAS's default workspaces.

Published: SGLang blog, 2026-08-17, chart and text: gpt-oss-120b at TP2 and GLM-5.2-FP8 at TP4 on
GB300, a chunk of 8,192 tokens, without graphs (0) and with ceilings of 1,024 to 8,192.
"""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.des.memory.after_prefill import (
    CUBLAS_WORKSPACE_BYTES,
    AfterPrefill,
    after_prefill,
    engine_peak,
)
from simcg.des.memory.fused_experts import expert_buffers, padded_rows, tile_rows
from simcg.errors import InputError
from simcg.model.activations import peak_activation_bytes
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.model.ops import Dtype, Experts, ForwardPass

CHUNK = 8192
GIB = 1 << 30
PUBLISHED = {
    "gpt-oss-120b": {0: 0.560, 1024: 0.575, 2048: 0.580, 4096: 0.591, CHUNK: 0.055},
    "glm-5.2": {0: 1.552, 1024: 1.572, 2048: 1.584, 4096: 1.607, CHUNK: 0.456},
}
"""As printed: rounded to thousandths."""
ERRORS = {"gpt-oss-120b": 0.055, "glm-5.2": 0.06}
"""The largest that was found, rounded up. GLM's eager peak is 5.7 % high. With the next larger tile
both models would be a fifth too high.
"""
GPT_OSS = Experts(2880, 1440, 128, 4, "mxfp4")


@cache
def deployed(name: str) -> ForwardPass:
    """On one of the ranks of the chart."""
    if name == "glm-5.2":
        return forward_pass(architecture_named(name), tp=4, dtype="fp8")
    return forward_pass(architecture_named(name), tp=2)


CASES = [(name, ceiling) for name, values in PUBLISHED.items() for ceiling in values]


@pytest.mark.parametrize(("name", "ceiling"), CASES)
def test_the_published_chart(name: str, ceiling: int) -> None:
    """Ten values, each within 6 %."""
    ours = after_prefill(deployed(name), CHUNK, ceiling).total / GIB
    assert ours == pytest.approx(PUBLISHED[name][ceiling], rel=ERRORS[name])


def test_the_charts_order() -> None:
    """A ceiling below the chunk costs more than no graphs, a higher one more; at the chunk less."""
    for name in PUBLISHED:
        ours = [after_prefill(deployed(name), CHUNK, c).total for c in (0, 1024, 2048, 4096, CHUNK)]
        assert ours[0] < ours[1] < ours[2] < ours[3]
        assert ours[4] < ours[0] / 2


def test_the_published_slope_is_one_hidden_row_a_token_in_binary_gigabytes() -> None:
    """From 1,024 to 4,096 tokens each chart grows by that, within its rounding; decimal gigabytes
    are out of it for both models.
    """
    for name, row in (("gpt-oss-120b", 2880 * 2), ("glm-5.2", 6144 * 2)):
        chart = PUBLISHED[name]
        grown = chart[4096] - chart[1024]
        assert abs(3072 * row / GIB - grown) <= 0.001
        assert abs(3072 * row / 1e9 - grown) > 0.001
        ours = after_prefill(deployed(name), CHUNK, 4096).output
        assert ours - after_prefill(deployed(name), CHUNK, 1024).output == 3072 * row


def test_what_the_chart_leaves_beside_output_and_peak_is_eight_to_ten_mib() -> None:
    """For both models and all ceilings: about cuBLAS's default workspace with the static inputs."""
    for name, row in (("gpt-oss-120b", 2880 * 2), ("glm-5.2", 6144 * 2)):
        chart = PUBLISHED[name]
        for ceiling in (1024, 2048, 4096):
            left = (chart[ceiling] - chart[0]) * GIB - ceiling * row
            assert 7.5 <= left / (1 << 20) <= 10.5
    assert CUBLAS_WORKSPACE_BYTES == 8.125 * (1 << 20)


def test_peaks_before_and_after() -> None:
    """Text of the post: .56 to .001 and 1.55 to .35, whose indexer stays eager at the breaks."""
    gpt, glm = (after_prefill(deployed(name), CHUNK, CHUNK).eager / GIB for name in PUBLISHED)
    assert gpt < 0.001
    assert glm == pytest.approx(0.35, abs=0.005)


@given(st.integers(1, CHUNK), st.integers(0, CHUNK))
def test_the_parts_add_up_and_only_an_eager_chunk_has_a_peak(chunk: int, ceiling: int) -> None:
    """A chunk above the ceiling runs eager; output and inputs have the ceiling's rows."""
    forward = deployed("gpt-oss-120b")
    parts = after_prefill(forward, chunk, ceiling)
    assert parts.total == parts.output + parts.inputs + parts.workspace + parts.eager
    assert parts.eager == (engine_peak(forward, chunk) if chunk > ceiling else 0)
    graphs = AfterPrefill(ceiling * 5760, ceiling * 24, CUBLAS_WORKSPACE_BYTES, parts.eager)
    assert parts == (graphs if ceiling else AfterPrefill(0, 0, 0, parts.eager))


@pytest.mark.parametrize("name", ["qwen3-8b", "llama-3.1-70b"])
def test_a_dense_engine_holds_a_layers_input_beside_the_peak(name: str) -> None:
    """The loop over the layers refers to it while the layer runs."""
    arch = architecture_named(name)
    forward = forward_pass(arch)
    hidden = 100 * arch.hidden * 2
    assert engine_peak(forward, 100) == peak_activation_bytes(forward, 100) + hidden


def test_buffers_of_gpt_oss_by_hand() -> None:
    """256 rows an expert: tiles of 128, one below the power of two. 128 tiles are opened by one
    row each, 32,640 rows fill 255 more. 2,880 and 1,440 are padded to 3,072 and 1,536.
    """
    rows = (128 + (8192 * 4 - 128) // 128) * 128
    assert padded_rows(CHUNK, GPT_OSS) == rows == 49_024
    buffers = expert_buffers(GPT_OSS, CHUNK)
    assert buffers is not None
    assert buffers.quantized == 8192 * (3072 + 96)
    assert buffers.first == rows * (1536 + 48)
    assert buffers.second == rows * 3072 * 2
    assert buffers.output == 8192 * 2880 * 2
    assert buffers.total == sum(
        (buffers.quantized, buffers.first, buffers.second, buffers.output, buffers.routing)
    )


@given(
    st.integers(1, 1 << 15),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([8, 128, 256]),
    st.lists(st.integers(0, 255), min_size=1, max_size=64),
)
def test_padded_rows_hold_any_routing(
    tokens: int, top_k: int, experts: int, load: list[int]
) -> None:
    """However rows fall on experts, their tiles fit: here, as the drawn loads share them out."""
    layer = Experts(64, 64, experts, top_k, "mxfp4")
    tile, total = tile_rows(tokens, layer), tokens * top_k
    shares = (load * experts)[:experts]
    counts = [total * share // (sum(shares) or 1) for share in shares]
    counts[0] += total - sum(counts)
    assert sum(-(-count // tile) * tile for count in counts) <= padded_rows(tokens, layer)


@pytest.mark.parametrize("weights", ["fp8", "nvfp4", "mxfp4"])
def test_buffers_grow_with_the_step(weights: Dtype) -> None:
    """Twice the tokens never need less."""
    layer = Experts(2048, 768, 128, 8, weights)
    sizes = [expert_buffers(layer, 1 << power) for power in range(16)]
    totals = [one.total for one in sizes if one is not None]
    assert len(totals) == 16
    assert totals == sorted(totals)


def test_other_weights_keep_the_buffers_of_the_forward_and_no_tokens_are_refused() -> None:
    assert expert_buffers(Experts(64, 64, 8, 2), 16) is None
    with pytest.raises(InputError, match="tokens"):
        expert_buffers(GPT_OSS, 0)
    with pytest.raises(InputError, match="chunk"):
        after_prefill(deployed("gpt-oss-120b"), 0, 0)
    with pytest.raises(InputError, match="ceiling"):
        after_prefill(deployed("gpt-oss-120b"), 1, -1)
