"""Padding, sentinels, chunks and the order of steps change no real row, in any family."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from itertools import accumulate
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.attention.attention import Attention, active, using
from real_gpu.attention.cache import KvCache
from real_gpu.models.decoder import Decoder
from simcg.batch import Batch
from simcg.errors import InputError
from simcg.model.architecture import Architecture
from tests.decoders import (
    CPU,
    EXPERTS,
    FAMILIES,
    GPT_OSS,
    LLAMA,
    NAN,
    QWEN3,
    QWEN3_MOE,
    Engine,
    Padded,
    random_ids,
)

torch.set_num_threads(1)
by_family = pytest.mark.parametrize("arch", FAMILIES, ids=lambda arch: arch.name)
CLOSE = {"rtol": 0, "atol": 1e-11}


def filled(engine: Engine, batch: Batch, starts: list[int]) -> torch.Tensor:
    """Random context of each request in the cache, NaN in every other slot; the slots in use."""
    source = torch.Generator().manual_seed(3)
    used = torch.zeros(engine.cache.slots, dtype=torch.bool)
    for start, context in zip(starts, batch.context_tokens, strict=True):
        used[start : start + context] = True
    for part in (*engine.cache.keys, *engine.cache.values):
        part.copy_(torch.randn(part.shape, generator=source, dtype=torch.float64))
        part[~used] = NAN
    return used


def packed(batch: Batch) -> list[int]:
    """First slots of requests that lie close together."""
    sizes = [q + c for q, c in zip(batch.query_tokens, batch.context_tokens, strict=True)]
    return [1 + end for end in accumulate(sizes, initial=0)][:-1]


@st.composite
def padded_steps(draw: st.DrawFn) -> tuple[Batch, Padded]:
    """A batch with cached context, and a shape that holds it."""
    sizes = draw(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 10)), min_size=1, max_size=4))
    batch = Batch(tuple(q for q, _ in sizes), tuple(c for _, c in sizes))
    tokens = batch.num_tokens + draw(st.integers(0, 20))
    requests = batch.num_requests + draw(st.integers(0, 3))
    return batch, Padded(tokens, requests, draw(st.booleans()), draw(st.integers(0, 49)))


@by_family
@settings(max_examples=8)
@given(padded_steps())
def test_padding_and_sentinels_do_not_touch_a_real_row(
    arch: Architecture, step: tuple[Batch, Padded]
) -> None:
    """A step at (T, S) gives the rows and the cache of the step at (n, m), whatever pads it.

    Slots outside the requests hold NaN and padded rows of attention come out as NaN, so a leak
    would show; real slots and the sink are all that is written.
    """
    batch, shape = step
    n, m = batch.num_tokens, batch.num_requests
    starts, ids = packed(batch), random_ids(n, 1, arch)
    plain, padded = Engine.of(arch), Engine.of(arch)
    for engine in (plain, padded):
        used = filled(engine, batch, starts)
    expected = plain.step(batch, starts, ids)
    before = [part.clone() for part in (*padded.cache.keys, *padded.cache.values)]
    found = padded.step(batch, starts, ids, shape)
    assert torch.isfinite(expected).all()
    assert torch.allclose(found[:n], expected, **CLOSE)
    written = torch.zeros_like(used)
    written[padded.planner.metadata(n, m).slots] = True
    for old, new, other in zip(
        before,
        (*padded.cache.keys, *padded.cache.values),
        (*plain.cache.keys, *plain.cache.values),
        strict=True,
    ):
        untouched = ~written
        untouched[0] = False  # the sink, which is written only if there is padding
        assert torch.equal(old[untouched].nan_to_num(7.0), new[untouched].nan_to_num(7.0))
        assert torch.allclose(new[used | written][1:], other[used | written][1:], **CLOSE)


@by_family
def test_equal_steps_are_bit_equal_whatever_ran_between(arch: Architecture) -> None:
    """At the same shape the result is the same bits, also after steps of other shapes."""
    engine, batch = Engine.of(arch), Batch((5, 3), (0, 0))
    ids, shape = random_ids(8, 1, arch), Padded(12, 4)
    first = engine.step(batch, [10, 60], ids, shape).clone()
    engine.step(Batch((30,), (0,)), [100], random_ids(30, 2, arch), Padded(40, 2, in_graph=True))
    again = engine.step(batch, [10, 60], ids, shape)
    assert torch.equal(first[:8], again[:8])


@by_family
@settings(max_examples=10)
@given(st.integers(2, 30), st.data())
def test_chunks_of_a_prefill_equal_one_prefill(
    arch: Architecture, n: int, data: st.DataObject
) -> None:
    """Two steps, the second after the first's cached context, give the rows of one step.

    The second chunk shares its step with another request, which changes nothing either.
    """
    cut = data.draw(st.integers(1, n - 1))
    ids, other = random_ids(n, 4, arch), random_ids(3, 5, arch)
    whole = Engine.of(arch).step(Batch((n,), (0,)), [20], ids)
    engine = Engine.of(arch)
    first = engine.step(Batch((cut,), (0,)), [20], ids[:cut])
    second = engine.step(Batch((3, n - cut), (0, cut)), [150, 20], torch.cat((other, ids[cut:])))
    assert torch.allclose(torch.cat((first, second[3:])), whole, **CLOSE)


@by_family
def test_values_neither_vanish_nor_overflow_in_bf16(arch: Architecture) -> None:
    """Hidden states after the last norm are of the order of 1, and logits are finite."""
    engine = Engine.of(arch, CPU, torch.bfloat16)
    found = engine.step(Batch((40,), (0,)), [1], random_ids(40, 1, arch))
    assert 0.7 < float(found.double().std()) < 1.4
    logits = engine.decoder.logits(found)
    assert logits.shape == (40, arch.vocab)
    assert torch.isfinite(logits).all()


def test_tied_embeddings_are_the_head() -> None:
    """Logits are products with the embedding where the model ties them, else with a head."""
    for arch, tied in ((QWEN3, True), (LLAMA, False)):
        weights = Decoder(arch, CPU, torch.float32, seed=1).weights
        assert (weights.head.data_ptr() == weights.embedding.data_ptr()) is tied


def test_parts_of_an_architecture_matter() -> None:
    """Windows, norms of heads, biases and the number of layers each change the result."""
    for arch, other in (
        (GPT_OSS, replace(GPT_OSS, layer_kinds=(GPT_OSS.layer_kinds[1],) * 4)),
        (GPT_OSS, replace(GPT_OSS, model_type="qwen3_moe")),
        (GPT_OSS, replace(GPT_OSS, o_bias=False)),
        (QWEN3_MOE, replace(QWEN3_MOE, qk_norm=False)),
        (QWEN3_MOE, replace(QWEN3_MOE, top_k=2)),
    ):
        ids, batch = random_ids(12, 1, arch), Batch((12,), (0,))
        a, b = (Engine.of(one).step(batch, [1], ids) for one in (arch, other))
        assert not torch.allclose(a, b, rtol=0, atol=1e-3)


def test_a_part_of_the_layers_is_a_model_of_its_own() -> None:
    """``layers`` keeps the first ones, in number and in kind; other counts are refused."""
    decoder = Decoder(GPT_OSS, CPU, torch.float32, seed=1, layers=3)
    assert decoder.arch.layer_kinds == GPT_OSS.layer_kinds[:3]
    assert len(decoder.weights.layers) == 3
    for wrong in (0, 5):
        with pytest.raises(InputError, match=r"Decoder, layers: got .*, expected 1 to 4"):
            Decoder(GPT_OSS, CPU, torch.float32, seed=1, layers=wrong)


def test_the_weights_are_those_that_simcg_counts() -> None:
    """Elements of all weights = ``total_params``, less what the decoder says it leaves out."""
    for arch in FAMILIES:
        weights = Decoder(arch, CPU, torch.float32, seed=1).weights
        omitted = arch.layers * arch.heads * arch.sinks
        if arch.expert_bias:
            omitted += arch.layers * arch.experts * (2 * arch.moe_intermediate + arch.hidden)
        assert elements(weights) - weights.angles.numel() == arch.total_params - omitted


def elements(part: object) -> int:
    """Elements of the distinct tensors in a tree of weights."""
    found: dict[int, int] = {}

    def walk(one: object) -> None:
        if isinstance(one, torch.Tensor):
            found[one.data_ptr()] = one.numel()
        elif isinstance(one, tuple):
            for each in one:
                walk(each)
        elif is_dataclass(one):
            for field in fields(one):
                walk(getattr(one, field.name))

    walk(part)
    return sum(found.values())


def test_seeds_decide_the_weights() -> None:
    """Equal seeds give equal bits, other seeds other weights."""
    a, b, c = (Decoder(LLAMA, CPU, torch.float32, seed=s).weights.embedding for s in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_attention_in_use_is_the_innermost_one() -> None:
    """``using`` nests, and outside it there is none."""
    cache = KvCache.allocate(LLAMA, 4, CPU, torch.float32)
    one, two = (Attention(LLAMA, cache, lambda q, *_: q) for _ in range(2))
    with using(one):
        with using(two):
            assert active() is two
        assert active() is one
    with pytest.raises(LookupError):
        active()


def test_a_router_spreads_tokens_over_experts_in_every_layer() -> None:
    """As a trained one does: random tokens touch nearly as many experts as uniform draws would."""
    layers, experts, top_k, tokens = 24, 64, 4, 64
    arch = replace(
        QWEN3_MOE, layer_kinds=(EXPERTS,) * layers, experts=experts, top_k=top_k, hidden=128,
        heads=8, kv_heads=2, head_dim=16, moe_intermediate=32, vocab=5000,
    )  # fmt: skip
    engine, touched = Engine.of(arch), []
    kernels = engine.decoder.kernels
    names = [name for name in vars(kernels) if callable(getattr(kernels, name))]
    watched = SimpleNamespace(**{name: getattr(kernels, name) for name in names})

    def route(logits: torch.Tensor, chosen: torch.Tensor, shares: torch.Tensor) -> None:
        kernels.route(logits, chosen, shares)
        touched.append(len(chosen.unique()))

    watched.route = route
    engine.decoder.kernels = watched
    engine.step(Batch((tokens,), (0,)), [1], random_ids(tokens, 3, arch))
    uniform = experts * (1 - (1 - top_k / experts) ** tokens)
    assert len(touched) == layers
    assert min(touched) >= 0.9 * uniform
