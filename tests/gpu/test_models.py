"""The lean decoder on a GPU: its kernels, its attention, and what simcg says of its forward."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from real_gpu.attention.attention import Attention, using
from real_gpu.attention.cache import KvCache
from real_gpu.attention.device import attention_kernel
from real_gpu.attention.plan import Planner
from real_gpu.attention.reference import reference_attention
from real_gpu.graphs.cuda import CudaGraphDevice
from real_gpu.graphs.device import Segment
from real_gpu.models.decoder import Decoder, _linear
from real_gpu.models.kernels import kernels_for, plain
from real_gpu.models.weights import Dense, angles
from simcg.batch import Batch
from simcg.model.activations import peak_activation_bytes
from simcg.model.architecture import Architecture
from simcg.model.catalog import architecture_named
from simcg.model.lean import lean_pass
from tests.decoders import NAN, Engine, Padded, random_ids

GPU, BF16 = torch.device("cuda"), torch.bfloat16
MODELS = ["llama-3.1-8b", "qwen3-8b", "qwen3-30b-a3b", "gpt-oss-20b"]
TOKENS, REQUESTS, SLOTS = 2048, 4, 6000
fused = kernels_for(GPU)


def engine_of(arch: Architecture) -> Engine:
    """A bf16 decoder of two layers at the published sizes, with room for a few long requests."""
    decoder = Decoder(arch, GPU, BF16, seed=3, layers=2)
    cache = KvCache.allocate(decoder.arch, SLOTS, GPU, BF16)
    decoder.bind(cache)
    attention = Attention(decoder.arch, cache, attention_kernel(GPU))
    return Engine(decoder, attention, Planner(cache, TOKENS, REQUESTS))


@pytest.fixture(scope="module", params=MODELS)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """One model at a time."""
    torch.cuda.empty_cache()
    yield engine_of(architecture_named(request.param))
    torch.cuda.empty_cache()


def values(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.randn(shape, device=GPU, dtype=torch.float32).to(dtype)


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Within two roundings of bf16, relative to the largest value."""
    a, b = a.double(), b.double()
    return bool((a - b).abs().max() <= b.abs().max() * 2**-7)


def test_row_kernels_equal_the_plain_ones() -> None:
    """Norms, rotary, cache writes and activations at the sizes of real models."""
    torch.manual_seed(0)
    for hidden in (2048, 2880, 4096):
        x, residual, weight = values(7, hidden), values(7, hidden), values(hidden)
        outs = []
        for kernels in (fused, plain):
            mine, stream = x.clone(), residual.clone()
            kernels.add_norm(mine, stream, weight, mine)
            outs.append((mine, stream))
        assert close(outs[0][0], outs[1][0])
        assert torch.equal(outs[0][1], outs[1][1])
    for heads, kv, dim in ((32, 8, 128), (64, 8, 64), (32, 4, 128)):
        qkv, table = values(7, (heads + 2 * kv) * dim), values(100, dim, dtype=torch.float32)
        positions = torch.randint(0, 100, (7,), device=GPU)
        slots = torch.tensor([0, 3, 9, 1, 0, 2, 8], device=GPU)
        q_weight, k_weight = values(dim), values(dim)
        outs = []
        for kernels in (fused, plain):
            mine = qkv.clone()
            kernels.qk_norm(mine, q_weight, k_weight, heads, kv)
            normed = mine.clone()
            kernels.rotary(mine, table, positions, heads + kv)
            outs.append((normed, mine))
        assert all(close(a, b) for a, b in zip(*outs, strict=True))
        keys, content = (torch.zeros(10, kv, dim, device=GPU, dtype=BF16) for _ in range(2))
        fused.kv_write(qkv, slots, keys, content)
        by_head = qkv.view(7, -1, dim)
        for cache, part in ((keys, by_head[:, -2 * kv : -kv]), (content, by_head[:, -kv:])):
            real = slots > 0
            assert torch.equal(cache[slots[real]], part[real])
            assert not cache[[4, 5, 6, 7]].any()
    for width in (768, 2880, 12288):
        x = values(5, 2 * width) * 4
        for name in ("silu_mul", "swiglu"):
            a, b = (torch.empty(5, width, device=GPU, dtype=BF16) for _ in range(2))
            getattr(fused, name)(x, a)
            getattr(plain, name)(x, b)
            assert close(a, b)


@pytest.mark.parametrize(("experts", "top_k"), [(128, 8), (32, 4)])
@pytest.mark.parametrize("tokens", [1, 63, 2048])
def test_expert_kernels_equal_the_plain_ones(experts: int, top_k: int, tokens: int) -> None:
    """Routing is valid for NaN; sort, grouped product and sum give what the plain ones give."""
    torch.manual_seed(1)
    width, hidden = 256, 512
    logits = values(tokens, experts)
    logits[-1] = NAN if tokens > 1 else logits[-1]
    chosen = torch.full((tokens, top_k), -1, device=GPU, dtype=torch.int32)
    shares = torch.empty(tokens, top_k, device=GPU)
    fused.route(logits, chosen, shares)
    assert int(chosen.min()) >= 0
    assert int(chosen.max()) < experts
    assert all(len(set(row)) == top_k for row in chosen.tolist())
    real = slice(0, tokens - 1 if tokens > 1 else 1)
    top = torch.topk(logits[real].float(), top_k).values
    assert torch.equal(logits[real].float().gather(1, chosen[real].long()), top)
    assert torch.allclose(shares[real], torch.softmax(top, -1), atol=1e-6)
    sorts = []
    for kernels in (fused, plain):
        ends = torch.empty(experts, device=GPU, dtype=torch.int32)
        rows = torch.empty(tokens * top_k, device=GPU, dtype=torch.int32)
        places = torch.empty_like(chosen)
        kernels.sort_by_expert(chosen, ends, rows, places)
        sorts.append((ends, rows, places))
    assert all(torch.equal(a, b) for a, b in zip(*sorts, strict=True))
    ends, rows, places = sorts[0]
    x = values(tokens, hidden).index_select(0, rows)
    weight = (values(experts, width, hidden) / math.sqrt(hidden)).transpose(1, 2)
    product = fused.grouped_mm(x, weight, ends)
    first = 0
    for expert, end in enumerate(ends.tolist()):
        if end > first:
            assert close(product[first:end], x[first:end].float() @ weight[expert].float())
        first = end
    sums = [torch.empty(tokens, width, device=GPU, dtype=BF16) for _ in range(2)]
    for kernels, out in zip((fused, plain), sums, strict=True):
        kernels.combine(product, places, shares, out)
    assert close(sums[0][real], sums[1][real])


@pytest.mark.parametrize("sizes", [(32, 8, 128), (64, 8, 64)])
@pytest.mark.parametrize("window", [None, 128])
@pytest.mark.parametrize(
    "batch",
    [
        Batch((300, 1, 64), (0, 500, 77)),
        Batch((129,), (0,)),
        Batch((1, 1, 1, 1), (0, 40, 200, 9)),
    ],
)
def test_flash_attention_over_the_flat_cache_is_the_reference(
    sizes: tuple[int, int, int], window: int | None, batch: Batch
) -> None:
    """Contexts, windows, NaN in foreign slots; baked bounds and sentinels keep every bit."""
    torch.manual_seed(2)
    heads, kv, dim = sizes
    arch = replace(architecture_named("llama-3.1-8b"), heads=heads, kv_heads=kv, head_dim=dim)
    cache = KvCache.allocate(replace(arch, layer_kinds=arch.layer_kinds[:1]), 2000, GPU, BF16)
    n, m = batch.num_tokens, batch.num_requests
    keys, content = values(2000, kv, dim), values(2000, kv, dim)
    starts, slot = [], 5
    foreign = torch.ones(2000, dtype=torch.bool)
    for new, context in zip(batch.query_tokens, batch.context_tokens, strict=True):
        starts.append(slot)
        foreign[slot : slot + new + context] = False
        slot += new + context + 3
    keys[foreign] = content[foreign] = NAN
    planner, kernel = Planner(cache, n + 100, m + 3), attention_kernel(GPU)
    q = values(n + 100, heads, dim)
    live = planner.write(batch, starts, n, m)
    metadata = planner.metadata(n, m)
    found = kernel(q[:n], keys, content, metadata, live, window)
    wanted = reference_attention(q[:n], keys, content, metadata, live, window)
    assert torch.isfinite(found).all()
    assert close(found, wanted)
    planner.write(batch, starts, n + 100, m + 3)
    baked = planner.baked_bounds(n + 100, m + 3)
    padded = kernel(q, keys, content, planner.metadata(n + 100, m + 3), baked, window)
    if live.longest_query > 1:  # with one query each, torch takes another path
        assert torch.equal(padded[:n], found)
    assert close(padded[:n], found)


def captured(
    engine: Engine, device: CudaGraphDevice, tokens: int
) -> tuple[torch.Tensor, torch.Tensor, Segment]:
    """(ids, out, segment) of one captured forward with baked bounds."""
    decoder, planner = engine.decoder, engine.planner
    ids = torch.zeros(tokens, dtype=torch.int64, device=GPU)
    out = torch.full((tokens, decoder.arch.hidden), NAN, device=GPU, dtype=BF16)
    metadata = planner.metadata(tokens, REQUESTS)
    planner.write_idle(tokens, REQUESTS)
    engine.attention.use(metadata, planner.baked_bounds(tokens, REQUESTS))
    with using(engine.attention), torch.no_grad():
        with device.on_capture_stream():
            decoder.forward(ids, metadata, out)
        torch.cuda.synchronize()
        device.begin(device.new_pool())
        decoder.forward(ids, metadata, out)
        segment = device.end()
    return ids, out, segment


def nodes_of_products(engine: Engine, device: CudaGraphDevice, tokens: int) -> list[int]:
    """Nodes of each dense product captured alone: where the library splits k it has two."""
    found = []
    for layer in engine.decoder.weights.layers:
        feed = layer.feed_forward
        more = (feed.gate_up, feed.down) if isinstance(feed, Dense) else (feed.router,)
        for linear in (layer.qkv, layer.o, *more):
            x = torch.zeros((tokens, linear.matrix.shape[0]), device=GPU, dtype=BF16)
            with torch.no_grad(), device.on_capture_stream():
                _linear(x, linear)
            torch.cuda.synchronize()
            with torch.no_grad():
                device.begin(device.new_pool())
                _linear(x, linear)
                found.append(device.end().nodes)
    return found


@pytest.mark.parametrize("tokens", [16, 256, TOKENS])
def test_a_captured_forward_has_the_kernels_that_simcg_counts(engine: Engine, tokens: int) -> None:
    """Graph nodes = the sum of the pass's kernels, and what split products have on top."""
    device = CudaGraphDevice()
    *_, segment = captured(engine, device, tokens)
    extra = sum(nodes - 1 for nodes in nodes_of_products(engine, device, tokens))
    assert segment.nodes == sum(op.kernels for op in lean_pass(engine.decoder.arch).ops) + extra


@pytest.mark.parametrize("tokens", [64, 256, 2048])
def test_a_replay_is_bit_equal_to_eager_at_the_same_size(engine: Engine, tokens: int) -> None:
    """Any batch in a recorded shape: real rows have the bits of the eager padded step."""
    ids, out, segment = captured(engine, CudaGraphDevice(), tokens)
    batches = [
        (Batch((tokens,), (0,)), [1]),
        (Batch((tokens // 3, 5), (100, 0)), [50, 5000]),
        (Batch((1, 1, 1), (40, 0, 900)), [3000, 10, 100]),
    ]
    for step, (batch, starts) in enumerate(batches):
        n = batch.num_tokens
        new = random_ids(n, step, engine.decoder.arch).to(GPU)
        shape = Padded(tokens, REQUESTS, in_graph=True)
        wanted = engine.step(batch, starts, new, shape)[:n].clone()
        assert torch.isfinite(wanted).all()
        ids.zero_()
        ids[:n] = new
        out.fill_(NAN)
        segment.replay()
        assert torch.equal(out[:n], wanted)


def test_the_allocator_peaks_where_simcg_says(engine: Engine) -> None:
    """Peak of an eager forward within 3 % of ``peak_activation_bytes``; buffers not counted."""
    decoder, planner = engine.decoder, engine.planner
    batch, starts = Batch((TOKENS - 100, 100), (0, 300)), [1, 4000]
    bounds = planner.write(batch, starts, TOKENS, 2)
    metadata = planner.metadata(TOKENS, 2)
    engine.attention.use(metadata, bounds)
    ids = random_ids(TOKENS, 0, decoder.arch).to(GPU)
    out = torch.empty(TOKENS, decoder.arch.hidden, device=GPU, dtype=BF16)
    with using(engine.attention), torch.no_grad():
        decoder.forward(ids, metadata, out)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        decoder.forward(ids, metadata, out)
        torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    assert peak == pytest.approx(peak_activation_bytes(lean_pass(decoder.arch), TOKENS), rel=0.03)


def test_thirty_billion_weights_are_drawn_in_seconds() -> None:
    """Qwen3-30B-A3B, 61 GB in bf16: under 20 s, and as many bytes as simcg counts."""
    arch = architecture_named("qwen3-30b-a3b")
    if torch.cuda.mem_get_info()[0] < 1.1 * arch.weight_bytes():
        pytest.skip("not enough free memory for 61 GB of weights")
    before, begin = torch.cuda.memory_allocated(), time.perf_counter()
    decoder = Decoder(arch, GPU, BF16, seed=1)
    torch.cuda.synchronize()
    assert time.perf_counter() - begin < 20
    tables = angles(arch, GPU, torch.float32).nbytes
    grown = torch.cuda.memory_allocated() - before - tables
    assert grown == pytest.approx(arch.weight_bytes(), rel=0.001)
    del decoder
    torch.cuda.empty_cache()
