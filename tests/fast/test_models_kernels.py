"""The kernels against their definitions, row by row; NaN in a row stays in that row."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.models.kernels import kernels_for, plain
from real_gpu.models.weights import ROTARY_BASE, angles
from tests.decoders import CPU, LLAMA, NAN

torch.set_num_threads(1)
EXPERTS, TOP_K = 7, 3
numbers = st.floats(-8, 8, allow_nan=False)
odd = st.sampled_from([0.0, 1.0, -1.0, NAN, math.inf, -math.inf])


def values(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rms(row: torch.Tensor) -> torch.Tensor:
    return row / math.sqrt(float(row.square().mean()) + 1e-6)


def test_a_cpu_device_gets_the_plain_kernels() -> None:
    """No Triton is imported where no CUDA device is asked for."""
    assert kernels_for(CPU) is plain


def test_add_norm_adds_then_norms_also_in_place() -> None:
    """residual += x, out = norm(residual) * weight, with out a buffer or x itself."""
    x, residual, weight = values(0, 4, 6), values(1, 4, 6), values(2, 6)
    total = x + residual
    for out in (torch.empty_like(x), x):
        stream = residual.clone()
        plain.add_norm(x, stream, weight, out)
        assert torch.equal(stream, total)
        for row in range(4):
            assert torch.allclose(out[row], rms(total[row]) * weight)


def test_heads_are_normed_with_their_own_weights_and_values_left_alone() -> None:
    """Queries by one weight, keys by the other; the columns of values keep their bits."""
    heads, kv, dim = 3, 2, 4
    qkv, q_weight, k_weight = values(0, 5, (heads + 2 * kv) * dim), values(1, dim), values(2, dim)
    before = qkv.clone().view(5, -1, dim)
    plain.qk_norm(qkv, q_weight, k_weight, heads, kv)
    after = qkv.view(5, -1, dim)
    for head in range(heads + 2 * kv):
        for row in range(5):
            weight = q_weight if head < heads else k_weight
            want = rms(before[row, head]) * weight if head < heads + kv else before[row, head]
            assert torch.allclose(after[row, head], want, rtol=0, atol=1e-12)


def test_rotary_rotates_pairs_by_position_and_keeps_lengths() -> None:
    """Each pair turns by position * base^(-pair); scores depend on distances alone."""
    table = angles(LLAMA, CPU, torch.float64)
    dim = LLAMA.head_dim
    x = values(0, 1, dim).repeat(6, 1)
    qkv = torch.cat((x, x.clone()), 1)  # one rotated head, one left alone
    positions = torch.tensor([0, 1, 5, 9, 40, 44])
    plain.rotary(qkv, table, positions, 1)
    turned, left = qkv[:, :dim], qkv[:, dim:]
    assert torch.equal(left, x)
    assert torch.allclose(turned[0], x[0])
    for row, position in enumerate(positions.tolist()):
        for pair in range(dim // 2):
            angle = position * ROTARY_BASE ** (-2 * pair / dim)
            low, high = float(x[0, pair]), float(x[0, pair + dim // 2])
            got = float(turned[row, pair]), float(turned[row, pair + dim // 2])
            assert got == pytest.approx(
                (
                    low * math.cos(angle) - high * math.sin(angle),
                    high * math.cos(angle) + low * math.sin(angle),
                )
            )
    assert float(turned[2] @ turned[3]) == pytest.approx(float(turned[4] @ turned[5]))  # both 4


def test_keys_and_values_go_to_their_slots() -> None:
    """Row i lands in slots[i]; no other slot changes."""
    kv, dim = 2, 4
    qkv, slots = values(0, 3, 5 * kv * dim), torch.tensor([4, 1, 6])
    keys, content = torch.zeros(8, kv, dim).double(), torch.zeros(8, kv, dim).double()
    plain.kv_write(qkv, slots, keys, content)
    by_head = qkv.view(3, -1, dim)
    for cache, part in ((keys, by_head[:, -4:-2]), (content, by_head[:, -2:])):
        expected = torch.zeros(8, kv, dim).double()
        expected[slots] = part
        assert torch.equal(cache, expected)


def test_activations_are_what_the_models_state() -> None:
    """SiLU times up; gpt-oss's clamped sigmoid with its shifted up."""
    x = torch.cat((values(0, 4, 5) * 6, values(1, 4, 5) * 6), 1)
    out = torch.empty(4, 5, dtype=torch.float64)
    gate, up = x[:, :5], x[:, 5:]
    plain.silu_mul(x, out)
    assert torch.allclose(out, torch.nn.functional.silu(gate) * up)
    plain.swiglu(x, out)
    low, bound = gate.clamp(max=7), up.clamp(-7, 7)
    assert torch.allclose(out, low / (1 + torch.exp(-1.702 * low)) * (bound + 1))


@given(
    st.lists(st.lists(numbers | odd, min_size=EXPERTS, max_size=EXPERTS), min_size=1, max_size=5)
)
def test_routes_are_the_softmax_of_the_top_and_always_valid(rows: list[list[float]]) -> None:
    """Experts are in range and different, NaN or not; finite rows get the top k and its softmax."""
    logits = torch.tensor(rows, dtype=torch.float64)
    experts = torch.full((len(rows), TOP_K), -1, dtype=torch.int32)
    weights = torch.empty(len(rows), TOP_K, dtype=torch.float64)
    plain.route(logits, experts, weights)
    for row, chosen, share in zip(rows, experts.tolist(), weights, strict=True):
        assert len(set(chosen)) == TOP_K
        assert set(chosen) <= set(range(EXPERTS))
        if all(map(math.isfinite, row)):
            assert [row[e] for e in chosen] == sorted(row, reverse=True)[:TOP_K]
            top = torch.tensor([row[e] for e in chosen], dtype=torch.float64)
            assert torch.allclose(share, torch.softmax(top, 0))


@st.composite
def routes(draw: st.DrawFn) -> torch.Tensor:
    """Different experts for each of some tokens."""
    one = st.permutations(range(EXPERTS)).map(lambda p: p[:TOP_K])
    return torch.tensor(draw(st.lists(one, min_size=1, max_size=12)), dtype=torch.int32)


@given(routes())
def test_the_sort_is_stable_and_its_inverse_is_given(experts: torch.Tensor) -> None:
    """Choices in order of (expert, token), the ends of each expert, the place of each choice."""
    tokens = experts.shape[0]
    ends, rows = torch.empty(EXPERTS).int(), torch.empty(tokens * TOP_K).int()
    places = torch.empty_like(experts)
    plain.sort_by_expert(experts, ends, rows, places)
    flat = experts.flatten().tolist()
    order = sorted(range(len(flat)), key=lambda i: (flat[i], i))
    assert rows.tolist() == [i // TOP_K for i in order]
    assert [order[p] for p in places.flatten().tolist()] == list(range(len(flat)))
    assert ends.tolist() == [sum(e <= expert for e in flat) for expert in range(EXPERTS)]


@given(routes())
def test_sorted_experts_equal_a_loop_over_tokens(experts: torch.Tensor) -> None:
    """Sort, gather, grouped product and combine give sum_j w_j (x_t @ W_e); NaN stays home."""
    tokens, width, out_width = experts.shape[0], 4, 5
    x, matrices = values(0, tokens, width), values(1, EXPERTS, width, out_width)
    shares = values(2, tokens, TOP_K)
    x[-1] = NAN  # a row of padding
    ends, rows = torch.empty(EXPERTS).int(), torch.empty(tokens * TOP_K).int()
    places = torch.empty_like(experts)
    plain.sort_by_expert(experts, ends, rows, places)
    found = torch.empty(tokens, out_width, dtype=torch.float64)
    product = plain.grouped_mm(x.index_select(0, rows), matrices, ends)
    plain.combine(product, places, shares, found)
    for t in range(tokens - 1):
        want = sum(shares[t, j] * (x[t] @ matrices[experts[t, j]]) for j in range(TOP_K))
        assert torch.allclose(found[t], want, rtol=0, atol=1e-12)
    assert found[-1].isnan().all()
